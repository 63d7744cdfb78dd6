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
    Link* const links[2] = {sending ? right_.get() : nullptr, receiving ? left_.get() : nullptr};
    pollfd files[2] = {{-1, 0, 0}, {-1, 0, 0}};  // which poll leaves out
    bool idle = true;
    for (int i = 0; i < 2; ++i) {
      if (links[i] != nullptr) {
        const auto file = links[i]->waits_for();
        idle = idle && file.has_value();
        files[i] = file.value_or(files[i]);
      }
    }
    if (idle) {
      poll(files, 2, static_cast<int>(at_most.count()));
    }
    for (Link* link : links) {
      if (link != nullptr) {
        link->waited();
      }
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
