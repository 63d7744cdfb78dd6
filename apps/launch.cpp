#include "comm/launcher.h"

#include <cstdlib>
#include <memory>

#include "apps/commands.h"

namespace ringgrad::apps {
namespace {

constexpr const char* kExamples = R"(Examples:
  ringgrad launch --nproc-per-node 2 -- ringgrad train --data cifar10:cifar --out runs/two
  ringgrad launch -np 4 --max-restarts 3 -- ringgrad train --data synthetic:32x32 --out runs/four
On two machines, with the same RINGGRAD_SECRET:
  ringgrad launch -np 2 --nnodes 2 --node-rank 0 --master-addr 10.0.0.1 -- ringgrad train …
  ringgrad launch -np 2 --nnodes 2 --node-rank 1 --master-addr 10.0.0.1 -- ringgrad train …
Any program may stand behind --; each rank finds RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and
MASTER_PORT in its environment.)";

}  // namespace

Action add_launch(CLI::App& parent) {
  auto options = std::make_shared<comm::LaunchOptions>();
  auto grace = std::make_shared<int>(static_cast<int>(options->grace.count()));
  CLI::App& app = *parent.add_subcommand(
      "launch", "Start the ranks of a job on this machine, and stay with them");
  app.footer(kExamples);
  // Kubeflow sets the PET_ variables for torchrun; they mean the same here.
  const auto add = [&](const char* names, auto& field, const char* text,
                       const char* variable = "") {
    CLI::Option* option = app.add_option(names, field, text)->capture_default_str();
    if (*variable != '\0') {
      option->envname(variable);
    }
  };
  add("--nproc-per-node,--np", options->ranks, "Ranks on this machine (also -np N)",
      "PET_NPROC_PER_NODE");
  add("--nnodes", options->nodes, "Machines", "PET_NNODES");
  add("--node-rank", options->node_rank, "Which of them this is, from 0", "PET_NODE_RANK");
  add("--master-addr", options->master_addr, "Address of machine 0", "PET_MASTER_ADDR");
  add("--master-port", options->master_port,
      "Port there; 0: any free one on a single machine, else 29500", "PET_MASTER_PORT");
  add("--max-restarts", options->max_restarts,
      "Restarts from the newest checkpoint after a rank was lost", "PET_MAX_RESTARTS");
  add("--log-dir", options->log_dir, "Folder for a log of each rank");
  add("--secret-file", options->secret_file,
      "File with the job's secret; else RINGGRAD_SECRET, else (one machine) one is made");
  add("--grace", *grace, "Seconds from Ctrl-C until ranks that still run are killed");
  app.add_option("command", options->command, "Behind --: the program and its arguments")
      ->required();
  return [options, grace] {
    options->grace = std::chrono::seconds(*grace);
    return comm::launch(*options);
  };
}

}  // namespace ringgrad::apps
