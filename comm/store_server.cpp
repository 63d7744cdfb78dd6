#include <poll.h>

#include <list>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "comm/rank_list.h"
#include "comm/store.h"
#include "comm/store_protocol.h"
#include "runtime/error.h"

namespace ringgrad::comm {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kStrangerBytes = 4096;  // a line of somebody who proved nothing yet
constexpr std::size_t kLineBytes = std::size_t{1} << 20;
constexpr std::size_t kMaxConnections = 1024;

}  // namespace

class StoreServer::Impl {
 public:
  Impl(JobIdentity identity, Socket listener)
      : identity_(std::move(identity)), listener_(std::move(listener)) {
    for (int rank = 0; rank < identity_.size; ++rank) {
      missing_.insert(rank);
    }
    thread_ = std::thread([this] { serve(); });
  }
  ~Impl() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stopping_ = true;
    }
    thread_.join();
  }

  void fail(const std::string& cause) {
    const std::lock_guard<std::mutex> lock(mutex_);
    fail_locked(cause);
  }

  bool wait_until_left(const Deadline& deadline) {
    std::unique_lock<std::mutex> lock(mutex_);
    return deadline.wait(changed_, lock, [&] { return present_.empty(); });
  }

  std::string failure() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return failure_;
  }

 private:
  struct Peer {
    Socket socket;
    std::string in, out;
    std::string challenge;
    int rank = -1;  // once it proved itself
    bool gone = false;
    bool said_bye = false;
    bool refused = false;
    std::int64_t begun = 0;  // its last collective, as far as it has told
    Clock::time_point heard = Clock::now();
  };

  void serve() {
    auto shown = Clock::now();
    for (;;) {
      std::vector<pollfd> files{{listener_.descriptor(), POLLIN, 0}};
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (stopping_) {
          return;
        }
        for (const Peer& peer : peers_) {
          const bool writes = !peer.out.empty();
          files.push_back({peer.socket.descriptor(),
                           static_cast<short>(writes ? POLLIN | POLLOUT : POLLIN), 0});
        }
      }
      poll(files.data(), files.size(), 20);
      const std::lock_guard<std::mutex> lock(mutex_);
      const bool show_life = Clock::now() - shown >= kSignOfLife;
      for (Peer& peer : peers_) {
        if (show_life && peer.rank >= 0) {
          say(peer, {{"alive", true}});
        }
        exchange(peer);
      }
      shown = show_life ? Clock::now() : shown;
      for (Peer& peer : peers_) {
        if (peer.gone && peer.rank >= 0) {
          leave(peer);
        }
      }
      peers_.remove_if([](const Peer& peer) { return peer.gone; });
      if ((files.front().revents & POLLIN) != 0) {
        welcome();
      }
    }
  }

  void welcome() {
    Socket socket = accept_one(listener_, Deadline(std::chrono::milliseconds(1)));
    if (!socket.valid() || peers_.size() >= kMaxConnections) {
      return;
    }
    peers_.emplace_back();
    Peer& peer = peers_.back();
    peer.socket = std::move(socket);
    peer.challenge = random_hex(16);
    say(peer, {{"challenge", peer.challenge}});
  }

  // Reads and writes what goes without waiting.
  void exchange(Peer& peer) {
    try {
      char chunk[4096];
      for (std::size_t got = 1; got > 0;) {
        got = receive_some(peer.socket, chunk, sizeof chunk);
        peer.in.append(chunk, got);
        RINGGRAD_CHECK(peer.in.size() <= (peer.rank < 0 ? kStrangerBytes : kLineBytes),
                       "a line too long");
      }
      while (const auto line = take_line(peer.in)) {
        peer.heard = Clock::now();
        hear(peer, json::parse(*line));
      }
      peer.out.erase(0, send_some(peer.socket, peer.out.data(), peer.out.size()));
    } catch (const std::exception&) {  // who breaks off, or talks nonsense, is out
      peer.gone = true;
    }
    const bool silent = Clock::now() - peer.heard > kLostAfter;
    if (silent && peer.rank >= 0 && !peer.gone) {
      fail_locked(
          concat("rank ", peer.rank, " lost: no sign of life for ", kLostAfter.count(), " s"));
    }
    peer.gone = peer.gone || silent || (peer.refused && peer.out.empty());
  }

  void hear(Peer& peer, const json& message) {
    RINGGRAD_CHECK(message.is_object(), "not an object");
    if (peer.rank < 0) {
      return join(peer, message);
    }
    if (message.contains("set")) {
      const std::string key = text_of(message, "set");
      values_[key] = text_of(message, "value");
      publish(key);
    } else if (message.contains("get")) {
      const std::string key = text_of(message, "get");
      waiting_.insert({key, peer.rank});
      publish(key);
    } else if (message.contains("fail")) {
      fail_locked(text_of(message, "fail"));
    } else if (message.contains("missing")) {
      say(peer, {{"missing", rank_list(missing_)}});
    } else if (message.contains("lagging")) {
      std::set<int> late;
      for (const Peer& other : peers_) {
        if (other.rank >= 0 && &other != &peer &&
            other.begun < message["lagging"].get<std::int64_t>()) {
          late.insert(other.rank);
        }
      }
      say(peer, {{"lagging", rank_list(late)}});
    } else if (message.contains("begun")) {
      peer.begun = message["begun"].get<std::int64_t>();
    } else if (message.contains("bye")) {
      peer.said_bye = true;
      peer.gone = true;
    }
  }

  void join(Peer& peer, const json& hello) {
    // Who cannot prove the secret learns nothing else.
    const bool proven =
        same_proof(text_of(hello, "proof"), rank_proof(identity_.secret, peer.challenge, hello));
    const std::string why = proven ? objection(hello) : "the secret differs from this job's";
    if (!why.empty()) {
      // A node that restarted before this one did comes again later.
      const int generation = proven ? number_of(hello, "generation") : identity_.generation;
      say(peer, {{"refused", why},
                 {"early", generation > identity_.generation},
                 {"late", generation < identity_.generation}});
      peer.refused = true;
      // Another node has restarted its ranks and does not come back to this run.
      if (generation > identity_.generation && text_of(hello, "job") == identity_.job) {
        fail_locked(concat("rank ", number_of(hello, "rank"), " was restarted"));
      }
      return;
    }
    peer.rank = hello["rank"].get<int>();
    present_.insert(peer.rank);
    missing_.erase(peer.rank);
    say(peer,
        {{"welcome", true}, {"proof", store_proof(identity_.secret, text_of(hello, "challenge"))}});
    if (!failure_.empty()) {
      say(peer, {{"failed", failure_}});
    }
    if (missing_.empty()) {
      values_["everybody"] = "here";
      publish("everybody");
    }
  }

  static int number_of(const json& message, const char* field) {
    const auto found = message.find(field);
    return found != message.end() && found->is_number_integer() ? found->get<int>() : -1;
  }

  // Why this rank may not join; empty if it may.
  std::string objection(const json& hello) {
    const auto number = [&](const char* field) { return number_of(hello, field); };
    const auto differs = [&](const std::string& what, const auto& theirs, const auto& ours) {
      return concat("rank ", number("rank"), " comes with ", what, " ", theirs, ", this job has ",
                    ours);
    };
    const int rank = number("rank");
    if (text_of(hello, "job") != identity_.job) {
      return differs("job id", text_of(hello, "job"), identity_.job);
    }
    if (text_of(hello, "version") != RINGGRAD_VERSION) {
      return differs("version", text_of(hello, "version"), RINGGRAD_VERSION);
    }
    if (number("size") != identity_.size) {
      return differs("world size", number("size"), identity_.size);
    }
    if (number("generation") != identity_.generation) {
      return differs("generation", number("generation"), identity_.generation);
    }
    if (rank < 0 || rank >= identity_.size) {
      return concat("rank ", rank, " of ", identity_.size);
    }
    if (missing_.count(rank) == 0) {
      return concat("rank ", rank, " is here already; was it started twice?");
    }
    if (identity_.config.empty()) {
      identity_.config = text_of(hello, "config");
    }
    if (text_of(hello, "config") != identity_.config) {
      return differs("settings", text_of(hello, "config"), identity_.config);
    }
    return "";
  }

  // Answers who waits for this key, if it has a value.
  void publish(const std::string& key) {
    const auto value = values_.find(key);
    if (value == values_.end()) {
      return;
    }
    for (Peer& peer : peers_) {
      if (peer.rank >= 0 && waiting_.erase({key, peer.rank}) > 0) {
        say(peer, {{"key", key}, {"value", value->second}});
      }
    }
  }

  void leave(const Peer& peer) {
    present_.erase(peer.rank);
    changed_.notify_all();
    if (!peer.said_bye) {
      fail_locked(concat("rank ", peer.rank, " lost: it ended without a word"));
    }
  }

  void fail_locked(const std::string& cause) {
    if (failure_.empty()) {
      failure_ = cause;
      for (Peer& peer : peers_) {
        if (peer.rank >= 0) {
          say(peer, {{"failed", failure_}});
        }
      }
    }
  }

  // Queued; goes out with the next exchange.
  static void say(Peer& peer, const json& message) { peer.out += json_text(message) + "\n"; }

  JobIdentity identity_;
  Socket listener_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::list<Peer> peers_;
  std::map<std::string, std::string> values_;
  std::set<std::pair<std::string, int>> waiting_;  // key, rank
  std::set<int> missing_, present_;
  std::string failure_;
  std::thread thread_;
};

StoreServer::StoreServer(JobIdentity identity, Socket listener)
    : impl_(std::make_unique<Impl>(std::move(identity), std::move(listener))) {}
StoreServer::~StoreServer() = default;
void StoreServer::fail(const std::string& cause) {
  impl_->fail(cause);
}
bool StoreServer::wait_until_left(const Deadline& deadline) {
  return impl_->wait_until_left(deadline);
}
std::string StoreServer::failure() const {
  return impl_->failure();
}

}  // namespace ringgrad::comm
