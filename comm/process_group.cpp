#include "comm/process_group.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include "comm/collectives.h"
#include "comm/mpi/mpi_collectives.h"
#include "comm/secret.h"
#include "comm/store.h"
#include "comm/tcp_transport.h"
#include "runtime/error.h"

namespace ringgrad::comm {
namespace {

constexpr std::chrono::seconds kStrangerTime{2};  // to prove itself
constexpr std::chrono::seconds kOneAddress{1};    // of several that rank 0 may be reached at
constexpr std::chrono::seconds kLeaving{30};      // rank 0, which hosts the store, leaves last

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

// Accepts the ranks that `expected` names, each once, until all have come or `stop` says so;
// strangers are turned away.
std::map<int, Socket> accept_ranks(const Socket& listener, const std::string& secret,
                                   const std::string& role, std::set<int> expected,
                                   const std::function<bool()>& stop) {
  std::map<int, Socket> ranks;
  while (!expected.empty() && !stop()) {
    Socket socket = accept_one(listener, Deadline(std::chrono::milliseconds(20)));
    if (!socket.valid()) {
      continue;
    }
    try {
      const int rank = proven_rank(socket, secret, role, Deadline(kStrangerTime));
      if (expected.erase(rank) > 0) {
        ranks[rank] = std::move(socket);
      }
    } catch (const Error&) {
      continue;
    }
  }
  return ranks;
}

// The ranks of one host find each other through local sockets, which reach no further than the
// host's network namespace: host names and file systems say less in containers. The lowest rank
// that can be reached makes the memory and hands it on.
class HostGroup {
 public:
  HostGroup(StoreClient& store, const Placement& place, const Deadline& deadline)
      : store_(store), place_(place), deadline_(deadline) {
    const std::string name = "ringgrad-" + random_hex(16);
    const Socket listener = listen_local(name);
    store_.set(concat("local/", place_.rank), name);
    // Others may knock while this rank still looks for its own leader.
    std::atomic<bool> stop{false};
    std::map<int, Socket> members;
    std::set<int> others;
    for (int rank = place_.rank + 1; rank < place_.size; ++rank) {
      others.insert(rank);
    }
    std::thread door([&] {
      members = accept_ranks(listener, place_.secret, "host", others,
                             [&] { return stop || deadline_.passed(); });
    });
    Socket to_leader;
    std::string error;
    try {
      leader_ = place_.rank;
      for (int rank = 0; rank < place_.rank && leader_ == place_.rank; ++rank) {
        to_leader = knock(rank);
        leader_ = to_leader.valid() ? rank : leader_;
      }
      store_.set(concat("leader/", place_.rank), std::to_string(leader_));
      for (int rank = 0; rank < place_.size; ++rank) {
        leaders_.push_back(std::stoi(store_.get(concat("leader/", rank), deadline_)));
      }
    } catch (const std::exception& thrown) {
      error = thrown.what();
    }
    stop = true;
    door.join();
    RINGGRAD_CHECK(error.empty(), error);
    if (one_host()) {
      hand_memory_on(to_leader, members);
    }
  }

  bool one_host() const {
    return std::all_of(leaders_.begin(), leaders_.end(), [&](int l) { return l == leaders_[0]; });
  }
  SharedSegment segment() const { return *segment_; }

 private:
  Socket knock(int rank) {
    Socket socket = connect_local(store_.get(concat("local/", rank), deadline_), deadline_);
    if (socket.valid()) {
      prove_rank(socket, place_.secret, "host", place_.rank, deadline_);
    }
    return socket;
  }

  void hand_memory_on(const Socket& to_leader, const std::map<int, Socket>& members) {
    const Socket file(leader_ == place_.rank ? SharedSegment::create_file(place_.size)
                                             : receive_descriptor(to_leader, deadline_));
    for (const auto& [rank, socket] : members) {
      send_descriptor(socket, file.descriptor(), deadline_);
    }
    segment_ = std::make_unique<SharedSegment>(
        SharedSegment::map_file(file.descriptor(), place_.rank, place_.size));
  }

