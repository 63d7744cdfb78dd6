// Convolution by oneDNN: images stay NHWC; filters go from KRSC into the layout that oneDNN picks,
// and their gradients back, since its kernels want blocks of 16 channels. Taps that only ever see
// padding are left out: oneDNN is given the view of the filters without them. Primitives are made
// once per shape.
#include <algorithm>

#include "kernels/cpu/onednn.h"
#include "kernels/cpu/operations.h"
#include "kernels/live_taps.h"
#include "runtime/parallel.h"

namespace ringgrad::kernels::cpu {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

std::vector<std::int64_t> key_of(const Conv2dShape& d, bool bias) {
  return {d.n, d.h, d.w, d.c, d.k, d.r, d.s, d.stride, d.pad, bias ? 1 : 0};
}

memory::desc described(const memory::dims& dims, Tag tag) {
  return {dims, memory::data_type::f32, tag};
}

struct Descriptors {
  explicit Descriptors(const Conv2dShape& d)
      : rows(live_taps(d.h, d.p(), d.r, d.stride, d.pad)),
        columns(live_taps(d.w, d.q(), d.s, d.stride, d.pad)),
        x(described({d.n, d.c, d.h, d.w}, Tag::nhwc)),
        y(described({d.n, d.k, d.p(), d.q()}, Tag::nhwc)),
        bias(described({d.k}, Tag::a)),
        w({d.k, d.c, rows.count, columns.count}, memory::data_type::f32,
          {d.r * d.s * d.c, 1, d.s * d.c, d.c}),
        w_any(described({d.k, d.c, rows.count, columns.count}, Tag::any)),
        w_offset((rows.first * d.s + columns.first) * d.c),
        strides{d.stride, d.stride},
        padding{d.pad - rows.first, d.pad - columns.first},
        // What is needed on the far side for P and Q to come out: less than near, even negative,
        // where the stride does not divide.
        far_padding{(d.p() - 1) * d.stride + rows.count - d.h - padding[0],
                    (d.q() - 1) * d.stride + columns.count - d.w - padding[1]} {}

  LiveTaps rows, columns;
  memory::desc x, y, bias, w, w_any;
  Index w_offset;  // of the first live tap in the filters (K,R,S,C)
  memory::dims strides, padding, far_padding;
};

dnnl::primitive_attr with_user_scratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

constexpr auto kAlgorithm = dnnl::algorithm::convolution_direct;

dnnl::convolution_forward::primitive_desc forward_description(const Descriptors& d, bool bias,
                                                              const OneDnn& dnn) {
  using Desc = dnnl::convolution_forward::desc;
  const Desc desc = bias ? Desc(dnnl::prop_kind::forward_training, kAlgorithm, d.x, d.w_any, d.bias,
                                d.y, d.strides, d.padding, d.far_padding)
                         : Desc(dnnl::prop_kind::forward_training, kAlgorithm, d.x, d.w_any, d.y,
                                d.strides, d.padding, d.far_padding);
  return {desc, with_user_scratchpad(), dnn.engine};
}

// A primitive with the layout that it wants its filters in.
template <class Primitive>
struct Convolution {
  Primitive primitive;
  memory::desc w;
  memory::desc scratchpad;
  dnnl::reorder
      reorder;  // filters to `w`, or the gradient back from it; empty if the layout is KRSC
  bool reordered;
};

template <class Primitive, class Description>
std::unique_ptr<Convolution<Primitive>> make_convolution(const Description& description,
                                                         const memory::desc& wanted,
                                                         const memory::desc& krsc, bool from_krsc,
                                                         const OneDnn& dnn) {
  auto made = std::make_unique<Convolution<Primitive>>();
  made->primitive = Primitive(description);
  made->w = wanted;
  made->scratchpad = description.scratchpad_desc();
  made->reordered = wanted != krsc;
  if (made->reordered) {
    made->reorder = dnnl::reorder(dnnl::reorder::primitive_desc(
        dnn.engine, from_krsc ? krsc : wanted, dnn.engine, from_krsc ? wanted : krsc));
  }
  return made;
}

memory bound(const memory::desc& desc, const OneDnn& dnn, const void* data) {
  return {desc, dnn.engine, const_cast<void*>(data)};
}

// The live taps of the filters w (K,R,S,C) as a primitive wants them, for the length of a call.
class Filters {
 public:
  template <class Primitive>
  Filters(Context& context, OneDnn& dnn, Convolution<Primitive>& conv, const Descriptors& d,
          const float* w)
      : blocked_(context, conv.reordered ? conv.w.get_size() : 0),
        memory_(bound(conv.w, dnn, conv.reordered ? blocked_.data() : w + d.w_offset)) {
    if (conv.reordered) {
      dnnl::memory plain = bound(d.w, dnn, w + d.w_offset);
      conv.reorder.execute(dnn.stream, plain, memory_);
    }
  }
  const dnnl::memory& memory() const { return memory_; }

