// Strangers at the doors of the ranks: the sockets of the ring and those of one host.
#include "comm/neighbours.h"

#include <gtest/gtest.h>

#include <future>

#include "comm/secret.h"
#include "tests/support/expect_error.h"

namespace ringgrad::test {
namespace {

using namespace comm;

class NeighboursTest : public testing::Test {
 protected:
  static constexpr int kRanks = 2;

  NeighboursTest() {
    Socket listener = listen_tcp("127.0.0.1", 0);
    const Address address{"127.0.0.1", port_of(listener)};
    const JobIdentity identity{"job", kSecret, "", kRanks, 0};
    server_ = std::make_unique<StoreServer>(identity, std::move(listener));
    for (int rank = 0; rank < kRanks; ++rank) {
      clients_.push_back(
          std::make_unique<StoreClient>(address, identity, rank, failure_, deadline_));
      Placement place;
      place.rank = place.local_rank = rank;
      place.size = place.local_size = kRanks;
      place.secret = kSecret;
      places_.push_back(place);
    }
  }

  // What one says who does not know the secret, or is not the rank that is awaited.
  void pester(const std::function<Socket()>& connect, const std::string& role) {
    for (const std::string& garbage :
         {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(100000, 'x'), std::string(3, '\0')}) {
      const Socket stranger = connect();
      try {
        send_all(stranger, garbage.data(), garbage.size(), deadline_);
      } catch (const Error&) {  // turned away while it still talked
        continue;
      }
    }
    for (const auto& [secret, rank] : {std::pair{"guess", 1}, {kSecret, 0}, {kSecret, 7}}) {
      const Socket stranger = connect();
      try {
        prove_rank(stranger, secret, role, rank, deadline_);
      } catch (const Error&) {
        continue;
      }
    }
    half_open_.push_back(connect());
  }

  std::string ask(const std::string& key) { return clients_[1]->get(key, deadline_); }

  static constexpr const char* kSecret = "secret";
  const Deadline deadline_{std::chrono::seconds(20)};
  std::shared_ptr<Failure> failure_ = std::make_shared<Failure>();
  std::unique_ptr<StoreServer> server_;
  std::vector<std::unique_ptr<StoreClient>> clients_;
  std::vector<Placement> places_;
  std::vector<Socket> half_open_;
};

TEST_F(NeighboursTest, StrangersOnThePortsOfTheRingHarmNothing) {
  const auto connect = [&](std::size_t rank) {
    return connect_ring(*clients_[rank], places_[rank], nullptr, "", *failure_, deadline_);
  };
  auto first = std::async(std::launch::async, connect, 0);
  const int port = std::stoi(ask("ring/0"));
  pester([&] { return connect_tcp({"127.0.0.1", port}, deadline_); }, "ring");
  const std::unique_ptr<Transport> one = connect(1);
  const std::unique_ptr<Transport> zero = first.get();
  EXPECT_EQ(one->try_send("sent", 4), 4U);
  char received[4] = {};
  zero->wait(false, true, std::chrono::seconds(5));
  EXPECT_EQ(zero->try_receive(received, 4), 4U);
  EXPECT_EQ(std::string(received, 4), "sent");
  EXPECT_FALSE(failure_->raised());
}

TEST_F(NeighboursTest, StrangersOnTheSocketsOfAHostHarmNothing) {
  const auto meet = [&](std::size_t rank) {
    return HostGroup(*clients_[rank], places_[rank], deadline_).segment();
  };
  auto first = std::async(std::launch::async, meet, 0);
  const std::string name = ask("local/0");
  pester([&] { return connect_local(name, deadline_); }, "host");
  const SharedSegment one = meet(1);
  const SharedSegment zero = first.get();
  *one.control() = 42;
  EXPECT_EQ(*zero.control(), 42);
  EXPECT_FALSE(failure_->raised());
}

}  // namespace
}  // namespace ringgrad::test
