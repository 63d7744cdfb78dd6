// Streams as queues of work. What is put on a stream runs as late as CUDA allows: when the host
// waits for it, or something that it waits for comes behind it. So a missing wait shows: what
// should have been there is not. Under RINGGRAD_EMULATOR_ORDER=shuffled streams also proceed at
// random between calls, each seed in its own way.
//
// The null stream, as in CUDA, waits for all others and others for it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace emulator {

struct StreamState;

// A place in a stream: what was put on it up to there.
struct Mark {
  std::shared_ptr<StreamState> stream;
  std::uint64_t position = 0;
};

std::shared_ptr<StreamState> make_stream(int device);
int device_of(const StreamState& stream);

// `stream` may be null: the null stream; then the work is done at once, behind everything else.
void put(const std::shared_ptr<StreamState>& stream, std::function<void()> work);
Mark mark_of(const std::shared_ptr<StreamState>& stream);
// What is put on `stream` from now on waits until `mark` is reached.
void put_wait(const std::shared_ptr<StreamState>& stream, const Mark& mark);

void run_until(const Mark& mark);
void run_everything();

}  // namespace emulator
