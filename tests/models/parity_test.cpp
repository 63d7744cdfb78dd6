// Both networks against PyTorch: fixtures made by tests/parity/make_fixtures.py.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/functions.h"
#include "engine/sgd.h"
#include "kernels/backends.h"
#include "models/registry.h"
#include "runtime/file.h"
#include "tests/support/backend_test.h"
#include "tests/support/paths.h"

namespace ringgrad::test {
namespace {

using nlohmann::json;

// Number i of a named array, as the script makes it: Philox stream (1, FNV-1a of the name),
// uniform.
std::vector<float> named_values(const std::string& name, Index count, float low, float high) {
  const auto context = kernels::open_context("reference", 1);
  const Tensor y = Tensor::empty(*context, {count});
  kernels::run(*context,
               kernels::FillRandom<float>{count, kernels::Distribution::uniform, low, high, 1,
                                          StreamKey().add_text(name).value(), y.data<float>()});
  return y.to_host<float>();
}

// The script names arrays in PyTorch's order of elements (OIHW); ours are KRSC.
std::vector<float> to_krsc(const std::vector<float>& oihw, const Shape& krsc) {
  std::vector<float> out(oihw.size());
  std::size_t to = 0;
  for (Index k = 0; k < krsc[0]; ++k) {
    for (Index r = 0; r < krsc[1]; ++r) {
      for (Index s = 0; s < krsc[2]; ++s) {
        for (Index c = 0; c < krsc[3]; ++c) {
          out[to++] =
              oihw[static_cast<std::size_t>(((k * krsc[3] + c) * krsc[1] + r) * krsc[2] + s)];
        }
      }
    }
  }
  return out;
}

void set_parameters(Module& model) {
  for (const auto& [name, parameter] : model.all_members().parameters) {
    const Shape& shape = parameter->shape;
    const bool gamma = shape.rank() == 1 && name.find(".weight") != std::string::npos;
    Index fan_in = 1;
    for (int i = 1; i < shape.rank(); ++i) {
      fan_in *= shape[i];
    }
    const float bound = shape.rank() == 1 ? 0.1F : std::sqrt(3.0F / static_cast<float>(fan_in));
    std::vector<float> values =
        named_values(name, shape.count(), gamma ? 0.5F : -bound, gamma ? 1.5F : bound);
    if (parameter->layout == Layout::filter) {
      values = to_krsc(values, shape);
    }
    parameter->tensor.detach().copy_from_host(values.data(),
                                              static_cast<Index>(values.size() * sizeof(float)));
  }
}

// Sum, sum of magnitudes and root of the sum of squares: what the fixture keeps of a gradient.
std::vector<double> moments(const std::vector<float>& values) {
  double sum = 0;
  double magnitudes = 0;
  double squares = 0;
  for (const float value : values) {
    const auto v = static_cast<double>(value);
    sum += v;
    magnitudes += std::abs(v);
    squares += v * v;
  }
  return {sum, magnitudes, std::sqrt(squares)};
}

void check_model(const std::string& name, Context& context) {
  const json fixture = json::parse(read_file(source_folder() / "tests/parity" / (name + ".json")));
  const Index n = fixture["batch"];
  const Index size = fixture["size"];
  const Index classes = fixture["classes"];
  const std::size_t first_input = fixture["first_input"];
  const auto model = make_model(fixture["model"], {classes, fixture["cifar_stem"]});
  model->to(context, 0);
  const FlatParameters parameters(context, *model);
  set_parameters(*model);
  SGD sgd(parameters, {fixture["lr"], fixture["momentum"], fixture["weight_decay"], false});
  std::vector<float> losses;
  auto expected_losses = fixture["losses"].get<std::vector<float>>();
  expected_losses.resize(kAccessChecked ? 2 : expected_losses.size());
  for (std::size_t step = 0; step < expected_losses.size(); ++step) {
    const std::vector<float> nchw =
        named_values(concat("input", first_input + step), n * 3 * size * size, 0, 1);
    const Tensor x =
        Tensor::from_host(context, {n, size, size, 3}, to_krsc(nchw, {n, size, size, 3}));
    std::vector<std::int32_t> label_values;
    for (Index i = 0; i < n; ++i) {
      label_values.push_back(
          static_cast<std::int32_t>((i * 7 + static_cast<Index>(step) * 3) % classes));
    }
    const Tensor labels = Tensor::from_host(context, {n}, label_values);
    sgd.clear_gradients();
    const Tensor logits = (*model)(x);
    const Tensor loss = cross_entropy(logits, labels);
    backward(loss);
    losses.push_back(static_cast<float>(loss.item()));
    if (step == 0) {
      EXPECT_TRUE(close(logits.to_host<float>(), fixture["logits"].get<std::vector<float>>(),
                        {1e-4, 1e-4}));
      for (const auto& [parameter, expected] : fixture["gradients"].items()) {
        const auto found = std::find_if(parameters.ranges().begin(), parameters.ranges().end(),
                                        [&, p = parameter](const auto& r) { return r.name == p; });
        ASSERT_NE(found, parameters.ranges().end()) << parameter;
        const std::vector<double> got = moments(found->tensor.grad().to_host<float>());
        // The sum cancels; it is held to the sum of magnitudes.
        EXPECT_NEAR(got[0], expected[0].get<double>(), 1e-3 * expected[1].get<double>())
            << parameter;
        EXPECT_NEAR(got[1], expected[1].get<double>(), 1e-3 * expected[1].get<double>())
            << parameter;
        EXPECT_NEAR(got[2], expected[2].get<double>(), 1e-3 * expected[2].get<double>())
            << parameter;
      }
    }
    sgd.step();
  }
  // Ten losses to 1e-3: rounding grows from step to step.
  EXPECT_TRUE(close(losses, expected_losses, {0, 1e-3}));
}

class Parity : public BackendTest {};

TEST_P(Parity, CifarNet) {
  check_model("cifar_net", *context_);
}
TEST_P(Parity, ResNet18) {
  check_model("resnet18", *context_);
}
TEST_P(Parity, ResNet18WithCifarStem) {
  check_model("resnet18_cifar", *context_);
}
INSTANTIATE_TEST_SUITE_P(Backends, Parity, testing::Values("cpu", "emulated", "cuda"),
                         [](const auto& param) { return param.param; });

class FullParity : public BackendTest {};

TEST_P(FullParity, CifarNet) {
  check_model("cifar_net", *context_);
}
INSTANTIATE_TEST_SUITE_P(Backends, FullParity, testing::Values("reference"),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace ringgrad::test
