#include "tests/support/http_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "runtime/error.h"

namespace ringgrad::test {

HttpServer::HttpServer(std::string content, int cut_answers, std::size_t cut_after)
    : content_(std::move(content)),
      cut_answers_(cut_answers),
      cut_after_(cut_after),
      listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  RINGGRAD_ASSERT(bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  RINGGRAD_ASSERT(listen(listener_, 8) == 0);
  socklen_t length = sizeof address;
  getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length);
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { serve(); });
}

HttpServer::~HttpServer() {
  stopping_ = true;
  thread_.join();
  close(listener_);
}

std::string HttpServer::url() const {
  return concat("http://127.0.0.1:", port_, "/file");
}

std::vector<std::size_t> HttpServer::requested_from() const {
  return requested_;
}

void HttpServer::serve() {
  while (!stopping_) {
    pollfd waiting{listener_, POLLIN, 0};
    if (poll(&waiting, 1, 20) == 1) {
      const int connection = accept(listener_, nullptr, nullptr);
      answer(connection);
      close(connection);
    }
  }
}

void HttpServer::answer(int connection) {
  std::string request;
  char chunk[4096];
  while (request.find("\r\n\r\n") == std::string::npos) {
    const ssize_t got = read(connection, chunk, sizeof chunk);
    if (got <= 0) {
      return;
    }
    request.append(chunk, static_cast<std::size_t>(got));
  }
  std::size_t from = 0;
  const std::size_t range = request.find("Range: bytes=");
  if (range != std::string::npos) {
    from = std::stoul(request.substr(range + 13));
  }
  requested_.push_back(from);
  const std::string body = content_.substr(std::min(from, content_.size()));
  const std::string head =
      concat(from > 0 ? concat("HTTP/1.1 206 Partial Content\r\nContent-Range: bytes ", from, "-",
                               content_.size() - 1, "/", content_.size())
                      : "HTTP/1.1 200 OK",
             "\r\nContent-Length: ", body.size(), "\r\nConnection: close\r\n\r\n");
  std::string all = head + body;
  if (cut_answers_ > 0) {
    --cut_answers_;
    all.resize(std::min(all.size(), head.size() + cut_after_));
  }
  for (std::size_t at = 0; at < all.size();) {
    const ssize_t sent = send(connection, all.data() + at, all.size() - at, MSG_NOSIGNAL);
    if (sent <= 0) {
      return;
    }
    at += static_cast<std::size_t>(sent);
  }
}

}  // namespace ringgrad::test
