#include "models/registry.h"

#include "models/cifar_net.h"
#include "models/resnet.h"

namespace ringgrad {

std::vector<std::string> model_names() {
  return {"cifar-net", "resnet18"};
}

std::unique_ptr<Module> make_model(const std::string& name, const ModelOptions& options) {
  RINGGRAD_CHECK(options.classes >= 1, "a network needs at least one class; ", options.classes,
                 " were asked for");
  if (name == "cifar-net") {
    return std::make_unique<CifarNet>(options.classes);
  }
  if (name == "resnet18") {
    return std::make_unique<ResNet18>(
        options.classes, options.cifar_stem ? ResNetStem::cifar : ResNetStem::imagenet);
  }
  throw Error(concat("model '", name, "': expected cifar-net or resnet18"));
}

}  // namespace ringgrad