  StoreClient& store_;
  const Placement& place_;
  const Deadline& deadline_;
  int leader_ = 0;
  std::vector<int> leaders_;
  std::unique_ptr<SharedSegment> segment_;
};

// Where the left neighbour finds this rank: at the address that reaches the store, unless that one
// is loopback for ranks of several hosts: then the store is on this host, and the others reach it
// under the name that they were given.
std::unique_ptr<Transport> connect_ring(StoreClient& store, const Placement& place,
                                        const std::string& interface, const Failure& failure,
                                        const Deadline& deadline) {
  std::string address = interface.empty() ? store.own_address() : interface_address(interface);
  const bool by_name = !place.one_host() && is_loopback(address);
  const Socket listener = listen_tcp(by_name ? "" : address, 0);
  address = by_name ? place.master_addr : address;
  store.set(concat("ring/", place.rank), concat(port_of(listener), " ", address));
  const int right = (place.rank + 1) % place.size;
  const int left = (place.rank + place.size - 1) % place.size;
  std::atomic<bool> stop{false};
  Socket from_left;
  std::thread door([&] {
    from_left = std::move(accept_ranks(listener, place.secret, "ring", {left}, [&] {
      return stop || failure.raised() || deadline.passed();
    })[left]);
  });
  Socket to_right;
  std::string error;
  try {
    const std::string target = store.get(concat("ring/", right), deadline);
    const std::size_t space = target.find(' ');
    to_right = connect_tcp({target.substr(space + 1), std::stoi(target.substr(0, space))}, deadline,
                           [&] { failure.check(); });
    prove_rank(to_right, place.secret, "ring", place.rank, deadline);
  } catch (const std::exception& thrown) {
    error = concat("rank ", place.rank, " cannot reach rank ", right, ": ", thrown.what());
    stop = true;
  }
  door.join();
  failure.check();
  RINGGRAD_CHECK(error.empty(), error);
  RINGGRAD_CHECK(from_left.valid(), "rank ", left, " did not connect to rank ", place.rank);
  return make_tcp_transport(place.rank, place.size, std::move(to_right), std::move(from_left));
}

struct Connected {
  std::unique_ptr<Collectives> collectives;
  std::string description;
};

bool uses_mpi(const Placement& place, const ProcessGroupOptions& options) {
  return options.backend == "mpi" || (options.backend == "auto" && options.transport == "auto" &&
                                      place.offers_mpi && !place.one_host() && mpi_is_built());
}

// Rank 0 makes what the user did not give: the secret; the port; its addresses, of which each rank
// takes the first that it reaches.
void meet_through(MpiSession& mpi, Placement& place, const Socket& listener,
                  const std::string& interface, const Deadline& deadline) {
  std::string offer;
  if (place.rank == 0) {
    offer = concat(random_hex(32), " ", port_of(listener));
    for (const std::string& address :
         interface.empty() ? outside_addresses() : std::vector{interface_address(interface)}) {
      offer += " " + address;
    }
  }
  std::istringstream parts(mpi.broadcast_text(offer, deadline));
  parts >> place.secret >> place.master_port;
  std::vector<std::string> addresses{std::istream_iterator<std::string>(parts), {}};
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
  throw PeerFailure(concat("rank ", place.rank, " reaches rank 0 at none of its addresses"));
}

Connected connect(StoreClient& store, const Placement& place, const ProcessGroupOptions& options,
                  const std::shared_ptr<MpiSession>& mpi, const std::shared_ptr<Failure>& failure,
                  const Deadline& deadline) {
  if (mpi != nullptr) {
    return {make_mpi_collectives(mpi, options.check_collectives, failure, options.timeout), "MPI"};
  }
  if (options.transport != "tcp") {
    const HostGroup host(store, place, deadline);
    RINGGRAD_CHECK(options.transport != "shared" || host.one_host(),
                   "--transport shared: not all ranks are on one host");
    if (host.one_host()) {
      return {make_shared_collectives(host.segment(), failure, options.timeout),
              "ring over shared memory"};
    }
  }
  return {make_ring_collectives(connect_ring(store, place, options.interface, *failure, deadline),
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
  const bool by_mpi = mpi != nullptr && !place.one_host() && !place.store_is_hosted &&
                      (place.secret.empty() || place.master_addr.empty());
  Socket listener;
  if (hosts) {
    listener = listen_tcp(place.one_host() ? "127.0.0.1" : "", by_mpi ? 0 : place.master_port);
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