 private:
  Scratch blocked_;
  dnnl::memory memory_;
};

void conv2d_forward(Context& context, const Conv2dForward<float>& a) {
  if (a.shape.n == 0) {
    return;
  }
  OneDnn& dnn = onednn(context);
  const Descriptors d(a.shape);
  auto& conv = context.cached<Convolution<dnnl::convolution_forward>>(
      key_of(a.shape, a.bias != nullptr), [&] {
        const auto description = forward_description(d, a.bias != nullptr, dnn);
        return make_convolution<dnnl::convolution_forward>(description, description.weights_desc(),
                                                           d.w, true, dnn);
      });
  const Scratch scratchpad(context, conv.scratchpad.get_size());
  const Filters filters(context, dnn, conv, d, a.w);
  conv.primitive.execute(dnn.stream,
                         {{DNNL_ARG_SRC, bound(d.x, dnn, a.x)},
                          {DNNL_ARG_WEIGHTS, filters.memory()},
                          {DNNL_ARG_BIAS, bound(d.bias, dnn, a.bias)},
                          {DNNL_ARG_DST, bound(d.y, dnn, a.y)},
                          {DNNL_ARG_SCRATCHPAD, bound(conv.scratchpad, dnn, scratchpad.data())}});
}

void conv2d_backward_data(Context& context, const Conv2dBackwardData<float>& a) {
  if (a.shape.n == 0) {
    return;
  }
  OneDnn& dnn = onednn(context);
  const Descriptors d(a.shape);
  auto& conv =
      context.cached<Convolution<dnnl::convolution_backward_data>>(key_of(a.shape, false), [&] {
        const dnnl::convolution_backward_data::primitive_desc description(
            {kAlgorithm, d.x, d.w_any, d.y, d.strides, d.padding, d.far_padding},
            with_user_scratchpad(), dnn.engine, forward_description(d, false, dnn));
        return make_convolution<dnnl::convolution_backward_data>(
            description, description.weights_desc(), d.w, true, dnn);
      });
  const Scratch scratchpad(context, conv.scratchpad.get_size());
  const Filters filters(context, dnn, conv, d, a.w);
  conv.primitive.execute(dnn.stream,
                         {{DNNL_ARG_DIFF_DST, bound(d.y, dnn, a.dy)},
                          {DNNL_ARG_WEIGHTS, filters.memory()},
                          {DNNL_ARG_DIFF_SRC, bound(d.x, dnn, a.dx)},
                          {DNNL_ARG_SCRATCHPAD, bound(conv.scratchpad, dnn, scratchpad.data())}});
}

// Zeroes the gradient of the taps that only see padding: what lies between the live stretches of
// dw (K,R,S,C).
void clear_dead_taps(Context& context, const Conv2dShape& shape, const Descriptors& d, float* dw) {
  if (d.rows.count == shape.r && d.columns.count == shape.s) {
    return;
  }
  const Index size = shape.r * shape.s * shape.c;
  parallel_for(context.threads(), shape.k, 16, [&](int, Index begin, Index end) {
    for (Index k = begin; k < end; ++k) {
      float* cleared = dw + k * size;
      for (Index row = 0; row < d.rows.count; ++row) {
        float* live = dw + k * size + d.w_offset + row * shape.s * shape.c;
        std::fill(cleared, live, 0.0F);
        cleared = live + d.columns.count * shape.c;
      }
      std::fill(cleared, dw + (k + 1) * size, 0.0F);
    }
  });
}

// Adds n fresh values to a gradient.
void accumulate(Context& context, Index n, const void* fresh, float* gradient) {
  run(context, Add<float>{n, gradient, static_cast<const float*>(fresh), gradient});
}

void conv2d_backward_weights(Context& context, const Conv2dBackwardWeights<float>& a) {
  const Index filters = a.shape.k * a.shape.r * a.shape.s * a.shape.c;
  const bool add = a.mode == GradMode::accumulate;
  const bool bias = a.dbias != nullptr;
  if (a.shape.n == 0) {
    if (!add) {
      run(context, FillConstant<float>{filters, 0.0F, a.dw});
      run(context, FillConstant<float>{bias ? a.shape.k : 0, 0.0F, a.dbias});
    }
    return;
  }
  OneDnn& dnn = onednn(context);
  const Descriptors d(a.shape);
  auto& conv =
      context.cached<Convolution<dnnl::convolution_backward_weights>>(key_of(a.shape, bias), [&] {
        using Desc = dnnl::convolution_backward_weights::desc;
        const Desc desc =
            bias ? Desc(kAlgorithm, d.x, d.w_any, d.bias, d.y, d.strides, d.padding, d.far_padding)
                 : Desc(kAlgorithm, d.x, d.w_any, d.y, d.strides, d.padding, d.far_padding);
        const dnnl::convolution_backward_weights::primitive_desc description(
            desc, with_user_scratchpad(), dnn.engine, forward_description(d, bias, dnn));
        return make_convolution<dnnl::convolution_backward_weights>(
            description, description.diff_weights_desc(), d.w, false, dnn);
      });
  const Scratch scratchpad(context, conv.scratchpad.get_size());
  const Scratch blocked(context, conv.reordered ? conv.w.get_size() : 0);
  const Scratch fresh(context, add ? sizeof(float) * static_cast<std::size_t>(filters) : 0);
  const Scratch fresh_bias(context, add ? sizeof(float) * static_cast<std::size_t>(a.shape.k) : 0);
  float* dw = add ? static_cast<float*>(fresh.data()) : a.dw;
  void* dbias = add ? fresh_bias.data() : a.dbias;
  memory w = bound(conv.w, dnn, conv.reordered ? blocked.data() : dw + d.w_offset);
  conv.primitive.execute(dnn.stream,
                         {{DNNL_ARG_SRC, bound(d.x, dnn, a.x)},
                          {DNNL_ARG_DIFF_DST, bound(d.y, dnn, a.dy)},
                          {DNNL_ARG_DIFF_WEIGHTS, w},
                          {DNNL_ARG_DIFF_BIAS, bound(d.bias, dnn, bias ? dbias : nullptr)},
                          {DNNL_ARG_SCRATCHPAD, bound(conv.scratchpad, dnn, scratchpad.data())}});
  if (conv.reordered) {
    memory krsc = bound(d.w, dnn, dw + d.w_offset);
    conv.reorder.execute(dnn.stream, w, krsc);
  }
  clear_dead_taps(context, a.shape, d, dw);
  if (add) {
    accumulate(context, filters, dw, a.dw);
    accumulate(context, bias ? a.shape.k : 0, dbias, a.dbias);
  }
}

}  // namespace

void add_conv2d(OperationTable& table) {
  table.add<Conv2dForward<float>, conv2d_forward>();
  table.add<Conv2dBackwardData<float>, conv2d_backward_data>();
  table.add<Conv2dBackwardWeights<float>, conv2d_backward_weights>();
}

}  // namespace ringgrad::kernels::cpu
