#include "comm/rendezvous.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "runtime/error.h"
#include "runtime/file.h"

namespace ringgrad::comm {
namespace {

constexpr int kDefaultPort = 29500;  // PyTorch's
// Where nobody names a port, jobs of one host each take their own.
constexpr int kFirstDerivedPort = 20000;
constexpr int kDerivedPorts = 9000;

class Reader {
 public:
  explicit Reader(const Environment& environment) : environment_(environment) {}

  bool has(const char* name) const { return environment_(name) != nullptr; }
  std::string text(const char* name, const std::string& otherwise = "") const {
    const char* value = environment_(name);
    return value != nullptr ? value : otherwise;
  }
  int number(const char* name) const {
    const std::string value = text(name);
    int number = -1;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    RINGGRAD_CHECK(error == std::errc() && end == value.data() + value.size() && number >= 0,
                   "environment variable ", name, " is '", value, "'; expected a number from 0");
    return number;
  }
  int number(const char* name, int otherwise) const { return has(name) ? number(name) : otherwise; }
  void require(const char* name, const char* because) const {
    RINGGRAD_CHECK(has(name), "environment variable ", name, " is missing, though ", because,
                   " is set");
  }

 private:
  const Environment& environment_;
};

int derived_port(const std::string& job) {
  std::uint32_t hash = 2166136261U;  // FNV-1a
  for (const char c : job) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  }
  return kFirstDerivedPort + static_cast<int>(hash % kDerivedPorts);
}

// The first host of a list as Slurm abbreviates it: "node[03-07,9],other" is node03.
std::string first_host(const std::string& list) {
  const std::size_t bracket = list.find('[');
  const std::size_t comma = list.find(',');
  if (bracket == std::string::npos || comma < bracket) {
    return list.substr(0, comma);
  }
  const std::size_t end = list.find_first_of("-,]", bracket);
  return list.substr(0, bracket) + list.substr(bracket + 1, end - bracket - 1);
}

// Of a list as Slurm abbreviates it: "2(x3),1" is two tasks on each of nodes 0 to 2, one on node 3.
int tasks_of_node(const std::string& list, int node) {
  std::istringstream parts(list);
  for (std::string part; std::getline(parts, part, ',');) {
    const std::size_t times = part.find("(x");
    node -= times == std::string::npos ? 1 : std::atoi(part.c_str() + times + 2);
    if (node < 0) {
      return std::max(1, std::atoi(part.c_str()));
    }
  }
  throw Error(concat("Slurm's task counts '", list, "' say nothing of this node"));
}

Placement from_env(const Reader& env) {
  env.require("WORLD_SIZE", "RANK");
  Placement place;
  place.starter = env.has("TORCHELASTIC_RUN_ID") ? "torchrun" : "the environment (RANK)";
  place.rank = env.number("RANK");
  place.size = env.number("WORLD_SIZE");
  if (place.size > 1) {
    env.require("MASTER_ADDR", "RANK");
  }
  place.master_addr = env.text("MASTER_ADDR");
  place.master_port = env.number("MASTER_PORT", kDefaultPort);
  const bool loopback = place.master_addr == "127.0.0.1" || place.master_addr == "localhost" ||
                        place.master_addr == "::1";
  place.local_rank = env.number("LOCAL_RANK", loopback ? place.rank : 0);
  place.local_size = env.number("LOCAL_WORLD_SIZE", loopback ? place.size : place.local_rank + 1);
  place.store_is_hosted = env.text("RINGGRAD_STORE") == "hosted";
  if (env.text("TORCHELASTIC_USE_AGENT_STORE") == "True") {
    place.master_port = env.number("RINGGRAD_STORE_PORT", place.master_port + 1);
  }
  place.job = env.text("RINGGRAD_JOB_ID", env.text("TORCHELASTIC_RUN_ID", "ringgrad"));
  place.generation = env.number("RINGGRAD_GENERATION", env.number("TORCHELASTIC_RESTART_COUNT", 0));
  return place;
}

// What the process managers of MPI and Slurm have in common.
Placement from_manager(const Reader& env, const char* starter, const char* rank, const char* size,
                       const char* local_rank, int local_size, const std::string& job,
                       const std::string& first_node) {
  env.require(size, rank);
  Placement place;
  place.starter = starter;
  place.rank = env.number(rank);
  place.size = env.number(size);
  place.local_rank = env.number(local_rank, place.rank);
  place.local_size = local_size;
  place.job = env.text("RINGGRAD_JOB_ID", job);
  place.master_addr = env.text("MASTER_ADDR", place.one_host() ? "127.0.0.1" : first_node);
  place.master_port = env.number("MASTER_PORT", derived_port(place.job));
  return place;
}

std::optional<Placement> place_of(const Reader& env) {
  if (env.has("RANK")) {
    return from_env(env);
  }
  if (env.has("OMPI_COMM_WORLD_RANK")) {
    Placement place =
        from_manager(env, "Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                     "OMPI_COMM_WORLD_LOCAL_RANK", env.number("OMPI_COMM_WORLD_LOCAL_SIZE", 1),
                     env.text("PMIX_NAMESPACE", env.text("OMPI_MCA_ess_base_jobid")), "");
    place.offers_mpi = true;
    return place;
  }
  if (env.has("PMI_RANK")) {
    return from_manager(env, "PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID",
                        env.number("MPI_LOCALNRANKS", 1), env.text("PMI_ID"), "");
  }
  if (env.has("SLURM_PROCID") && env.has("SLURM_STEP_ID")) {
    const int on_node =
        tasks_of_node(env.text("SLURM_STEP_TASKS_PER_NODE", "1"), env.number("SLURM_NODEID", 0));
    Placement place = from_manager(
        env, "Slurm", "SLURM_PROCID",
        env.has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS", "SLURM_LOCALID",
        on_node, env.text("SLURM_JOB_ID") + "." + env.text("SLURM_STEP_ID"),
        first_host(env.text("SLURM_STEP_NODELIST", env.text("SLURM_JOB_NODELIST"))));
    place.offers_mpi = env.has("PMIX_RANK");  // srun --mpi=pmix
    return place;
  }
  return std::nullopt;
}

}  // namespace

