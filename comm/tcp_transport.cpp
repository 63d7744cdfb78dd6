#include "comm/tcp_transport.h"

#include <poll.h>
#include <sys/socket.h>

#include "runtime/error.h"

namespace ringgrad::comm {
namespace {

class TcpTransport : public Transport {
 public:
  TcpTransport(int rank, int size, Socket to_right, Socket from_left)
      : rank_(rank), size_(size), right_(std::move(to_right)), left_(std::move(from_left)) {
    const int bytes = 1 << 20;  // more would leave the cache
    setsockopt(right_.descriptor(), SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    setsockopt(left_.descriptor(), SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  std::size_t try_send(const void* data, std::size_t bytes) override {
    try {
      return send_some(right_, data, bytes);
    } catch (const Error& error) {
      throw Error(concat("rank ", right(), " lost: ", error.what()));
    }
  }

  std::size_t try_receive(void* data, std::size_t bytes) override {
    try {
      return receive_some(left_, data, bytes);
    } catch (const Error& error) {
      throw Error(concat("rank ", left(), " lost: ", error.what()));
    }
  }

  void wait(bool sending, bool receiving, std::chrono::milliseconds at_most) override {
    pollfd files[2] = {{sending ? right_.descriptor() : -1, POLLOUT, 0},
                       {receiving ? left_.descriptor() : -1, POLLIN, 0}};
    poll(files, 2, static_cast<int>(at_most.count()));
  }

 private:
  int rank_;
  int size_;
  Socket right_;
  Socket left_;
};

}  // namespace

std::unique_ptr<Transport> make_tcp_transport(int rank, int size, Socket to_right,
                                              Socket from_left) {
  return std::make_unique<TcpTransport>(rank, size, std::move(to_right), std::move(from_left));
}

}  // namespace ringgrad::comm
