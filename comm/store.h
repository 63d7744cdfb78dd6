// Where the ranks of a job find each other, and hear of each other's death. One process hosts it:
// the launcher of node 0, or rank 0. Every rank keeps a connection to it as long as it lives and
// shows a sign of life each second; the store tells all ranks the first cause of failure.
//
// Lines of JSON go over the connection. The store begins with a challenge, the rank answers with
// what it is and the proof that it has the secret, the store proves the same in return:
//
//   store  {"challenge": "5f…"}
//   rank   {"rank": 1, "size": 2, "job": "…", "version": "…", "generation": 0, "config": "…",
//           "challenge": "a0…", "proof": "…"}
//   store  {"welcome": true, "proof": "…"}             or {"refused": "why"}
//
// then, in any order: {"set": key, "value": text}; {"get": key}, answered with {"key", "value"}
// once the value is there; {"alive": true}; {"fail": cause}, answered to all with {"failed":
// cause};
// {"missing": true}, answered with {"missing": "rank 2, rank 3"}; {"lagging": n}, answered with the
// other ranks that have not begun collective n as {"lagging": "rank 2"}; {"bye": true} before a
// rank leaves. Both ends say {"alive": true} each second, a rank with {"begun": its last
// collective}. The key "everybody" gets its value when all ranks have come.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "comm/failure.h"
#include "comm/socket.h"

namespace ringgrad::comm {

struct JobIdentity {
  std::string job;     // its id: another job's rank is refused
  std::string secret;  // shared by its ranks, never sent
  std::string config;  // what must be equal on all ranks, or empty
  int size = 1;        // ranks
  int generation = 0;  // restarts so far
};

class StoreServer {
 public:
  // Serves from a thread of its own. With `config` empty the first rank's counts.
  StoreServer(JobIdentity identity, Socket listener);
  ~StoreServer();

  // The first cause, told to all ranks.
  void fail(const std::string& cause);
  // Waits until all ranks that came have left; false if the deadline came first.
  bool wait_until_left(const Deadline& deadline);
  std::string failure() const;  // empty: none

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

class StoreClient {
 public:
  // Connects and shows itself; Error if the store cannot be reached, or refuses, PeerFailure if it
  // ends or has gone on to a later generation. What fails the job
  // is raised in `failure`.
  StoreClient(const Address& store, JobIdentity identity, int rank,
              std::shared_ptr<Failure> failure, const Deadline& deadline);
  // Says goodbye: that this rank leaves is no failure.
  ~StoreClient();

  void set(const std::string& key, const std::string& value);
  std::string get(const std::string& key, const Deadline& deadline);
  // Error that lists the ranks that did not come before the deadline.
  void wait_for_everybody(const Deadline& deadline);
  void fail(const std::string& cause);
  // From now on each sign of life says how far this rank is (collectives.h).
  void show_begun(std::shared_ptr<const std::atomic<std::int64_t>> begun);
  // The other ranks that had not begun collective `sequence` when they last showed themselves.
  std::string lagging(std::int64_t sequence);
  // The address that this host is reached at by who reaches the store.
  std::string own_address() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ringgrad::comm
