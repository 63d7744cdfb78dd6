#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <limits>
#include <mutex>
#include <thread>

#include "comm/collectives.h"
#include "comm/communicator.h"
#include "runtime/error.h"

namespace ringgrad::comm {
namespace {

// Handing a collective to another thread takes longer than a small one itself, and most callers
// wait at once. So who waits for a collective runs it, and if nobody does, the communicator's
// thread, which looks now and then while there is traffic, and is woken when it has gone to sleep.
constexpr std::chrono::milliseconds kLook{1};
constexpr std::chrono::milliseconds kTraffic{100};

using Collective = std::function<void(const void* in, void* out)>;

// The collectives of a rank in the order of their calls; one runs at a time.
class JobQueue {
 public:
  struct Job {
    Collective collective;
    const void* in = nullptr;
    void* out = nullptr;
    bool done = false;
    std::string error;
  };

  explicit JobQueue(Failure& failure) : failure_(failure) {}

  std::shared_ptr<Job> push(Collective collective, const void* in, void* out) {
    auto job = std::make_shared<Job>(Job{std::move(collective), in, out, false, {}});
    bool asleep = false;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      jobs_.push_back(job);
      asleep = !looking_;
    }
    if (asleep) {
      changed_.notify_one();
    }
    return job;
  }

  // Runs what comes before it, and itself, unless the communicator's thread did. The timeout of the
  // collectives bounds this: each comes to an end.
  void finish(const Job& job) {
    const std::lock_guard<std::mutex> turn(running_);
    while (!job.done) {
      run_first();
    }
  }

  // The communicator's thread, until stop().
  void serve() {
    auto last = std::chrono::steady_clock::now();
    for (;;) {
      {
        std::unique_lock<std::mutex> lock(mutex_);
        looking_ = std::chrono::steady_clock::now() - last < kTraffic;
        const auto something = [&] { return stopping_ || !jobs_.empty(); };
        if (looking_) {
          changed_.wait_for(lock, kLook, something);
        } else {
          changed_.wait(lock, something);
        }
        if (jobs_.empty()) {
          if (stopping_) {
            return;
          }
          continue;
        }
      }
      const std::lock_guard<std::mutex> turn(running_);
      run_first();
      last = std::chrono::steady_clock::now();
    }
  }

  void stop() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_one();
  }

 private:
  // Whoever has the turn.
  void run_first() {
    std::shared_ptr<Job> job;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (jobs_.empty()) {
        return;
      }
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    try {
      failure_.check();
      job->collective(job->in, job->out);
    } catch (const std::exception& error) {
      job->error = failure_.fail(error.what());
    }
    job->done = true;
  }

  Failure& failure_;
  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Job>> jobs_;
  bool looking_ = false;
  bool stopping_ = false;
  std::mutex running_;  // held by who runs a collective; guards the jobs' results
};

class QueuedWork : public Work {
 public:
  QueuedWork(std::shared_ptr<JobQueue> queue, std::shared_ptr<JobQueue::Job> job)
      : queue_(std::move(queue)), job_(std::move(job)) {}

  void wait(const Stream&) override {
    queue_->finish(*job_);
    if (!job_->error.empty()) {
      throw PeerFailure(job_->error);
    }
  }

 private:
  std::shared_ptr<JobQueue> queue_;
  std::shared_ptr<JobQueue::Job> job_;
};

class DoneWork : public Work {
 public:
  void wait(const Stream&) override {}
};

void check_overlap(const void* in, std::size_t in_bytes, const void* out, std::size_t out_bytes,
                   bool same_allowed) {
  const auto a = reinterpret_cast<std::uintptr_t>(in);
  const auto b = reinterpret_cast<std::uintptr_t>(out);
  const bool apart = a + in_bytes <= b || b + out_bytes <= a;
  RINGGRAD_CHECK(apart || (same_allowed && a == b),
                 "input and output of the collective overlap in part");
}

class HostCommunicator : public Communicator {
 public:
  HostCommunicator(std::unique_ptr<Collectives> collectives, int local_rank,
                   std::string description, std::shared_ptr<void> membership)
      : membership_(std::move(membership)),
        collectives_(std::move(collectives)),
        local_rank_(local_rank),
        description_(std::move(description)),
        queue_(std::make_shared<JobQueue>(collectives_->failure())),
        thread_([this] { queue_->serve(); }) {}
  ~HostCommunicator() override {
    queue_->stop();
    thread_.join();
  }

  int rank() const override { return collectives_->rank(); }
  int size() const override { return collectives_->size(); }
  int local_rank() const override { return local_rank_; }
  std::string description() const override { return description_; }

  using Communicator::all_reduce;
  std::unique_ptr<Work> all_reduce(const void* in, void* out, std::int64_t count, DType dtype,
                                   ReduceOp op, const Stream& stream) override {
    const std::size_t bytes = bytes_of(count, dtype);
    check_overlap(in, bytes, out, bytes, true);
    const Call call = numbered({Call::Kind::all_reduce, op, dtype, 0, count, 0});
    return enqueue(in, bytes, out, bytes, stream, [=](const void* from, void* to) {
      if (from != to && bytes > 0) {
        std::memcpy(to, from, bytes);
      }
      collectives_->all_reduce(call, to);
    });
  }

