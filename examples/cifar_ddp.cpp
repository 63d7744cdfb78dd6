// The CIFAR tutorial's program with DistributedDataParallel: every rank trains on its own share of
// the images, and the gradients are averaged while backward still runs.
//
//   ringgrad fetch cifar10 --to cifar
//   ringgrad launch --nproc-per-node 2 -- build/release/cifar_ddp cifar
#include <cstdio>

#include "comm/ddp.h"
#include "comm/process_group.h"
#include "data/loader.h"
#include "data/sampler.h"
#include "engine/functions.h"
#include "engine/layers.h"
#include "engine/sgd.h"
#include "kernels/backends.h"
#include "training/phase.h"

using namespace ringgrad;

struct Net : Module {
  Conv2d conv1{3, 32, 3, {/*stride=*/1, /*padding=*/1}};
  Conv2d conv2{32, 64, 3, {/*stride=*/1, /*padding=*/1}};
  Linear fc1{64 * 8 * 8, 512};
  Linear fc2{512, 10};

  void members(Members& m) override { m("conv1", conv1)("conv2", conv2)("fc1", fc1)("fc2", fc2); }

  Tensor forward(const Tensor& images) override {
    Tensor x = max_pool2d(relu(conv1(images)), {2, 2});
    x = max_pool2d(relu(conv2(x)), {2, 2});
    x = flatten(x);
    x = relu(fc1(x));
    return fc2(x);
  }
};

int main(int argc, char** argv) try {
  if (argc < 2) {
    std::fprintf(stderr, "usage: ringgrad launch -np N -- cifar_ddp FOLDER [EPOCHS [STEPS]]\n");
    return 2;
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // lines are seen at once, also through a launcher
  const int epochs = argc > 2 ? std::atoi(argv[2]) : 10;
  const int max_steps = argc > 3 ? std::atoi(argv[3]) : 1 << 30;

  // Who this process is, as its launcher says; the ranks meet here.
  const auto group = comm::init_process_group();
  const int rank = group->rank();
  const int world_size = group->size();
  const auto context = kernels::open_context("cpu");

  const auto train_set = data::open_cifar(argv[1], data::Split::train, 10);
  const auto test_set = data::open_cifar(argv[1], data::Split::test, 10);
  data::DistributedSampler::Options share;
  share.rank = rank;
  share.world = world_size;
  data::DistributedSampler sampler(train_set->size(), share);
  const data::DataLoader::Options loading{/*batch_size=*/64, /*workers=*/4};

  Net model;
  model.to(*context, /*seed=*/0);
  const FlatParameters parameters(*context, model, comm::shared_gradients(*context, *group));
  SGD optimizer(parameters, {/*lr=*/0.001, /*momentum=*/0.9});
  comm::DistributedDataParallel ddp(parameters, *group);

  for (int epoch = 0; epoch < epochs; ++epoch) {
    sampler.set_epoch(epoch);
    data::DataLoader loader(*context, *train_set, {data::TransformKind::to_tensor, true}, loading,
                            epoch, sampler.indices());
    for (std::int64_t step = 0; step < max_steps; ++step) {
      const auto batch = loader.next();
      if (batch == nullptr) {
        break;
      }
      const auto [images, labels] = training::to_device(*context, batch);
      optimizer.clear_gradients();
      const Tensor loss = cross_entropy(model(image_to_float(images, {})), labels);
      backward(loss);
      ddp.finish();
      optimizer.step();
      if (step % 100 == 0 && rank == 0) {
        std::printf("Train Epoch: %d [%lld/%lld (%.0f%%)]\tLoss: %.6f\n", epoch,
                    static_cast<long long>(step * batch->n), static_cast<long long>(sampler.size()),
                    100.0 * static_cast<double>(step) / static_cast<double>(loader.batches()),
                    loss.item());
      }
    }
    data::DataLoader tests(*context, *test_set, {data::TransformKind::to_tensor, false}, loading,
                           epoch, data::evaluation_shard(test_set->size(), rank, world_size));
    const training::Totals totals =
        training::reduced(training::evaluate(*context, model, tests, {}), *group, *context);
    if (rank == 0) {
      std::printf("test accuracy %.4f of %lld images\n", totals.accuracy(),
                  static_cast<long long>(totals.samples));
    }
  }
  return 0;
} catch (const Error& error) {
  std::fprintf(stderr, "cifar_ddp: %s\n", error.what());
  return 2;
}
