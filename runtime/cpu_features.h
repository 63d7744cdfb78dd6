// What this processor can do, read once.
#pragma once

#include <string>

namespace ringgrad {

enum class InstructionSet { portable, avx2, avx512 };

struct CpuFeatures {
  InstructionSet best;      // the widest set that our own loops were built for and this CPU has
  std::string best_name;    // "portable", "avx2", "avx512"
  int cores;                // cores that this process may run on
  std::string description;  // model, cores and sets in one line
};

// RINGGRAD_ISA=portable|avx2 in the environment lowers `best` (tests compare bits across sets with
// it); a set that the CPU lacks is refused with an Error.
const CpuFeatures& cpu_features();

}  // namespace ringgrad
