// Included by .cu files only. RINGGRAD_CUDA_NAMESPACE is `cuda` under nvcc, `emulated` over the
// emulator.
#pragma once

#include <cuda_runtime.h>

#include "runtime/error.h"

#define RINGGRAD_CHECK_CUDA(call) RINGGRAD_CHECK_CALL("CUDA", call, cudaSuccess, cudaGetErrorString)
