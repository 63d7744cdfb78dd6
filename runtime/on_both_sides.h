// RINGGRAD_HOST_DEVICE marks functions that host code and CUDA kernels both call.
#pragma once

#ifdef __CUDACC__
#define RINGGRAD_HOST_DEVICE __host__ __device__
#else
#define RINGGRAD_HOST_DEVICE
#endif
