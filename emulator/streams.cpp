#include "streams.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <vector>

#include "memory.h"
#include "order.h"

namespace emulator {

struct StreamState {
  struct Task {
    std::function<void()> work;
    Mark waits_for;
  };
  int device = 0;
  std::deque<Task> tasks;
  std::uint64_t done = 0;  // tasks that have run
  bool running = false;    // a host thread runs its first task

  std::uint64_t end() const { return done + tasks.size(); }
};

namespace {

constexpr std::size_t kLongestQueue = 4096;

struct Streams {
  std::mutex mutex;  // of all streams
  std::condition_variable changed;
  std::vector<std::weak_ptr<StreamState>> all;
  Shuffler shuffler{0};
  bool seeded = false;
};

Streams& streams() {
  static Streams& the_streams = *new Streams;  // outlives every static that still waits
  return the_streams;
}

// Runs the tasks up to `position`, each behind what it waits for. Of one stream only one host
// thread runs a task; others wait for it.
void run(std::unique_lock<std::mutex>& lock, StreamState& stream, std::uint64_t position) {
  while (stream.done < position) {
    if (stream.running) {
      streams().changed.wait(lock);
      continue;
    }
    stream.running = true;
    StreamState::Task task = std::move(stream.tasks.front());
    if (task.waits_for.stream != nullptr) {
      run(lock, *task.waits_for.stream, task.waits_for.position);
    }
    if (task.work) {
      lock.unlock();
      task.work();
      task.work = nullptr;
      lock.lock();
    }
    stream.tasks.pop_front();
    ++stream.done;
    stream.running = false;
    streams().changed.notify_all();
  }
}

std::vector<std::shared_ptr<StreamState>> living() {
  std::vector<std::shared_ptr<StreamState>> found;
  auto& all = streams().all;
  for (std::size_t i = 0; i < all.size();) {
    if (auto stream = all[i].lock()) {
      found.push_back(std::move(stream));
      ++i;
    } else {
      all[i] = all.back();
      all.pop_back();
    }
  }
  return found;
}

void run_all(std::unique_lock<std::mutex>& lock) {
  const DeviceMemoryOpen open;
  for (const auto& stream : living()) {
    run(lock, *stream, stream->end());
  }
}

// Some stream goes on for a while, or none does.
void proceed_at_random(std::unique_lock<std::mutex>& lock) {
  Streams& s = streams();
  if (!s.seeded) {
    s.shuffler = Shuffler(order_seed());
    s.seeded = true;
  }
  const auto found = living();
  StreamState& stream = *found[s.shuffler.below(found.size())];
  const std::uint64_t steps = s.shuffler.below(4) == 0 ? s.shuffler.below(32) : 0;
  const std::uint64_t position = std::min(stream.end(), stream.done + steps);
  if (stream.done < position) {
    const DeviceMemoryOpen open;
    run(lock, stream, position);
  }
}

void put_task(const std::shared_ptr<StreamState>& stream, StreamState::Task task) {
  std::unique_lock<std::mutex> lock(streams().mutex);
  stream->tasks.push_back(std::move(task));
  if (stream->tasks.size() > kLongestQueue) {
    const DeviceMemoryOpen open;
    run(lock, *stream, stream->done + kLongestQueue / 2);
  }
  if (order() == Order::shuffled) {
    proceed_at_random(lock);
  }
}

}  // namespace

std::shared_ptr<StreamState> make_stream(int device) {
  auto stream = std::make_shared<StreamState>();
  stream->device = device;
  const std::lock_guard<std::mutex> lock(streams().mutex);
  streams().all.push_back(stream);
  return stream;
}

int device_of(const StreamState& stream) {
  return stream.device;
}

void put(const std::shared_ptr<StreamState>& stream, std::function<void()> work) {
  if (stream == nullptr) {
    run_everything();
    const DeviceMemoryOpen open;
    work();
    return;
  }
  put_task(stream, {std::move(work), {}});
}

Mark mark_of(const std::shared_ptr<StreamState>& stream) {
  const std::lock_guard<std::mutex> lock(streams().mutex);
  return stream == nullptr ? Mark{} : Mark{stream, stream->end()};
}

void put_wait(const std::shared_ptr<StreamState>& stream, const Mark& mark) {
  if (stream == nullptr) {
    run_everything();
  } else if (mark.stream != nullptr && mark.stream != stream) {
    put_task(stream, {nullptr, mark});
  }
}

void run_until(const Mark& mark) {
  if (mark.stream != nullptr) {
    std::unique_lock<std::mutex> lock(streams().mutex);
    if (mark.stream->done < mark.position) {
      const DeviceMemoryOpen open;
      run(lock, *mark.stream, mark.position);
    }
  }
}

void run_everything() {
  std::unique_lock<std::mutex> lock(streams().mutex);
  run_all(lock);
}

}  // namespace emulator