  std::unique_ptr<Work> all_reduce_as_half(float* data, std::int64_t count,
                                           const Stream& stream) override {
    const std::size_t bytes = bytes_of(count, DType::f32);
    const Call largest = numbered({Call::Kind::all_reduce, ReduceOp::max, DType::f32, 0, 1, 0});
    const Call sum = numbered({Call::Kind::all_reduce, ReduceOp::sum, DType::f16, 0, count, 0});
    return enqueue(data, bytes, data, bytes, stream, [=](const void*, void* to) {
      sum_halves(largest, sum, static_cast<float*>(to));
    });
  }

  std::unique_ptr<Work> broadcast(void* data, std::size_t bytes, int root,
                                  const Stream& stream) override {
    RINGGRAD_CHECK(root >= 0 && root < size(), "broadcast from rank ", root, " of ", size());
    const Call call = numbered({Call::Kind::broadcast, ReduceOp::sum, DType::u8, root,
                                static_cast<std::int64_t>(bytes), 0});
    return enqueue(data, bytes, data, bytes, stream,
                   [=](const void*, void* to) { collectives_->broadcast(call, to); });
  }

  std::unique_ptr<Work> all_gather(const void* in, void* out, std::int64_t count, DType dtype,
                                   const Stream& stream) override {
    const std::size_t part = bytes_of(count, dtype);
    const std::size_t all = part * static_cast<std::size_t>(size());
    const void* own = static_cast<const char*>(out) + part * static_cast<std::size_t>(rank());
    if (in != own) {
      check_overlap(in, part, out, all, false);
    }
    const Call call = numbered({Call::Kind::all_gather, ReduceOp::sum, dtype, 0, count, 0});
    return enqueue(in, part, out, all, stream,
                   [=](const void* from, void* to) { collectives_->all_gather(call, from, to); });
  }

  std::unique_ptr<Work> reduce_scatter(const void* in, void* out, std::int64_t count, DType dtype,
                                       ReduceOp op, const Stream& stream) override {
    const std::size_t part = bytes_of(count, dtype);
    const std::size_t all = part * static_cast<std::size_t>(size());
    check_overlap(in, all, out, part, false);
    const Call call = numbered({Call::Kind::reduce_scatter, op, dtype, 0, count * size(), 0});
    return enqueue(in, all, out, part, stream, [=](const void* from, void* to) {
      collectives_->reduce_scatter(call, from, to);
    });
  }

  std::unique_ptr<Work> barrier(const Stream& stream) override {
    const Call call = numbered({});
    return enqueue(nullptr, 0, nullptr, 0, stream,
                   [=](const void*, void*) { collectives_->barrier(call); });
  }

  std::shared_ptr<void> allocate(std::size_t bytes) override {
    return collectives_->allocate(bytes);
  }

  void abort(const std::string& cause) override { collectives_->failure().fail(cause); }

 private:
  static std::size_t bytes_of(std::int64_t count, DType dtype) {
    RINGGRAD_CHECK(count >= 0, "a collective of ", count, " elements");
    return static_cast<std::size_t>(count) * size_of(dtype);
  }
  Call numbered(Call call) {
    call.sequence = ++sequence_;
    return call;
  }

  std::unique_ptr<Work> enqueue(const void* in, std::size_t in_bytes, void* out,
                                std::size_t out_bytes, const Stream& stream,
                                Collective collective) {
    DeviceTable& device = stream.device();
    if (device.host_accessible()) {
      return std::make_unique<QueuedWork>(queue_, queue_->push(std::move(collective), in, out));
    }
    auto ready = std::make_shared<Event>(device);
    ready->record(stream);
    const auto on_host = [=, &device](const void* from, void* to) {
      staged(device, *ready, from, in_bytes, to, out_bytes, collective);
    };
    return std::make_unique<QueuedWork>(queue_, queue_->push(on_host, in, out));
  }

  // The sum over all ranks of values up to `largest` stays below half of the largest half, so that
  // rounding at each addition cannot pass it.
  void sum_halves(const Call& largest_call, const Call& sum_call, float* data) {
    float largest = largest_magnitude(data, sum_call.count);
    if (std::isnan(largest)) {  // which max would lose
      largest = std::numeric_limits<float>::infinity();
    }
    collectives_->all_reduce(largest_call, &largest);
    const bool usable = largest > 0 && std::isfinite(largest);
    const int exponent =
        usable ? std::ilogb(32768.0 / static_cast<double>(size()) / static_cast<double>(largest))
               : 0;
    const float scale = std::ldexp(1.0F, std::clamp(exponent, -126, 120));
    const auto count = static_cast<std::size_t>(sum_call.count);
    if (halves_count_ < count) {
      halves_ = collectives_->allocate(count * sizeof(Half));
      if (halves_ == nullptr) {
        halves_ = std::shared_ptr<void>(std::make_unique<Half[]>(count).release(),
                                        [](void* memory) { delete[] static_cast<Half*>(memory); });
      }
      halves_count_ = count;
    }
    Half* halves = static_cast<Half*>(halves_.get());
    to_halves(halves, data, scale, sum_call.count);
    collectives_->all_reduce(sum_call, halves);
    from_halves(data, halves, 1 / scale / static_cast<float>(size()), sum_call.count);
  }

