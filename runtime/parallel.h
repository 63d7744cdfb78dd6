// The one parallel loop of the project.
#pragma once

#include <cstdint>

#include "runtime/function_ref.h"

namespace ringgrad {

// How many chunks parallel_for cuts n items into: at most `threads`, each of at least `grain`
// items.
int parallel_chunks(int threads, std::int64_t n, std::int64_t grain);

// Calls f(chunk, begin, end) once for each chunk of [0, n), contiguous and in the same cut for the
// same arguments, so that a reduction which combines chunk results in order is reproducible. f must
// not throw. OpenMP in ordinary builds; plain threads under ThreadSanitizer, which cannot see
// libgomp's synchronisation.
void parallel_for(int threads, std::int64_t n, std::int64_t grain,
                  FunctionRef<void(int chunk, std::int64_t begin, std::int64_t end)> f);

}  // namespace ringgrad
