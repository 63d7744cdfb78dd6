#include "comm/neighbours.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <set>
#include <thread>

#include "comm/link.h"
#include "comm/secret.h"
#include "runtime/error.h"

namespace ringgrad::comm {
namespace {

constexpr std::chrono::seconds kStrangerTime{2};  // to prove itself

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

}  // namespace

HostGroup::HostGroup(StoreClient& store, const Placement& place, const Deadline& deadline)
    : store_(store), place_(place), deadline_(deadline) {
  const std::string name = "ringgrad-" + random_hex(16);
  listener_ = listen_local(name);
  store_.set(concat("local/", place_.rank), name);
  // Others may knock while this rank still looks for its own leader.
  std::atomic<bool> stop{false};
  std::map<int, Socket> came;
  std::set<int> higher;
  for (int rank = place_.rank + 1; rank < place_.size; ++rank) {
    higher.insert(rank);
  }
  std::thread door([&] {
    came = accept_ranks(listener_, place_.secret, "host", higher,
                        [&] { return stop || deadline_.passed(); });
  });
  Socket to_leader;
  std::string error;
  try {
    leader_ = place_.rank;
    for (int rank = 0; rank < place_.rank && leader_ == place_.rank; ++rank) {
      to_leader = knock(rank, "host");
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
    std::vector<Socket> members;
    for (auto& [rank, socket] : came) {
      members.push_back(std::move(socket));
    }
    hand_memory_on(to_leader, members);
  }
}

bool HostGroup::one_host() const {
  return std::all_of(leaders_.begin(), leaders_.end(), [&](int l) { return l == leaders_[0]; });
}

bool HostGroup::same_host(int rank) const {
  return leaders_[static_cast<std::size_t>(rank)] == leader_;
}

Socket HostGroup::knock(int rank, const std::string& role) const {
  Socket socket = connect_local(store_.get(concat("local/", rank), deadline_), deadline_);
  if (socket.valid()) {
    prove_rank(socket, place_.secret, role, place_.rank, deadline_);
  }
  return socket;
}

void HostGroup::hand_memory_on(const Socket& to_leader, const std::vector<Socket>& members) {
  const Socket file(leader_ == place_.rank ? SharedSegment::create_file(place_.size)
                                           : receive_descriptor(to_leader, deadline_));
  for (const Socket& member : members) {
    send_descriptor(member, file.descriptor(), deadline_);
  }
  segment_ = std::make_unique<SharedSegment>(
      SharedSegment::map_file(file.descriptor(), place_.rank, place_.size));
}

std::unique_ptr<Transport> connect_ring(StoreClient& store, const Placement& place,
                                        const HostGroup* host, const std::string& interface,
                                        const Failure& failure, const Deadline& deadline) {
  std::string address = interface.empty() ? store.own_address() : interface_address(interface);
  // An address that is loopback for ranks of several hosts says that the store is on this one: the
  // others reach it under the name that they were given.
  const bool by_name = !place.one_host() && is_loopback(address);
  const Socket listener = listen_tcp(by_name ? "" : address, 0);
  address = by_name ? place.master_addr : address;
  store.set(concat("ring/", place.rank), concat(port_of(listener), " ", address));
  const int right = (place.rank + 1) % place.size;
  const int left = (place.rank + place.size - 1) % place.size;
  const auto here = [&](int rank) { return host != nullptr && host->same_host(rank); };

  std::atomic<bool> stop{false};
  std::unique_ptr<InLink> from_left;
  std::string left_error;
  std::thread door([&] {
    try {
      auto ranks =
          accept_ranks(here(left) ? host->listener() : listener, place.secret, "ring", {left},
                       [&] { return stop || failure.raised() || deadline.passed(); });
      if (ranks.count(left) == 0) {
        left_error = concat("rank ", left, " did not connect to rank ", place.rank);
      } else if (here(left)) {
        from_left = make_shared_in_link(SharedQueue::received(ranks[left], deadline));
      } else {
        from_left = make_tcp_in_link(std::move(ranks[left]), left);
      }
    } catch (const std::exception& thrown) {
      left_error = thrown.what();
    }
  });
  std::unique_ptr<OutLink> to_right;
  std::string error;
  try {
    if (here(right)) {
      const Socket connection = host->knock(right, "ring");
      RINGGRAD_CHECK(connection.valid(), "it is gone");
      SharedQueue queue;
      queue.hand_on(connection, deadline);
      to_right = make_shared_out_link(std::move(queue));
    } else {
      const std::string target = store.get(concat("ring/", right), deadline);
      const std::size_t space = target.find(' ');
      Socket connection =
          connect_tcp({target.substr(space + 1), std::stoi(target.substr(0, space))}, deadline,
                      [&] { failure.check(); });
      prove_rank(connection, place.secret, "ring", place.rank, deadline);
      to_right = make_tcp_out_link(std::move(connection), right);
    }
  } catch (const std::exception& thrown) {
    error = concat("rank ", place.rank, " cannot reach rank ", right, ": ", thrown.what());
    stop = true;
  }
  door.join();
  failure.check();
  RINGGRAD_CHECK(error.empty(), error);
  RINGGRAD_CHECK(left_error.empty(), left_error);
  return make_link_transport(place.rank, place.size, std::move(to_right), std::move(from_left));
}

}  // namespace ringgrad::comm
