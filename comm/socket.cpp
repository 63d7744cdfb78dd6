#include "comm/socket.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>

#include "runtime/error.h"

namespace ringgrad::comm {
namespace {

constexpr std::chrono::milliseconds kRetry{100};

std::string reason_of(int error) {
  return std::strerror(error);
}

bool would_wait(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

// Small messages go at once.
void without_delay(int descriptor) {
  const int on = 1;
  setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

// Null and a reason where the name does not resolve.
Addresses resolve(const char* host, int port, int flags, std::string& reason) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int code = getaddrinfo(host, std::to_string(port).c_str(), &hints, &found);
  reason = code == 0 ? "" : gai_strerror(code);
  return {code == 0 ? found : nullptr, &freeaddrinfo};
}

bool wait_for(int descriptor, short events, const Deadline& deadline) {
  while (!deadline.passed()) {
    pollfd file{descriptor, events, 0};
    if (poll(&file, 1, 20) > 0) {
      return true;
    }
  }
  return false;
}

sockaddr_un local_address(const std::string& name, socklen_t& length) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  RINGGRAD_ASSERT(name.size() + 1 < sizeof address.sun_path);
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

std::string number_of(const sockaddr* address, socklen_t length) {
  char host[NI_MAXHOST] = "";
  getnameinfo(address, length, host, sizeof host, nullptr, 0, NI_NUMERICHOST);
  return host;
}

}  // namespace

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

Socket::~Socket() {
  if (descriptor_ >= 0) {
    close(descriptor_);
  }
}

std::string Address::text() const {
  return host.find(':') == std::string::npos ? concat(host, ":", port)
                                             : concat("[", host, "]:", port);
}

Socket listen_tcp(const std::string& host, int port) {
  std::string reason;
  const Addresses addresses =
      resolve(host.empty() ? nullptr : host.c_str(), port, AI_PASSIVE, reason);
  // Of "every address" IPv6's is wanted, which takes IPv4 too.
  for (const int family : {AF_INET6, AF_INET}) {
    for (const addrinfo* a = addresses.get(); a != nullptr; a = a->ai_next) {
      if (a->ai_family != family) {
        continue;
      }
      Socket socket(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
      const int on = 1;
      const int off = 0;
      setsockopt(socket.descriptor(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
      if (family == AF_INET6) {
        setsockopt(socket.descriptor(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
      }
      if (bind(socket.descriptor(), a->ai_addr, a->ai_addrlen) == 0 &&
          listen(socket.descriptor(), 128) == 0) {
        return socket;
      }
      reason = reason_of(errno);
      if (errno == EADDRINUSE) {
        break;
      }
    }
  }
  throw Error(
      concat("cannot listen on ", Address{host.empty() ? "*" : host, port}.text(), ": ", reason));
}

Socket listen_local(const std::string& name) {
  Socket socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  socklen_t length = 0;
  const sockaddr_un address = local_address(name, length);
  RINGGRAD_CHECK(
      bind(socket.descriptor(), reinterpret_cast<const sockaddr*>(&address), length) == 0 &&
          listen(socket.descriptor(), 128) == 0,
      "cannot listen on a local socket: ", reason_of(errno));
  return socket;
}

int port_of(const Socket& listener) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  getsockname(listener.descriptor(), reinterpret_cast<sockaddr*>(&address), &length);
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<sockaddr_in&>(address).sin_port);
}

std::string own_address(const Socket& connection) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  getsockname(connection.descriptor(), reinterpret_cast<sockaddr*>(&address), &length);
  const std::string number = number_of(reinterpret_cast<sockaddr*>(&address), length);
  // An IPv4 connection to a socket that takes both.
  return number.rfind("::ffff:", 0) == 0 ? number.substr(7) : number;
}

namespace {

// Interface and address, IPv4 first.
std::vector<std::pair<std::string, std::string>> addresses_of_interfaces() {
  ifaddrs* all = nullptr;
  getifaddrs(&all);
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(all, &freeifaddrs);
  std::vector<std::pair<std::string, std::string>> found;
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* a = all; a != nullptr; a = a->ifa_next) {
      if (a->ifa_addr != nullptr && a->ifa_addr->sa_family == family) {
        found.emplace_back(
            a->ifa_name,
            number_of(a->ifa_addr, family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6)));
      }
    }
  }
  return found;
}

}  // namespace

std::string interface_address(const std::string& interface) {
  for (const auto& [name, address] : addresses_of_interfaces()) {
    if (name == interface) {
      return address;
    }
  }
  throw Error(concat("no network interface ", interface, " with an address"));
}

std::vector<std::string> outside_addresses() {
  std::vector<std::string> found;
  for (const auto& [name, address] : addresses_of_interfaces()) {
    // A link-local address means something with the interface's name alone.
    if (!is_loopback(address) && address.find('%') == std::string::npos) {
      found.push_back(address);
    }
  }
  return found;
}

bool is_loopback(const std::string& address) {
  in6_addr six{};
  return address.rfind("127.", 0) == 0 ||
         (inet_pton(AF_INET6, address.c_str(), &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six));
}

Socket connect_tcp(const Address& address, const Deadline& deadline,
                   const std::function<void()>& check) {
  std::string reason = "no time";
  while (!deadline.passed()) {
    const Addresses found = resolve(address.host.c_str(), address.port, 0, reason);
    for (const addrinfo* a = found.get(); a != nullptr; a = a->ai_next) {
      Socket socket(::socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
      int error = connect(socket.descriptor(), a->ai_addr, a->ai_addrlen) == 0 ? 0 : errno;
      if (error == EINPROGRESS) {
        bool answered = false;
        while (!answered && !deadline.passed()) {
          check();
          answered = wait_for(socket.descriptor(), POLLOUT, Deadline(kRetry));
        }
        error = ETIMEDOUT;
        if (answered) {
          socklen_t length = sizeof error;
          getsockopt(socket.descriptor(), SOL_SOCKET, SO_ERROR, &error, &length);
        }
      }
      if (error == 0) {
        without_delay(socket.descriptor());
        return socket;
      }
      reason = reason_of(error);
    }
    check();
    std::this_thread::sleep_for(kRetry);
  }
  throw Error(concat("cannot reach ", address.text(), ": ", reason));
}

Socket connect_local(const std::string& name, const Deadline& deadline) {
  Socket socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  socklen_t length = 0;
  const sockaddr_un address = local_address(name, length);
  while (connect(socket.descriptor(), reinterpret_cast<const sockaddr*>(&address), length) != 0) {
    if (!would_wait(errno) || deadline.passed()) {  // it waits while many others knock
      return {};
    }
    std::this_thread::sleep_for(kRetry);
  }
  return socket;
}

Socket accept_one(const Socket& listener, const Deadline& deadline) {
  while (wait_for(listener.descriptor(), POLLIN, deadline)) {
    Socket socket(accept4(listener.descriptor(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket.valid()) {
      without_delay(socket.descriptor());
      return socket;
    }
  }
  return Socket();
}

std::size_t send_some(const Socket& socket, const void* data, std::size_t bytes) {
  const ssize_t sent = send(socket.descriptor(), data, bytes, MSG_NOSIGNAL);
  if (sent >= 0) {
    return static_cast<std::size_t>(sent);
  }
  RINGGRAD_CHECK(would_wait(errno), "the connection broke: ", reason_of(errno));
  return 0;
}

std::size_t receive_some(const Socket& socket, void* data, std::size_t bytes) {
  if (bytes == 0) {
    return 0;
  }
  const ssize_t got = recv(socket.descriptor(), data, bytes, 0);
  if (got > 0) {
    return static_cast<std::size_t>(got);
  }
  RINGGRAD_CHECK(got < 0, "the connection was closed");
  RINGGRAD_CHECK(would_wait(errno), "the connection broke: ", reason_of(errno));
  return 0;
}

void send_all(const Socket& socket, const void* data, std::size_t bytes, const Deadline& deadline) {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const std::size_t sent = send_some(socket, from, bytes);
    from += sent;
    bytes -= sent;
    RINGGRAD_CHECK(sent > 0 || wait_for(socket.descriptor(), POLLOUT, deadline),
                   "the other end takes nothing");
  }
}

void receive_all(const Socket& socket, void* data, std::size_t bytes, const Deadline& deadline) {
  char* to = static_cast<char*>(data);
  while (bytes > 0) {
    const std::size_t got = receive_some(socket, to, bytes);
    to += got;
    bytes -= got;
    RINGGRAD_CHECK(got > 0 || wait_for(socket.descriptor(), POLLIN, deadline),
                   "the other end sends nothing");
  }
}

namespace {

// One byte of data with room for a descriptor beside it.
struct DescriptorMessage {
  DescriptorMessage() {
    header.msg_iov = &data;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
  }
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
};

}  // namespace

void send_descriptor(const Socket& socket, int descriptor, const Deadline& deadline) {
  DescriptorMessage message;
  cmsghdr* part = CMSG_FIRSTHDR(&message.header);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(sizeof descriptor);
  std::memcpy(CMSG_DATA(part), &descriptor, sizeof descriptor);
  while (sendmsg(socket.descriptor(), &message.header, MSG_NOSIGNAL) < 0) {
    RINGGRAD_CHECK(would_wait(errno) && wait_for(socket.descriptor(), POLLOUT, deadline),
                   "cannot hand shared memory on: ", reason_of(errno));
  }
}

int receive_descriptor(const Socket& socket, const Deadline& deadline) {
  DescriptorMessage message;
  ssize_t got = -1;
  while ((got = recvmsg(socket.descriptor(), &message.header, MSG_CMSG_CLOEXEC)) < 0) {
    RINGGRAD_CHECK(would_wait(errno) && wait_for(socket.descriptor(), POLLIN, deadline),
                   "shared memory was not handed on: ", reason_of(errno));
  }
  const cmsghdr* part = CMSG_FIRSTHDR(&message.header);
  RINGGRAD_CHECK(got == 1 && part != nullptr && part->cmsg_type == SCM_RIGHTS,
                 "shared memory was not handed on: the other end left");
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(part), sizeof descriptor);
  return descriptor;
}

}  // namespace ringgrad::comm
