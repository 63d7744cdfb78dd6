#include "training/trainer.h"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "comm/ddp.h"
#include "comm/process_group.h"
#include "kernels/backends.h"
#include "runtime/cpu_features.h"
#include "runtime/json_text.h"
#include "training/checkpoint_state.h"
#include "training/replica.h"
#include "training/signals.h"

namespace ringgrad::training {
namespace {

using nlohmann::json;

Data open_data(const TrainOptions& options) {
  data::DatasetOptions opening = dataset_options(options);
  Data opened;
  opened.train = data::open_dataset(options.data, data::Split::train, opening);
  opening.known_classes = opened.train->classes();
  opened.test = data::open_dataset(options.data, data::Split::test, opening);
  opened.workers = std::make_unique<data::LoaderPool>(
      options.workers >= 0 ? options.workers : std::min(4, cpu_features().cores));
  return opened;
}

// The run's folder, kept for this process.
RunFolder claim_folder(const TrainOptions& options) {
  RunFolder folder =
      options.out.empty() ? RunFolder::next_free("runs", options.model) : RunFolder(options.out);
  RINGGRAD_CHECK(options.resume || !folder.newest_checkpoint(), "run folder ",
                 folder.path().string(),
                 " holds checkpoints of a run; continue it with --resume, or choose another --out");
  folder.lock();
  return folder;
}

// Of each replica of this process: --threads, else OMP_NUM_THREADS, else the cores of the host
// shared out among its ranks.
int threads_per_replica(const TrainOptions& options, int local_ranks) {
  if (options.threads > 0) {
    return std::max(1, options.threads / options.replicas);
  }
  const char* set = std::getenv("OMP_NUM_THREADS");
  const int wanted = set != nullptr ? std::atoi(set) : 0;
  const int cores = wanted > 0 ? wanted : cpu_features().cores / local_ranks;
  return std::max(1, cores / options.replicas);
}

int train_alone(const TrainOptions& options) {
  const RunFolder folder = claim_folder(options);
  const Data data = open_data(options);
  const auto communicator = comm::make_single_communicator();
  return run_replica(options, folder, data,
                     kernels::open_context(options.device, threads_per_replica(options, 1)),
                     *communicator);
}

int train_in_threads(const TrainOptions& options) {
  const RunFolder folder = claim_folder(options);
  const Data data = open_data(options);
  auto communicators = comm::make_thread_communicators(options.replicas, timeout_of(options));
  auto contexts =
      kernels::open_contexts(options.device, options.replicas, threads_per_replica(options, 1));
  std::vector<std::thread> replicas;
  std::mutex mutex;
  std::string failure;
  int code = 0;
  for (int rank = 0; rank < options.replicas; ++rank) {
    replicas.emplace_back([&, index = static_cast<std::size_t>(rank)] {
      const auto communicator = std::move(communicators[index]);
      try {
        contexts[index]->device().make_current();
        const int mine =
            run_replica(options, folder, data, std::move(contexts[index]), *communicator);
        const std::lock_guard<std::mutex> lock(mutex);
        code = std::max(code, mine);
      } catch (const std::exception& thrown) {
        {
          const std::lock_guard<std::mutex> lock(mutex);
          failure = failure.empty() ? thrown.what() : failure;
        }
        communicator->abort(thrown.what());  // the others wait for this one no longer
      }
    });
  }
  for (std::thread& replica : replicas) {
    replica.join();
  }
  RINGGRAD_CHECK(failure.empty(), failure);
  return code;
}

// Of the settings that a rank was told: those that must be the same on all ranks, and those with
// which it uses its own machine.
struct GivenSettings {
  explicit GivenSettings(const TrainOptions& options) : common(unpack(options.given_settings)) {
    for (const char* key : {"device", "threads", "workers"}) {
      if (common.contains(key)) {
        own[key] = common[key];
        common.erase(key);
      }
    }
  }
  json common, own = json::object();
};

// Rank 0's settings count: it alone knows those of a run that is resumed.
TrainOptions agreed_options(const TrainOptions& mine, const json& own,
                            comm::Communicator& communicator) {
  const auto host = kernels::open_context("reference", 1);
  const json first = {{"settings", to_json(mine)}, {"resume", mine.resume}};
  const json agreed = unpack(
      comm::broadcast_text(communicator, *host, communicator.rank() == 0 ? pack(first) : ""));
  TrainOptions options = mine;
  merge_json(options, agreed["settings"]);
  merge_json(options, own);
  options.resume = agreed["resume"].get<bool>();
  return options;
}

int train_as_rank(const TrainOptions& given, const comm::Placement& place) {
  RINGGRAD_CHECK(given.replicas == 1, "--replicas ", given.replicas, " within one of ", place.size,
                 " processes: start more processes instead");
  const bool first = place.rank == 0;
  if (first) {
    check(given);
  }
  RunFolder folder = first ? claim_folder(given) : RunFolder("");
  comm::ProcessGroupOptions joining;
  const GivenSettings told(given);
  joining.config = json_text(told.common);
  joining.backend = given.backend;
  joining.check_collectives = given.check_collectives;
  joining.transport = given.transport;
  joining.interface = given.interface;
  joining.timeout = timeout_of(given);
  const auto communicator = comm::join_process_group(place, joining);
  const SignalGuard signals;  // who waits for the others can be stopped at once
  try {
    const TrainOptions options = agreed_options(given, told.own, *communicator);
    auto context = kernels::open_context(
        options.device, threads_per_replica(options, place.local_size), place.local_rank);
    const Data data = open_data(options);
    return run_replica(options, folder, data, std::move(context), *communicator);
  } catch (const comm::PeerFailure&) {
    throw;
  } catch (const std::exception& error) {
    communicator->abort(concat("rank ", place.rank, " failed: ", error.what()));
    throw;
  }
}

}  // namespace

int train(const TrainOptions& given, const std::optional<comm::Placement>& place) {
  TrainOptions options = given;
  if (options.replicas == 0) {
    options.replicas = place ? 1 : kernels::device_count(options.device);
  }
  if (place && place->size > 1) {
    return train_as_rank(options, *place);
  }
  check(options);
  const SignalGuard signals;
  return options.replicas > 1 ? train_in_threads(options) : train_alone(options);
}

}  // namespace ringgrad::training
