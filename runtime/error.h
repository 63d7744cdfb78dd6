// Errors. A mistake of the user's is an `Error` whose message names the thing (file, key, shape,
// rank, index), what was expected and what was found; the command prints it in one line. A broken
// invariant of ours aborts with file and line: going on would compute wrong numbers.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <string>

namespace ringgrad {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The parts, streamed one behind the other.
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  return text.str();
}

// "1 thread", "2 threads".
template <class Number>
std::string counted(Number count, const char* noun) {
  return concat(count, " ", noun, count == 1 ? "" : "s");
}

[[noreturn]] inline void abort_with(const char* file, int line, const char* what) {
  std::fprintf(stderr, "%s:%d: broken invariant: %s\n", file, line, what);
  std::abort();
}

}  // namespace ringgrad

// Throws Error with the parts as its message unless the condition holds.
#define RINGGRAD_CHECK(condition, ...)                          \
  do {                                                          \
    if (!(condition)) {                                         \
      throw ::ringgrad::Error(::ringgrad::concat(__VA_ARGS__)); \
    }                                                           \
  } while (false)

// Aborts unless the condition holds, in every build: the condition must be cheap.
#define RINGGRAD_ASSERT(condition)                            \
  do {                                                        \
    if (!(condition)) {                                       \
      ::ringgrad::abort_with(__FILE__, __LINE__, #condition); \
    }                                                         \
  } while (false)

// The body of every check macro for a C interface (CUDA, cuBLAS, NCCL, MPI …): evaluates the call
// once and throws Error with expression, file, line and the interface's own words.
#define RINGGRAD_CHECK_CALL(interface, call, success, describe)                                   \
  do {                                                                                            \
    const auto ringgrad_status = (call);                                                          \
    if (ringgrad_status != (success)) {                                                           \
      throw ::ringgrad::Error(::ringgrad::concat(interface " error: ", describe(ringgrad_status), \
                                                 " in ", #call, " (", __FILE__, ":", __LINE__,    \
                                                 ")"));                                           \
    }                                                                                             \
  } while (false)
