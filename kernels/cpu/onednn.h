// What the files that use oneDNN share. Nothing of oneDNN is seen outside kernels/cpu.
#pragma once

#include <dnnl.hpp>
#include <string>
#include <vector>

#include "kernels/kernels.h"

namespace ringgrad::kernels::cpu {

struct OneDnn {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
};

// This replica's engine, with oneDNN's thread count set to the replica's budget for the calling
// thread.
OneDnn& onednn(Context& context);

// "oneDNN 2.6.3": the library that is loaded.
std::string onednn_version();

// Scratch memory from the arena, for the length of a call.
class Scratch {
 public:
  Scratch(Context& context, std::size_t bytes)
      : context_(context),
        bytes_(bytes),
        data_(context.arena().allocate(bytes, context.compute_stream().handle())) {}
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { context_.arena().release(data_, bytes_, context_.compute_stream().handle()); }

  void* data() const { return data_; }

 private:
  Context& context_;
  std::size_t bytes_;
  void* data_;
};

}  // namespace ringgrad::kernels::cpu
