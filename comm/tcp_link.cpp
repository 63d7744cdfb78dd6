#include "comm/link.h"
#include "runtime/error.h"

namespace ringgrad::comm {
namespace {

class TcpOutLink : public OutLink {
 public:
  TcpOutLink(Socket connection, int to_rank)
      : connection_(std::move(connection)), to_rank_(to_rank) {}

  std::size_t try_send(const void* data, std::size_t bytes) override {
    try {
      return send_some(connection_, data, bytes);
    } catch (const Error& error) {
      throw Error(concat("rank ", to_rank_, " lost: ", error.what()));
    }
  }
  std::optional<pollfd> waits_for() override {
    return pollfd{connection_.descriptor(), POLLOUT, 0};
  }

 private:
  Socket connection_;
  int to_rank_;
};

class TcpInLink : public InLink {
 public:
  TcpInLink(Socket connection, int from_rank)
      : connection_(std::move(connection)), from_rank_(from_rank) {}

  std::size_t try_receive(void* data, std::size_t bytes) override {
    try {
      return receive_some(connection_, data, bytes);
    } catch (const Error& error) {
      throw Error(concat("rank ", from_rank_, " lost: ", error.what()));
    }
  }
  std::optional<pollfd> waits_for() override { return pollfd{connection_.descriptor(), POLLIN, 0}; }

 private:
  Socket connection_;
  int from_rank_;
};

}  // namespace

std::unique_ptr<OutLink> make_tcp_out_link(Socket connection, int to_rank) {
  return std::make_unique<TcpOutLink>(std::move(connection), to_rank);
}

std::unique_ptr<InLink> make_tcp_in_link(Socket connection, int from_rank) {
  return std::make_unique<TcpInLink>(std::move(connection), from_rank);
}

}  // namespace ringgrad::comm
