#include <vector>

#include "comm/link.h"

namespace ringgrad::comm {
namespace {

class LinkTransport : public Transport {
 public:
  LinkTransport(int rank, int size, std::unique_ptr<OutLink> right, std::unique_ptr<InLink> left)
      : rank_(rank), size_(size), right_(std::move(right)), left_(std::move(left)) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::size_t try_send(const void* data, std::size_t bytes) override {
    return right_->try_send(data, bytes);
  }
  std::size_t try_receive(void* data, std::size_t bytes) override {
    return left_->try_receive(data, bytes);
  }

  void wait(bool sending, bool receiving, std::chrono::milliseconds at_most) override {
    std::vector<Link*> links;
    if (sending) {
      links.push_back(right_.get());
    }
    if (receiving) {
      links.push_back(left_.get());
    }
    std::vector<pollfd> files;
    for (Link* link : links) {
      if (const auto file = link->waits_for()) {
        files.push_back(*file);
      }
    }
    if (files.size() == links.size()) {
      poll(files.data(), files.size(), static_cast<int>(at_most.count()));
    }
    for (Link* link : links) {
      link->waited();
    }
  }

 private:
  int rank_;
  int size_;
  std::unique_ptr<OutLink> right_;
  std::unique_ptr<InLink> left_;
};

}  // namespace

std::unique_ptr<Transport> make_link_transport(int rank, int size, std::unique_ptr<OutLink> right,
                                               std::unique_ptr<InLink> left) {
  return std::make_unique<LinkTransport>(rank, size, std::move(right), std::move(left));
}

}  // namespace ringgrad::comm
