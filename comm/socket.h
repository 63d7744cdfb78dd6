// Sockets with deadlines. Every call that waits throws Error when its deadline passes.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/deadline.h"

namespace ringgrad::comm {

// A descriptor that closes itself. Non-blocking, closed on exec.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept;
  ~Socket();

  int descriptor() const { return descriptor_; }
  bool valid() const { return descriptor_ >= 0; }

 private:
  int descriptor_ = -1;
};

struct Address {
  std::string host;  // a name or a number
  int port = 0;
  std::string text() const;  // host:port, [host]:port for IPv6
};

// Listens on every address of the machine, or on `host` alone. Port 0: any. Error names address and
// port.
Socket listen_tcp(const std::string& host, int port);
// "\0name" in the namespace of the network that this process lives in: who reaches it is on the
// same host.
Socket listen_local(const std::string& name);
int port_of(const Socket& listener);
// The address of this end of a connection, as a number.
std::string own_address(const Socket& connection);
// The first address of a network interface; Error if there is none of that name.
std::string interface_address(const std::string& interface);
// The addresses of this host that other hosts may reach, as numbers.
std::vector<std::string> outside_addresses();

// Whether only this host reaches an address, given as a number.
bool is_loopback(const std::string& address);

// Resolves and connects, again and again until it works or the deadline passes: pods and processes
// start in any order. `check` is called now and then, and ends it by throwing.
Socket connect_tcp(
    const Address& address, const Deadline& deadline, const std::function<void()>& check = [] {});
// An invalid Socket if nobody listens there.
Socket connect_local(const std::string& name, const Deadline& deadline);
// Invalid if nobody came before the deadline.
Socket accept_one(const Socket& listener, const Deadline& deadline);

void send_all(const Socket& socket, const void* data, std::size_t bytes, const Deadline& deadline);
void receive_all(const Socket& socket, void* data, std::size_t bytes, const Deadline& deadline);
// A descriptor to a process of the same host, and back.
void send_descriptor(const Socket& socket, int descriptor, const Deadline& deadline);
int receive_descriptor(const Socket& socket, const Deadline& deadline);

// As send(2) and recv(2), 0 if it would wait. Error when the other end is gone.
std::size_t send_some(const Socket& socket, const void* data, std::size_t bytes);
std::size_t receive_some(const Socket& socket, void* data, std::size_t bytes);

}  // namespace ringgrad::comm
