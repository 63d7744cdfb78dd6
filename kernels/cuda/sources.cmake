# The .cu files, as nvcc and the emulated build compile them.
set(cuda_sources
  ${PROJECT_SOURCE_DIR}/runtime/cuda/device.cu
  ${PROJECT_SOURCE_DIR}/kernels/cuda/backend.cu
  ${PROJECT_SOURCE_DIR}/kernels/cuda/batch_norm.cu
  ${PROJECT_SOURCE_DIR}/kernels/cuda/conv2d.cu
  ${PROJECT_SOURCE_DIR}/kernels/cuda/convert.cu
  ${PROJECT_SOURCE_DIR}/kernels/cuda/cross_entropy.cu
  ${PROJECT_SOURCE_DIR}/kernels/cuda/elementwise.cu
  ${PROJECT_SOURCE_DIR}/kernels/cuda/fill.cu
  ${PROJECT_SOURCE_DIR}/kernels/cuda/hash.cu
  ${PROJECT_SOURCE_DIR}/kernels/cuda/linear.cu
  ${PROJECT_SOURCE_DIR}/kernels/cuda/pool2d.cu
  ${PROJECT_SOURCE_DIR}/kernels/cuda/sgd.cu
  ${PROJECT_SOURCE_DIR}/kernels/cuda/sums.cu)
