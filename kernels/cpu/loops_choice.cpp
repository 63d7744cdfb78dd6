#include "kernels/cpu/loops.h"
#include "runtime/cpu_features.h"

namespace ringgrad::kernels::cpu {

const Loops& loops_portable();
#ifdef RINGGRAD_X86_LOOPS
const Loops& loops_avx2();
const Loops& loops_avx512();
#endif

const Loops& loops() {
#ifdef RINGGRAD_X86_LOOPS
  switch (cpu_features().best) {
    case InstructionSet::avx512:
      return loops_avx512();
    case InstructionSet::avx2:
      return loops_avx2();
    case InstructionSet::portable:
      break;
  }
#endif
  return loops_portable();
}

}  // namespace ringgrad::kernels::cpu
