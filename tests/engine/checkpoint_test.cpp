#include "engine/checkpoint.h"

#include <gtest/gtest.h>

#include "kernels/backends.h"
#include "models/cifar_net.h"
#include "models/resnet.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace ringgrad::test {
namespace {

// Small, with every kind of member.
struct Net : Module {
  Conv2d conv{3, 4, 3, {1, 1, false}};
  BatchNorm2d bn{4};
  Linear fc{4, 5};
  Tensor forward(const Tensor& x) override { return fc(global_avg_pool2d(bn.relu(conv(x)))); }
  void members(Members& m) override { m("conv", conv)("bn", bn)("fc", fc); }
};

class CheckpointTest : public testing::Test {
 protected:
  CheckpointTest() { net_.to(*context_, 1); }

  std::string load_error(const Safetensors& content) {
    Net other;
    other.to(*context_, 2);
    return error_of([&] { load_weights(other, content, "file"); });
  }

  std::unique_ptr<Context> context_ = kernels::open_context("cpu", 1);
  Net net_;
  TemporaryFolder folder_;
};

TEST_F(CheckpointTest, FiltersAreStoredAsOihw) {
  const Safetensors stored = weights_of(net_);
  EXPECT_EQ(stored.tensors.at("conv.weight").shape, (std::vector<std::int64_t>{4, 3, 3, 3}));
  const std::vector<float> oihw = stored.tensors.at("conv.weight").values<float>();
  const std::vector<float> krsc = net_.conv.weight.tensor.to_host<float>();
  EXPECT_EQ(oihw[((2 * 3 + 1) * 3 + 0) * 3 + 2], krsc[((2 * 3 + 0) * 3 + 2) * 3 + 1]);
  EXPECT_EQ(stored.tensors.at("bn.num_batches_tracked").dtype, DType::i64);
  EXPECT_TRUE(stored.tensors.at("bn.num_batches_tracked").shape.empty());
}

TEST_F(CheckpointTest, WeightsComeBackBitForBit) {
  net_.bn.num_batches_tracked = 42;
  save_weights(net_, folder_ / "w.safetensors", {{"note", "x"}});
  Net other;
  other.to(*context_, 2);
  EXPECT_TRUE(load_weights(other, folder_ / "w.safetensors").empty());
  EXPECT_EQ(other.conv.weight.tensor.to_host<float>(), net_.conv.weight.tensor.to_host<float>());
  EXPECT_EQ(other.fc.bias.tensor.to_host<float>(), net_.fc.bias.tensor.to_host<float>());
  EXPECT_EQ(other.bn.num_batches_tracked, 42);
}

TEST_F(CheckpointTest, ModulePrefixOnAllKeysIsStrippedAndOnSomeRefused) {
  Safetensors content = weights_of(net_);
  Safetensors prefixed;
  for (const auto& [name, tensor] : content.tensors) {
    prefixed.tensors["module." + name] = tensor;
  }
  Net other;
  other.to(*context_, 2);
  EXPECT_EQ(load_weights(other, prefixed, "file"),
            std::vector<std::string>{"stripped the prefix 'module.' from all names"});
  EXPECT_EQ(other.fc.weight.tensor.to_host<float>(), net_.fc.weight.tensor.to_host<float>());
  content.tensors["module.fc.weight"] = content.tensors["fc.weight"];
  content.tensors.erase("fc.weight");
  EXPECT_TRUE(contains(load_error(content), "1 of 8 names start with 'module.'"));
}

TEST_F(CheckpointTest, OnlyNumBatchesTrackedMayBeMissing) {
  Safetensors content = weights_of(net_);
  content.tensors.erase("bn.num_batches_tracked");
  EXPECT_EQ(load_error(content), "no error");
  content.tensors.erase("bn.running_var");
  EXPECT_EQ(load_error(content), "file: the file has no tensor bn.running_var");
}

TEST_F(CheckpointTest, UnexpectedKeysAndShapesAreRefused) {
  Safetensors content = weights_of(net_);
  content.tensors["extra.weight"] = content.tensors["fc.bias"];
  EXPECT_EQ(load_error(content),
            "file: the file's tensor extra.weight (5) is not one of the network's");
  content = weights_of(net_);
  content.tensors["bn.weight"] = {DType::f32, {1}, std::string(4, '\0')};
  EXPECT_EQ(load_error(content),
            "file: tensor bn.weight has shape (1) in the file and (4) in the network");
}

TEST_F(CheckpointTest, AnOptionStartsALayerAfresh) {
  Safetensors content = weights_of(net_);
  Net other;
  other.fc = Linear(4, 2);
  other.to(*context_, 2);
  const std::vector<float> fresh = other.fc.weight.tensor.to_host<float>();
  EXPECT_EQ(load_weights(other, content, "file", {{"fc"}}),
            (std::vector<std::string>{"fc.weight starts afresh: (5, 4) in the file, (2, 4) here",
                                      "fc.bias starts afresh: (5) in the file, (2) here"}));
  EXPECT_EQ(other.fc.weight.tensor.to_host<float>(), fresh);
  EXPECT_EQ(other.conv.weight.tensor.to_host<float>(), net_.conv.weight.tensor.to_host<float>());
}

TEST_F(CheckpointTest, AFailedLoadChangesNothing) {
  Safetensors content = weights_of(net_);
  content.tensors.erase("fc.bias");
  Net other;
  other.to(*context_, 2);
  const std::vector<float> before = other.conv.weight.tensor.to_host<float>();
  EXPECT_NE(error_of([&] { load_weights(other, content, "file"); }), "no error");
  EXPECT_EQ(other.conv.weight.tensor.to_host<float>(), before);
}

TEST_F(CheckpointTest, MomentumComesBackAndNoTemporaryIsLeft) {
  const FlatParameters flat(*context_, net_);
  SGD sgd(flat, {});
  backward(cross_entropy(net_(Tensor::zeros(*context_, {2, 4, 4, 3})),
                         Tensor::from_host<std::int32_t>(*context_, {2}, {0, 1})));
  sgd.step();
  save_checkpoint(folder_ / "c", net_, sgd, flat, {}, {{"epoch", "3"}});
  Net other;
  other.to(*context_, 2);
  const FlatParameters other_flat(*context_, other);
  SGD other_sgd(other_flat, {});
  EXPECT_EQ(load_checkpoint(folder_ / "c", other, other_sgd, other_flat).at("epoch"), "3");
  EXPECT_EQ(other_sgd.velocity().to_host<float>(), sgd.velocity().to_host<float>());
  EXPECT_EQ(other_flat.values().to_host<float>(), flat.values().to_host<float>());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 1);
}

}  // namespace
}  // namespace ringgrad::test