const char* const kSecretNeeded =
    "ranks on several hosts need a secret, so that no stranger joins them: put the same one on "
    "each "
    "host into the environment variable RINGGRAD_SECRET, or into a file for --secret-file (for "
    "example: openssl rand -hex 32)";

const char* process_environment(const char* name) {
  return std::getenv(name);
}

std::string secret_from(const Environment& environment, const std::string& secret_file) {
  if (secret_file.empty()) {
    return Reader(environment).text("RINGGRAD_SECRET");
  }
  std::string secret = read_file(secret_file);
  while (!secret.empty() && std::strchr("\r\n", secret.back()) != nullptr) {
    secret.pop_back();
  }
  RINGGRAD_CHECK(!secret.empty(), "--secret-file ", secret_file, " is empty");
  return secret;
}

void check_can_meet(const Placement& place) {
  RINGGRAD_CHECK(!place.master_addr.empty(), place.starter,
                 " started ranks on several hosts; tell them where rank 0 is, for Open MPI with: "
                 "mpirun -x MASTER_ADDR=HOST -x RINGGRAD_SECRET …");
  RINGGRAD_CHECK(place.one_host() || !place.secret.empty(), kSecretNeeded);
}

std::optional<Placement> placement_from(const Environment& environment,
                                        const std::string& secret_file) {
  const Reader env(environment);
  std::optional<Placement> place = place_of(env);
  if (!place) {
    return place;
  }
  RINGGRAD_CHECK(place->size >= 1 && place->rank < place->size, place->starter, ": rank ",
                 place->rank, " of ", place->size);
  RINGGRAD_CHECK(place->local_size >= 1 && place->local_rank < place->local_size &&
                     place->local_size <= place->size,
                 place->starter, ": local rank ", place->local_rank, " of ", place->local_size,
                 " on this host, of ", place->size, " in all");
  RINGGRAD_CHECK(place->master_port < 65536, "MASTER_PORT is ", place->master_port);
  place->secret = secret_from(environment, secret_file);
  if (!place->offers_mpi) {
    check_can_meet(*place);
  }
  return place;
}

}  // namespace ringgrad::comm
