#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "comm/communicator.h"
#include "runtime/error.h"

namespace ringgrad::comm {
namespace {

// What the calling thread and the communicator's thread share about one collective.
class QueuedWork : public Work {
 public:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    std::string error;
  };

  explicit QueuedWork(std::shared_ptr<State> state) : state_(std::move(state)) {}

  // The transport's timeout bounds this wait: the communicator's thread always comes to an end.
  void wait(const Stream&) override {
    std::unique_lock<std::mutex> lock(state_->mutex);
    state_->changed.wait(lock, [&] { return state_->done; });
    RINGGRAD_CHECK(state_->error.empty(), state_->error);
  }

 private:
  std::shared_ptr<State> state_;
};

class DoneWork : public Work {
 public:
  void wait(const Stream&) override {}
};

class RingCommunicator : public Communicator {
 public:
  explicit RingCommunicator(std::unique_ptr<Transport> transport)
      : transport_(std::move(transport)), thread_([this] { run(); }) {}
  ~RingCommunicator() override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  int rank() const override { return transport_->rank(); }
  int size() const override { return transport_->size(); }

  std::unique_ptr<Work> all_reduce(void* data, std::int64_t count, DType dtype, ReduceOp op,
                                   const Stream& stream) override {
    return enqueue(data, static_cast<std::size_t>(count) * size_of(dtype), stream,
                   [=](void* host) { ring_all_reduce(*transport_, host, count, dtype, op); });
  }

  std::unique_ptr<Work> broadcast(void* data, std::size_t bytes, int root,
                                  const Stream& stream) override {
    return enqueue(data, bytes, stream,
                   [=](void* host) { ring_broadcast(*transport_, host, bytes, root); });
  }

 private:
  struct Job {
    std::function<void()> collective;
    std::shared_ptr<QueuedWork::State> state;
  };

  std::unique_ptr<Work> enqueue(void* data, std::size_t bytes, const Stream& stream,
                                const std::function<void(void*)>& collective) {
    auto state = std::make_shared<QueuedWork::State>();
    DeviceTable& device = stream.device();
    Job job{{}, state};
    if (device.host_accessible()) {
      job.collective = [=] { collective(data); };
    } else {
      auto ready = std::make_shared<Event>(device);
      ready->record(stream);
      job.collective = [=, &device] { staged(device, *ready, data, bytes, collective); };
    }
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      queue_.push_back(std::move(job));
    }
    changed_.notify_all();
    return std::make_unique<QueuedWork>(state);
  }

  static void staged(DeviceTable& device, const Event& ready, void* data, std::size_t bytes,
                     const std::function<void(void*)>& collective) {
    device.make_current();
    const Stream stream(device);
    const std::shared_ptr<void> host(device.allocate_pinned(bytes), [&device, bytes](void* memory) {
      device.deallocate_pinned(memory, bytes);
    });
    ready.wait_on(stream);
    device.copy(host.get(), data, bytes, CopyKind::device_to_host, stream.handle());
    stream.synchronize();
    collective(host.get());
    device.copy(data, host.get(), bytes, CopyKind::host_to_device, stream.handle());
    stream.synchronize();
  }

  void run() {
    for (;;) {
      Job job;
      {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
        if (queue_.empty()) {
          return;
        }
        job = std::move(queue_.front());
        queue_.pop_front();
      }
      std::string error = broken_;
      if (error.empty()) {
        try {
          job.collective();
        } catch (const std::exception& failure) {
          error = failure.what();
          broken_ = error;  // the communicator stays dead: ranks are out of step
          transport_->abort(error.c_str());
        }
      }
      const std::lock_guard<std::mutex> lock(job.state->mutex);
      job.state->error = error;
      job.state->done = true;
      job.state->changed.notify_all();
    }
  }

  std::unique_ptr<Transport> transport_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> queue_;
  bool stopping_ = false;
  std::string broken_;
  std::thread thread_;
};

class SingleCommunicator : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::unique_ptr<Work> all_reduce(void*, std::int64_t, DType, ReduceOp, const Stream&) override {
    return std::make_unique<DoneWork>();
  }
  std::unique_ptr<Work> broadcast(void*, std::size_t, int, const Stream&) override {
    return std::make_unique<DoneWork>();
  }
};

}  // namespace

std::unique_ptr<Communicator> make_ring_communicator(std::unique_ptr<Transport> transport) {
  return std::make_unique<RingCommunicator>(std::move(transport));
}

std::unique_ptr<Communicator> make_single_communicator() {
  return std::make_unique<SingleCommunicator>();
}

}  // namespace ringgrad::comm
