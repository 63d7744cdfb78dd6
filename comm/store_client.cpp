#include <poll.h>

#include <map>
#include <mutex>
#include <thread>

#include "comm/store.h"
#include "comm/store_protocol.h"
#include "runtime/error.h"

namespace ringgrad::comm {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kRetry{200};
constexpr std::chrono::seconds kAnswer{3};  // to a question that the store answers at once

}  // namespace

class StoreClient::Impl {
 public:
  Impl(Address store, JobIdentity identity, int rank, std::shared_ptr<Failure> failure,
       const Deadline& deadline)
      : store_(std::move(store)),
        identity_(std::move(identity)),
        rank_(rank),
        failure_(std::move(failure)) {
    for (std::string why_not; !(why_not = introduce(deadline)).empty();) {
      std::this_thread::sleep_for(kRetry);
      if (deadline.passed()) {
        throw PeerFailure(why_not);
      }
    }
    thread_ = std::thread([this] { listen(); });
  }
  ~Impl() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stopping_ = true;
    }
    thread_.join();
    try {
      say({{"bye", true}});
    } catch (const Error&) {  // the store went first
      return;
    }
  }

  void say(const json& message) {
    const std::string line = json_text(message) + "\n";
    const std::lock_guard<std::mutex> lock(sending_);
    try {
      send_all(socket_, line.data(), line.size(), Deadline(kLostAfter));
    } catch (const Error& error) {
      throw PeerFailure(concat("the store at ", store_.text(), " is gone: ", error.what()));
    }
  }

  // Values stay what they are once they are set; an answer to a question is good for once.
  std::string ask(const json& question, const std::string& answer, const Deadline& deadline) {
    if (answer.front() == '?') {
      const std::lock_guard<std::mutex> lock(mutex_);
      answers_.erase(answer);
    }
    say(question);
    std::unique_lock<std::mutex> lock(mutex_);
    const bool there = deadline.wait(
        changed_, lock, [&] { return answers_.count(answer) > 0 || failure_->raised(); });
    failure_->check();
    return there ? answers_[answer] : "";
  }

  std::string own_address() const { return comm::own_address(socket_); }

  void show_begun(std::shared_ptr<const std::atomic<std::int64_t>> begun) {
    const std::lock_guard<std::mutex> lock(mutex_);
    begun_ = std::move(begun);
  }

 private:
  // Empty, or why to try again: the store belongs to a run that is about to end, before this one,
  // or has ended meanwhile.
  std::string introduce(const Deadline& deadline) {
    socket_ = connect_tcp(store_, deadline);
    buffer_.clear();
    json hello{{"rank", rank_},
               {"size", identity_.size},
               {"job", identity_.job},
               {"version", RINGGRAD_VERSION},
               {"generation", identity_.generation},
               {"config", identity_.config},
               {"challenge", random_hex(16)}};
    json answer;
    try {
      const std::string challenge = text_of(next_line(deadline), "challenge");
      hello["proof"] = rank_proof(identity_.secret, challenge, hello);
      say(hello);
      answer = next_line(deadline);
    } catch (const PeerFailure& broken) {
      return broken.what();
    }
    if (answer.value("early", false)) {
      return concat("rank ", rank_, " comes early: ", text_of(answer, "refused"));
    }
    if (answer.value("late", false)) {
      throw PeerFailure(concat("rank ", rank_, " comes late: ", text_of(answer, "refused")));
    }
    RINGGRAD_CHECK(!answer.contains("refused"), "rank ", rank_, " was refused by ", store_.text(),
                   ": ", text_of(answer, "refused"));
    RINGGRAD_CHECK(same_proof(text_of(answer, "proof"),
                              store_proof(identity_.secret, text_of(hello, "challenge"))),
                   store_.text(), " is no store of this job: it does not know the secret");
    return "";
  }

  json next_line(const Deadline& deadline) {
    for (;;) {
      if (const auto line = take_line(buffer_)) {
        json message = json::parse(*line, nullptr, false);
        RINGGRAD_CHECK(message.is_object(), store_.text(), " is no store of ringgrad's");
        return message;
      }
      RINGGRAD_CHECK(buffer_.size() < 65536, store_.text(), " is no store of ringgrad's");
      char byte = 0;
      try {
        receive_all(socket_, &byte, 1, deadline);
      } catch (const Error& error) {
        throw PeerFailure(
            concat("the store at ", store_.text(), " does not answer: ", error.what()));
      }
      buffer_ += byte;
    }
  }

  // Hears what the store says, and shows that this rank lives.
  void listen() {
    auto shown = Clock::now();
    auto heard = Clock::now();
    try {
      for (;;) {
        pollfd file{socket_.descriptor(), POLLIN, 0};
        poll(&file, 1, 20);
        {
          const std::lock_guard<std::mutex> lock(mutex_);
          if (stopping_) {
            return;
          }
        }
        char chunk[4096];
        const std::size_t got = receive_some(socket_, chunk, sizeof chunk);
        buffer_.append(chunk, got);
        heard = got > 0 ? Clock::now() : heard;
        RINGGRAD_CHECK(Clock::now() - heard < kLostAfter, "no sign of life for ",
                       kLostAfter.count(), " s");
        while (const auto line = take_line(buffer_)) {
          hear(json::parse(*line));
        }
        if (Clock::now() - shown >= kSignOfLife) {
          say(sign_of_life());
          shown = Clock::now();
        }
      }
    } catch (const std::exception& error) {
      raise(concat("the store at ", store_.text(), " is lost: ", error.what()));
    }
  }

  void hear(const json& message) {
    if (message.contains("failed")) {
      raise(text_of(message, "failed"));
      return;
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    if (message.contains("key")) {
      answers_[text_of(message, "key")] = text_of(message, "value");
    }
    for (const char* list : {"missing", "lagging"}) {
      if (message.contains(list)) {
        answers_[concat("?", list)] = text_of(message, list);
      }
    }
    changed_.notify_all();
  }

  json sign_of_life() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return begun_ == nullptr ? json{{"alive", true}}
                             : json{{"alive", true}, {"begun", begun_->load()}};
  }

  void raise(const std::string& cause) {
    failure_->raise(cause);
    const std::lock_guard<std::mutex> lock(mutex_);
    changed_.notify_all();
  }

  const Address store_;
  const JobIdentity identity_;
  const int rank_;
  std::shared_ptr<Failure> failure_;
  Socket socket_;
  std::string buffer_;
  std::mutex sending_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> answers_;
  std::shared_ptr<const std::atomic<std::int64_t>> begun_;
  bool stopping_ = false;
  std::thread thread_;
};

