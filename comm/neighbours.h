// How ranks that know each other's names from the store come to be connected: who shares a host,
// and who sends to whom in the ring.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/failure.h"
#include "comm/rendezvous.h"
#include "comm/shared_segment.h"
#include "comm/socket.h"
#include "comm/store.h"
#include "comm/transport.h"

namespace ringgrad::comm {

// The ranks of one host find each other through local sockets, which reach no further than the
// host's network namespace: host names and file systems say less in containers. The lowest rank
// that can be reached leads. Every rank of the job makes one.
class HostGroup {
 public:
  HostGroup(StoreClient& store, const Placement& place, const Deadline& deadline);

  bool one_host() const;
  bool same_host(int rank) const;
  // Of all ranks together, where one_host(): the leader made it and handed it on.
  SharedSegment segment() const { return *segment_; }
  // Where this host's ranks reach this one; and the way to another one of them.
  const Socket& listener() const { return listener_; }
  Socket knock(int rank, const std::string& role) const;

 private:
  void hand_memory_on(const Socket& to_leader, const std::vector<Socket>& members);

  StoreClient& store_;
  const Placement& place_;
  const Deadline& deadline_;
  Socket listener_;
  int leader_ = 0;
  std::vector<int> leaders_;  // of each rank
  std::unique_ptr<SharedSegment> segment_;
};

// Connects this rank to its neighbours: through shared memory to those that `host` (which may be
// null) knows to be on this host, over TCP to the others. interface: whose address they connect to;
// empty: as the store sees us.
std::unique_ptr<Transport> connect_ring(StoreClient& store, const Placement& place,
                                        const HostGroup* host, const std::string& interface,
                                        const Failure& failure, const Deadline& deadline);

}  // namespace ringgrad::comm
