#include "comm/process_group.h"

#include <nlohmann/json.hpp>

#include "comm/collectives.h"
#include "comm/mpi/mpi_collectives.h"
#include "comm/neighbours.h"
#include "comm/secret.h"
#include "comm/store.h"
#include "runtime/error.h"
#include "runtime/json_text.h"

namespace ringgrad::comm {
namespace {

using nlohmann::json;

constexpr std::chrono::seconds kOneAddress{1};  // of several that rank 0 may be reached at
constexpr std::chrono::seconds kLeaving{30};    // rank 0, which hosts the store, leaves last

// What must outlive the collectives. The client goes first: it says goodbye.
struct Membership {
  ~Membership() {
    client.reset();
    if (server != nullptr) {
      server->wait_until_left(Deadline(kLeaving));
    }
  }
  std::unique_ptr<StoreServer> server;
  std::unique_ptr<StoreClient> client;
};

struct Connected {
  std::unique_ptr<Collectives> collectives;
  std::string description;
};

bool uses_mpi(const Placement& place, const ProcessGroupOptions& options) {
  return options.backend == "mpi" || (options.backend == "auto" && options.transport == "auto" &&
                                      place.offers_mpi && !place.one_host() && mpi_is_built());
}

// What is given where rank 0 runs counts for all; what is not, rank 0 makes: the secret, the port,
// and its addresses, of which each rank takes the first that it reaches.
void meet_through(MpiSession& mpi, Placement& place, const Socket& listener,
                  const std::string& interface, const Deadline& deadline) {
  json offer;
  if (place.rank == 0) {
    offer["secret"] = place.secret.empty() ? random_hex(32) : place.secret;
    offer["port"] = port_of(listener);
    offer["addresses"] = !place.master_addr.empty() ? std::vector{place.master_addr}
                         : !interface.empty()       ? std::vector{interface_address(interface)}
                                                    : outside_addresses();
  }
  // A secret need not be UTF-8: all ranks take what is left of it.
  const json told = json::parse(mpi.broadcast_text(json_text(offer), deadline));
  place.secret = told["secret"].get<std::string>();
  place.master_port = told["port"].get<int>();
  const auto addresses = told["addresses"].get<std::vector<std::string>>();
  RINGGRAD_CHECK(!addresses.empty(), "rank 0 has no address that other hosts could reach");
  while (!deadline.passed()) {
    for (const std::string& address : addresses) {
      try {
        connect_tcp({address, place.master_port}, Deadline(kOneAddress));
        place.master_addr = address;
        return;
      } catch (const Error&) {
        continue;
      }
    }
  }
  throw PeerFailure(concat("rank ", place.rank, " reaches rank 0 at none of its addresses: ",
                           told["addresses"].dump(), ", port ", place.master_port));
}

Connected connect(StoreClient& store, const Placement& place, const ProcessGroupOptions& options,
                  const std::shared_ptr<MpiSession>& mpi, const std::shared_ptr<Failure>& failure,
                  const Deadline& deadline) {
  if (mpi != nullptr) {
    return {make_mpi_collectives(mpi, options.check_collectives, failure, options.timeout), "MPI"};
  }
  std::unique_ptr<HostGroup> host;
  if (options.transport != "tcp") {
    host = std::make_unique<HostGroup>(store, place, deadline);
    RINGGRAD_CHECK(options.transport != "shared" || host->one_host(),
                   "--transport shared: not all ranks are on one host");
    if (host->one_host()) {
      return {make_shared_collectives(host->segment(), failure, options.timeout),
              "ring over shared memory"};
    }
  }
  return {make_ring_collectives(
              connect_ring(store, place, host.get(), options.interface, *failure, deadline),
              failure, options.timeout),
          place.one_host() ? "ring over TCP"
                           : "ring over TCP, a fallback: between hosts MPI is tried and tested"};
}

}  // namespace

std::unique_ptr<Communicator> join_process_group(const Placement& given,
                                                 const ProcessGroupOptions& options) {
  if (given.size == 1) {
    return make_single_communicator();
  }
  RINGGRAD_CHECK(options.backend != "nccl",
                 "--backend nccl: this program was built without NCCL; use --backend ring");
  const Deadline deadline(options.join_timeout);
  Placement place = given;
  const std::shared_ptr<MpiSession> mpi =
      uses_mpi(place, options) ? begin_mpi(place.rank, place.size) : nullptr;
  const bool hosts = place.rank == 0 && !place.store_is_hosted;
  const bool by_mpi = mpi != nullptr && !place.one_host() && !place.store_is_hosted;
  Socket listener;
  if (hosts) {
    listener = listen_tcp(place.one_host() ? "127.0.0.1" : "",
                          place.master_addr.empty() ? 0 : place.master_port);
  }
  if (by_mpi) {
    meet_through(*mpi, place, listener, options.interface, deadline);
  }
  check_can_meet(place);
  if (place.secret.empty()) {  // on one host
    place.secret = host_secret(host_secret_file());
  }
  const JobIdentity identity{place.job, place.secret, options.config, place.size, place.generation};
  const auto failure = std::make_shared<Failure>();
  auto membership = std::make_shared<Membership>();
  if (hosts) {
    membership->server = std::make_unique<StoreServer>(identity, std::move(listener));
  }
  const std::string store_host = place.one_host() ? "127.0.0.1" : place.master_addr;
  membership->client = std::make_unique<StoreClient>(Address{store_host, place.master_port},
                                                     identity, place.rank, failure, deadline);
  StoreClient& store = *membership->client;
  // The object dies with the communicator, after its last report.
  failure->report_through(
      [client = membership->client.get()](const std::string& cause) { client->fail(cause); });
  try {
    store.wait_for_everybody(deadline);
    auto [collectives, description] = connect(store, place, options, mpi, failure, deadline);
    store.show_begun(collectives->begun());
    collectives->ask_for_lagging(
        [&store](std::int64_t sequence) { return store.lagging(sequence); });
    return make_host_communicator(std::move(collectives), place.local_rank, std::move(description),
                                  membership);
  } catch (const PeerFailure& error) {
    throw PeerFailure(failure->fail(error.what()));
  } catch (const std::exception& error) {
    if (failure->raised()) {  // elsewhere
      throw PeerFailure(failure->fail(error.what()));
    }
    throw Error(failure->fail(error.what()));
  }
}

std::unique_ptr<Communicator> init_process_group(const ProcessGroupOptions& options,
                                                 const std::string& secret_file) {
  const auto place = placement_from(process_environment, secret_file);
  return place ? join_process_group(*place, options) : make_single_communicator();
}

}  // namespace ringgrad::comm