  static void staged(DeviceTable& device, const Event& ready, const void* in, std::size_t in_bytes,
                     void* out, std::size_t out_bytes, const Collective& collective) {
    device.make_current();
    const Stream stream(device);
    const auto pinned = [&device](std::size_t bytes) {
      return std::shared_ptr<void>(device.allocate_pinned(bytes), [&device, bytes](void* memory) {
        device.deallocate_pinned(memory, bytes);
      });
    };
    const std::shared_ptr<void> host_in = pinned(in_bytes);
    const std::shared_ptr<void> host_out = in == out ? host_in : pinned(out_bytes);
    ready.wait_on(stream);
    device.copy(host_in.get(), in, in_bytes, CopyKind::device_to_host, stream.handle());
    stream.synchronize();
    collective(host_in.get(), host_out.get());
    device.copy(out, host_out.get(), out_bytes, CopyKind::host_to_device, stream.handle());
    stream.synchronize();
  }

  std::shared_ptr<void> membership_;
  std::unique_ptr<Collectives> collectives_;
  int local_rank_;
  std::string description_;
  std::int64_t sequence_ = 0;
  std::shared_ptr<void> halves_;  // (halves_count_) of the running collective
  std::size_t halves_count_ = 0;
  std::shared_ptr<JobQueue> queue_;
  std::thread thread_;
};

class SingleCommunicator : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string description() const override { return "one rank"; }
  using Communicator::all_reduce;
  std::unique_ptr<Work> all_reduce(const void* in, void* out, std::int64_t count, DType dtype,
                                   ReduceOp op, const Stream& stream) override {
    const Reduction refuses_what_more_ranks_would(dtype, op, 1);
    return copied(in, out, count, dtype, stream);
  }
  std::unique_ptr<Work> all_reduce_as_half(float*, std::int64_t, const Stream&) override {
    return std::make_unique<DoneWork>();
  }
  std::unique_ptr<Work> broadcast(void*, std::size_t, int root, const Stream&) override {
    RINGGRAD_CHECK(root == 0, "broadcast from rank ", root, " of 1");
    return std::make_unique<DoneWork>();
  }
  std::unique_ptr<Work> all_gather(const void* in, void* out, std::int64_t count, DType dtype,
                                   const Stream& stream) override {
    return copied(in, out, count, dtype, stream);
  }
  std::unique_ptr<Work> reduce_scatter(const void* in, void* out, std::int64_t count, DType dtype,
                                       ReduceOp op, const Stream& stream) override {
    return all_reduce(in, out, count, dtype, op, stream);
  }
  std::unique_ptr<Work> barrier(const Stream&) override { return std::make_unique<DoneWork>(); }
  void abort(const std::string&) override {}

 private:
  static std::unique_ptr<Work> copied(const void* in, void* out, std::int64_t count, DType dtype,
                                      const Stream& stream) {
    const std::size_t bytes = static_cast<std::size_t>(count) * size_of(dtype);
    check_overlap(in, bytes, out, bytes, true);
    if (in != out && bytes > 0) {
      stream.device().copy(out, in, bytes, CopyKind::device_to_device, stream.handle());
    }
    return std::make_unique<DoneWork>();
  }
};

}  // namespace

std::unique_ptr<Communicator> make_host_communicator(std::unique_ptr<Collectives> collectives,
                                                     int local_rank, std::string description,
                                                     std::shared_ptr<void> membership) {
  return std::make_unique<HostCommunicator>(std::move(collectives), local_rank,
                                            std::move(description), std::move(membership));
}

std::vector<std::unique_ptr<Communicator>> make_thread_communicators(
    int size, std::chrono::milliseconds timeout) {
  const auto failure = std::make_shared<Failure>();
  std::vector<std::unique_ptr<Communicator>> communicators;
  if (size == 1) {
    communicators.push_back(make_single_communicator());
    return communicators;
  }
  for (SharedSegment& segment : SharedSegment::for_threads(size)) {
    const int rank = segment.rank();
    communicators.push_back(
        make_host_communicator(make_shared_collectives(std::move(segment), failure, timeout), rank,
                               "ring over the process's memory"));
  }
  return communicators;
}

std::unique_ptr<Communicator> make_single_communicator() {
  return std::make_unique<SingleCommunicator>();
}

}  // namespace ringgrad::comm
