#include <memory>

#include "apps/commands.h"
#include "data/fetch.h"

namespace ringgrad::apps {
namespace {

struct FetchCommand {
  std::string name;
  std::string to;
  std::string url;
};

}  // namespace

Action add_fetch(CLI::App& parent) {
  auto command = std::make_shared<FetchCommand>();
  CLI::App& app = *parent.add_subcommand("fetch", "Download a data set: cifar10 or cifar100");
  app.footer(
      "Example:\n  ringgrad fetch cifar10 --to cifar\n"
      "A download that was cut is continued; size and checksum are verified before unpacking.");
  app.add_option("name", command->name, "cifar10 or cifar100")->required();
  app.add_option("--to", command->to, "Folder to unpack into; default: data/NAME");
  app.add_option("--url", command->url, "Another place to get the same archive from");
  return [command] {
    data::Archive archive = data::known_archive(command->name);
    if (!command->url.empty()) {
      archive.url = command->url;
    }
    data::fetch(archive, command->to.empty() ? "data/" + command->name : command->to);
    return 0;
  };
}

}  // namespace ringgrad::apps
