// One direction of the way between a rank and its neighbour in the ring, as a stream of bytes: over
// TCP, or through memory that two processes of one host share. The kind is chosen for each
// neighbour by itself.
#pragma once

#include <poll.h>

#include <cstddef>
#include <memory>
#include <optional>

#include "comm/socket.h"
#include "comm/transport.h"

namespace ringgrad::comm {

class Link {
 public:
  Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  virtual ~Link() = default;
  // What to poll for until something can move; nothing if it can now.
  virtual std::optional<pollfd> waits_for() = 0;
  virtual void waited() {}
};

class OutLink : public Link {
 public:
  // As many bytes as go now, without waiting. Error when the neighbour is gone.
  virtual std::size_t try_send(const void* data, std::size_t bytes) = 0;
};

class InLink : public Link {
 public:
  virtual std::size_t try_receive(void* data, std::size_t bytes) = 0;
};

std::unique_ptr<OutLink> make_tcp_out_link(Socket connection, int to_rank);
std::unique_ptr<InLink> make_tcp_in_link(Socket connection, int from_rank);

// A bounded queue of bytes in shared memory, with an event for each end to wait for.
class SharedQueue {
 public:
  SharedQueue();  // makes it
  // Takes what `hand_on` sent.
  static SharedQueue received(const Socket& from, const Deadline& deadline);
  void hand_on(const Socket& to, const Deadline& deadline) const;

 private:
  friend class SharedOutLink;
  friend class SharedInLink;
  struct Memory;
  SharedQueue(Socket file, Socket bytes_came, Socket room_came);

  Socket file_;
  std::shared_ptr<Memory> memory_;
  Socket bytes_came_, room_came_;  // event descriptors
};

std::unique_ptr<OutLink> make_shared_out_link(SharedQueue queue);
std::unique_ptr<InLink> make_shared_in_link(SharedQueue queue);

std::unique_ptr<Transport> make_link_transport(int rank, int size, std::unique_ptr<OutLink> right,
                                               std::unique_ptr<InLink> left);

}  // namespace ringgrad::comm
