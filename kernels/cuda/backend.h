// The hand-written CUDA kernels as a backend, built from the same .cu files up to twice: by nvcc
// (cuda) and by the host compiler over the emulator (emulated).
#pragma once

#include "kernels/backends.h"

namespace ringgrad::kernels::cuda {

Backend backend();

}  // namespace ringgrad::kernels::cuda

namespace ringgrad::kernels::emulated {

Backend backend();

}  // namespace ringgrad::kernels::emulated
