// The `ringgrad` command. Exit codes: 0 done, 2 a mistake of the user's (one line says which), 128
// + n ended by signal n after saving, 75 another rank of the job failed, 1 anything else.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/commands.h"
#include "comm/communicator.h"
#include "comm/launcher.h"
#include "runtime/error.h"

namespace {

using ringgrad::apps::Action;

// Hyphens and underscores alike: --batch_size is --batch-size; -np is --np, as mpirun has it. What
// stands behind -- is another program's.
std::vector<std::string> with_hyphens(int argc, char** argv) {
  std::vector<std::string> args;
  const int ours =
      static_cast<int>(std::find(argv + 1, argv + argc, std::string_view("--")) - argv);
  for (int i = argc - 1; i > 0; --i) {  // CLI11 takes them last to first
    std::string arg = argv[i];
    if (i < ours && arg == "-np") {
      arg = "--np";
    }
    if (i < ours && arg.rfind("--", 0) == 0) {
      for (std::size_t at = 2; at < arg.size() && arg[at] != '='; ++at) {
        arg[at] = arg[at] == '_' ? '-' : arg[at];
      }
    }
    args.push_back(std::move(arg));
  }
  return args;
}

int run(int argc, char** argv) {
  CLI::App app{"Trains convolutional networks with kernels written by hand, on CPU and GPU."};
  app.name("ringgrad");
  app.require_subcommand(1);
  app.set_version_flag("--version", "ringgrad " RINGGRAD_VERSION);
  app.failure_message([](const CLI::App* failed, const CLI::Error& error) {
    return "ringgrad: " + std::string(error.what()) + " (see " + failed->get_name() + " --help)\n";
  });
  std::vector<std::pair<CLI::App*, Action>> actions;
  for (const auto add :
       {ringgrad::apps::add_train, ringgrad::apps::add_launch, ringgrad::apps::add_eval,
        ringgrad::apps::add_watch, ringgrad::apps::add_inspect, ringgrad::apps::add_fetch,
        ringgrad::apps::add_info}) {
    Action action = add(app);
    actions.emplace_back(app.get_subcommands({}).back(), std::move(action));
  }
  try {
    app.parse(with_hyphens(argc, argv));
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  for (const auto& [subcommand, action] : actions) {
    if (subcommand->parsed()) {
      return action();
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const ringgrad::comm::PeerFailure& error) {
    std::fprintf(stderr, "ringgrad: %s\n", error.what());
    return ringgrad::comm::kPeerFailed;
  } catch (const ringgrad::Error& error) {
    std::fprintf(stderr, "ringgrad: %s\n", error.what());
    return 2;
  } catch (const std::filesystem::filesystem_error& error) {
    std::fprintf(stderr, "ringgrad: %s: %s\n", error.path1().c_str(),
                 error.code().message().c_str());
    return 2;
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "ringgrad: out of memory\n");
    return 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ringgrad: unexpected: %s\n", error.what());
    return 1;
  }
}
