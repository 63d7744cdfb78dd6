#include <cstdio>

#include "apps/commands.h"
#include "kernels/backends.h"
#include "runtime/cpu_features.h"

namespace ringgrad::apps {

Action add_info(CLI::App& parent) {
  parent.add_subcommand("info", "Version, devices, instruction sets and libraries");
  return [] {
    std::printf("ringgrad %s\n", RINGGRAD_VERSION);
    std::printf("processor: %s\n", cpu_features().description.c_str());
    for (const kernels::Backend& backend : kernels::backends()) {
      std::printf("device %s: %s%s%s\n", backend.name.c_str(), backend.summary.c_str(),
                  backend.library.empty() ? "" : ", ", backend.library.c_str());
      try {
        for (const std::string& argument : backend.list("")) {
          const auto device = backend.open(argument);
          std::printf("  %s: %s\n", device->name().c_str(), device->description().c_str());
        }
      } catch (const Error& error) {
        std::printf("  none: %s\n", error.what());
      }
    }
    return 0;
  };
}

}  // namespace ringgrad::apps
