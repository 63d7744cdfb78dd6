#include "runtime/parallel.h"

#include <algorithm>

#if defined(__SANITIZE_THREAD__)
#define RINGGRAD_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RINGGRAD_THREAD_SANITIZER 1
#endif
#endif

#ifdef RINGGRAD_THREAD_SANITIZER
#include <thread>
#include <vector>
#endif

namespace ringgrad {

int parallel_chunks(int threads, std::int64_t n, std::int64_t grain) {
  if (n <= 0) {
    return 0;
  }
  const std::int64_t most = (n + grain - 1) / grain;
  return static_cast<int>(std::min<std::int64_t>(std::max(threads, 1), most));
}

void parallel_for(int threads, std::int64_t n, std::int64_t grain,
                  FunctionRef<void(int, std::int64_t, std::int64_t)> f) {
  const int chunks = parallel_chunks(threads, n, grain);
  const auto run = [&](int chunk) { f(chunk, n * chunk / chunks, n * (chunk + 1) / chunks); };
  if (chunks <= 1) {
    if (chunks == 1) {
      run(0);
    }
    return;
  }
#ifdef RINGGRAD_THREAD_SANITIZER
  std::vector<std::thread> workers;
  for (int chunk = 1; chunk < chunks; ++chunk) {
    workers.emplace_back(run, chunk);
  }
  run(0);
  for (std::thread& worker : workers) {
    worker.join();
  }
#else
#pragma omp parallel for num_threads(chunks) schedule(static, 1)
  for (int chunk = 0; chunk < chunks; ++chunk) {
    run(chunk);
  }
#endif
}

}  // namespace ringgrad