StoreClient::StoreClient(const Address& store, JobIdentity identity, int rank,
                         std::shared_ptr<Failure> failure, const Deadline& deadline)
    : impl_(
          std::make_unique<Impl>(store, std::move(identity), rank, std::move(failure), deadline)) {}
StoreClient::~StoreClient() = default;

void StoreClient::set(const std::string& key, const std::string& value) {
  impl_->say({{"set", key}, {"value", value}});
}

std::string StoreClient::get(const std::string& key, const Deadline& deadline) {
  std::string value = impl_->ask({{"get", key}}, key, deadline);
  RINGGRAD_CHECK(!value.empty(), "nobody told the store ", key, " in time");
  return value;
}

void StoreClient::wait_for_everybody(const Deadline& deadline) {
  if (impl_->ask({{"get", "everybody"}}, "everybody", deadline).empty()) {
    const std::string missing = impl_->ask({{"missing", true}}, "?missing", Deadline(kAnswer));
    throw PeerFailure("not all ranks came in time; missing: " + missing);
  }
}

void StoreClient::fail(const std::string& cause) {
  try {
    impl_->say({{"fail", cause}});
  } catch (const Error&) {  // then its connection tells the others
    return;
  }
}

void StoreClient::show_begun(std::shared_ptr<const std::atomic<std::int64_t>> begun) {
  impl_->show_begun(std::move(begun));
}

std::string StoreClient::lagging(std::int64_t sequence) {
  return impl_->ask({{"lagging", sequence}}, "?lagging", Deadline(kAnswer));
}

std::string StoreClient::own_address() const {
  return impl_->own_address();
}

}  // namespace ringgrad::comm
