// The CIFAR tutorial's program on one device: load CIFAR-10, train the small network, count what it
// gets right.
//
//   ringgrad fetch cifar10 --to cifar
//   build/release/cifar cifar
#include <cstdio>

#include "data/loader.h"
#include "data/sampler.h"
#include "engine/sgd.h"
#include "kernels/backends.h"
#include "models/cifar_net.h"
#include "training/phase.h"

using namespace ringgrad;

int main(int argc, char** argv) try {
  if (argc < 2) {
    std::fprintf(stderr, "usage: cifar FOLDER [EPOCHS]\n");
    return 2;
  }
  const int epochs = argc > 2 ? std::atoi(argv[2]) : 10;
  const auto context = kernels::open_context("cpu");

  const auto train_set = data::open_cifar(argv[1], data::Split::train, 10);
  const auto test_set = data::open_cifar(argv[1], data::Split::test, 10);
  data::DistributedSampler sampler(train_set->size(), {});
  const data::DataLoader::Options loading{/*batch_size=*/64, /*workers=*/4};

  CifarNet model;
  model.to(*context, /*seed=*/0);
  const FlatParameters parameters(*context, model);
  SGD optimizer(parameters, {/*lr=*/0.001, /*momentum=*/0.9});

  for (int epoch = 0; epoch < epochs; ++epoch) {
    sampler.set_epoch(epoch);
    data::DataLoader loader(*context, *train_set, {data::TransformKind::to_tensor, true}, loading,
                            epoch, sampler.indices());
    for (std::int64_t step = 0; const auto batch = loader.next(); ++step) {
      const auto [images, labels] = training::to_device(*context, batch);
      optimizer.clear_gradients();
      const Tensor loss = cross_entropy(model(image_to_float(images, {})), labels);
      backward(loss);
      optimizer.step();
      if (step % 100 == 0) {
        std::printf(
            "Train Epoch: %d [%lld/%lld (%.0f%%)]\tLoss: %.6f\n", epoch,
            static_cast<long long>(step * batch->n), static_cast<long long>(train_set->size()),
            100.0 * static_cast<double>(step) / static_cast<double>(loader.batches()), loss.item());
      }
    }
    data::DataLoader tests(*context, *test_set, {data::TransformKind::to_tensor, false}, loading,
                           epoch, data::evaluation_shard(test_set->size(), 0, 1));
    const training::Totals totals = training::evaluate(*context, model, tests, {});
    std::printf("test accuracy %.4f\n", totals.accuracy());
  }
  return 0;
} catch (const Error& error) {
  std::fprintf(stderr, "cifar: %s\n", error.what());
  return 2;
}
