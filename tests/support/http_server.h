// A small HTTP server on loopback, for tests of downloads.
#pragma once

#include <atomic>
#include <string>
#include <thread>
#include <vector>

namespace ringgrad::test {

class HttpServer {
 public:
  // Serves `content` for any path, honouring "Range: bytes=N-". The first `cut_answers` answers end
  // after `cut_after` bytes of their body, with the connection closed.
  explicit HttpServer(std::string content, int cut_answers = 0, std::size_t cut_after = 0);
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  ~HttpServer();

  std::string url() const;
  // The first byte that each request asked for.
  std::vector<std::size_t> requested_from() const;

 private:
  void serve();
  void answer(int connection);

  std::string content_;
  std::atomic<int> cut_answers_;
  std::size_t cut_after_;
  int listener_;
  int port_ = 0;
  std::atomic<bool> stopping_{false};
  std::vector<std::size_t> requested_;
  std::thread thread_;
};

}  // namespace ringgrad::test
