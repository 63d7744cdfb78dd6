#include "runtime/cpu_features.h"

#include <sched.h>

#include <cstdlib>
#include <fstream>

#include "runtime/error.h"

namespace ringgrad {
namespace {

std::string model_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.rfind("model name", 0) == 0) {
      return line.substr(line.find(':') + 2);
    }
  }
  return "unknown CPU";
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

InstructionSet widest() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
    return InstructionSet::avx512;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    return InstructionSet::avx2;
  }
#endif
  return InstructionSet::portable;
}

const char* name_of(InstructionSet set) {
  switch (set) {
    case InstructionSet::portable:
      return "portable";
    case InstructionSet::avx2:
      return "avx2";
    case InstructionSet::avx512:
      return "avx512";
  }
  return "?";
}

CpuFeatures detect() {
  const InstructionSet have = widest();
  InstructionSet use = have;
  if (const char* wish = std::getenv("RINGGRAD_ISA")) {
    const std::string text = wish;
    RINGGRAD_CHECK(text == "portable" || text == "avx2" || text == "avx512", "RINGGRAD_ISA=", text,
                   ": expected portable, avx2 or avx512");
    use = text == "portable" ? InstructionSet::portable
                             : (text == "avx2" ? InstructionSet::avx2 : InstructionSet::avx512);
    RINGGRAD_CHECK(use <= have, "RINGGRAD_ISA=", text, ": this processor offers ", name_of(have),
                   " at most");
  }
  const int cores = usable_cores();
  return {use, name_of(use), cores,
          concat(model_name(), ", ", cores, cores == 1 ? " core, " : " cores, ", name_of(use))};
}

}  // namespace

const CpuFeatures& cpu_features() {
  static const CpuFeatures features = detect();
  return features;
}

}  // namespace ringgrad
