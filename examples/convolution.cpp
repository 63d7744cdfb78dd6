// One kernel alone, on raw pointers: no Tensor, no autograd. A 3x3 box filter over a picture of
// 8x8.
//
//   build/release/convolution [DEVICE]         cpu, reference, emulated, cuda
#include <cstdio>
#include <vector>

#include "kernels/backends.h"
#include "kernels/kernels.h"
#include "runtime/buffer.h"

using namespace ringgrad;

int main(int argc, char** argv) try {
  const auto context = kernels::open_context(argc > 1 ? argv[1] : "emulated");
  const Stream& stream = context->compute_stream();
  const kernels::Conv2dShape shape{/*n, h, w, c=*/1, 8,        8, 1,
                                   /*k, r, s=*/1,    3,        3,
                                   /*stride=*/1,     /*pad=*/1};
  std::vector<float> picture(64, 0.0F), box(9, 1.0F);
  picture[3 * 8 + 4] = 9;

  const Buffer x = Buffer::on_device(*context, 64 * sizeof(float));
  const Buffer w = Buffer::on_device(*context, 9 * sizeof(float));
  const Buffer y = Buffer::on_device(*context, 64 * sizeof(float));
  const auto copy = [&](void* to, const void* from, std::size_t bytes, CopyKind kind) {
    context->device().copy(to, from, bytes, kind, stream.handle());
  };
  copy(x.data(), picture.data(), x.bytes(), CopyKind::host_to_device);
  copy(w.data(), box.data(), w.bytes(), CopyKind::host_to_device);
  kernels::run(*context, kernels::Conv2dForward<float>{
                             shape, static_cast<float*>(x.data()), static_cast<float*>(w.data()),
                             /*bias=*/nullptr, static_cast<float*>(y.data())});
  copy(picture.data(), y.data(), y.bytes(), CopyKind::device_to_host);
  stream.synchronize();
  for (std::size_t i = 0; i < picture.size(); ++i) {
    std::printf("%2.0f%s", static_cast<double>(picture[i]), i % 8 == 7 ? "\n" : "");
  }
  return 0;
} catch (const Error& error) {
  std::fprintf(stderr, "convolution: %s\n", error.what());
  return 2;
}
