#include "comm/store.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/support/expect_error.h"

namespace ringgrad::test {
namespace {

using comm::Address;
using comm::Failure;
using comm::JobIdentity;
using comm::Socket;
using comm::StoreClient;
using comm::StoreServer;

class StoreTest : public testing::Test {
 protected:
  StoreTest() {
    Socket listener = comm::listen_tcp("127.0.0.1", 0);
    address_ = {"127.0.0.1", comm::port_of(listener)};
    server_ = std::make_unique<StoreServer>(identity_, std::move(listener));
  }

  static Deadline soon() { return Deadline(std::chrono::seconds(10)); }
  std::unique_ptr<StoreClient> join(int rank, const JobIdentity& identity) {
    return std::make_unique<StoreClient>(address_, identity, rank, failure_, soon());
  }
  std::string refusal(int rank, const JobIdentity& identity) {
    return error_of([&] { join(rank, identity); });
  }

  const JobIdentity identity_{"job", "secret", "", 2, 0};
  Address address_;
  std::unique_ptr<StoreServer> server_;
  std::shared_ptr<Failure> failure_ = std::make_shared<Failure>();
};

TEST_F(StoreTest, ValuesReachThoseWhoWaitForThem) {
  const auto first = join(0, identity_);
  const auto second = join(1, identity_);
  first->wait_for_everybody(soon());
  std::string got;
  std::thread waiting([&] { got = second->get("key", soon()); });
  first->set("key", "value");
  waiting.join();
  EXPECT_EQ(got, "value");
}

TEST_F(StoreTest, WhoDoesNotBelongIsRefusedAndTold) {
  JobIdentity other = identity_;
  other.secret = "guess";
  EXPECT_TRUE(contains(refusal(0, other), "the secret differs"));
  other = identity_;
  other.job = "another";
  EXPECT_TRUE(contains(refusal(0, other), "job id another, this job has job"));
  other = identity_;
  other.size = 3;
  EXPECT_TRUE(contains(refusal(0, other), "world size 3, this job has 2"));
  other = identity_;
  other.generation = -1;
  EXPECT_TRUE(contains(refusal(0, other), "generation -1, this job has 0"));
  EXPECT_TRUE(contains(refusal(2, identity_), "rank 2 of 2"));

  const auto first = join(0, identity_);
  EXPECT_TRUE(contains(refusal(0, identity_), "rank 0 is here already"));
  EXPECT_FALSE(failure_->raised()) << "strangers harm nobody";
}

TEST_F(StoreTest, SettingsMustBeEqual) {
  JobIdentity settings = identity_;
  settings.config = "lr 0.1";
  const auto first = join(0, settings);
  settings.config = "lr 0.2";
  EXPECT_TRUE(contains(refusal(1, settings), "settings lr 0.2, this job has lr 0.1"));
}

TEST_F(StoreTest, MissingRanksAreListed) {
  const auto second = join(1, identity_);
  EXPECT_EQ(error_of([&] { second->wait_for_everybody(Deadline(std::chrono::milliseconds(50))); }),
            "not all ranks came in time; missing: rank 0");
}

// Of another node, which had to start again: this run cannot go on without it.
TEST_F(StoreTest, ARankOfALaterGenerationEndsThisOne) {
  const auto first = join(0, identity_);
  JobIdentity later = identity_;
  later.generation = 1;
  const std::string early = error_of([&] {
    StoreClient(address_, later, 1, std::make_shared<Failure>(),
                Deadline(std::chrono::milliseconds(300)));
  });
  EXPECT_TRUE(contains(early, "rank 1 comes early")) << early;
  EXPECT_TRUE(
      contains(error_of([&] { first->wait_for_everybody(soon()); }), "rank 1 was restarted"));
}

TEST_F(StoreTest, RanksThatLagAreKnown) {
  const auto first = join(0, identity_);
  const auto second = join(1, identity_);
  const auto begun = std::make_shared<std::atomic<std::int64_t>>(7);
  first->show_begun(begun);
  for (int i = 0; i < 50 && first->lagging(7) != "rank 1"; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_EQ(first->lagging(7), "rank 1");
  EXPECT_EQ(second->lagging(8), "rank 0") << "who asks knows of itself";
}

TEST_F(StoreTest, GarbageAndHalfOpenConnectionsHarmNothing) {
  const Socket silent = comm::connect_tcp(address_, soon());
  for (const std::string& garbage :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(100000, 'x'), std::string("{}\n"),
        std::string("[1]\n"), std::string("{\"rank\": \"x\", \"proof\": 7}\n"),
        std::string(1, '\0') + "\n"}) {
    const Socket stranger = comm::connect_tcp(address_, soon());
    try {
      comm::send_all(stranger, garbage.data(), garbage.size(), soon());
    } catch (const Error&) {  // turned away while it still talked
      continue;
    }
  }
  const auto first = join(0, identity_);
  const auto second = join(1, identity_);
  first->wait_for_everybody(soon());
  EXPECT_FALSE(failure_->raised());
}

TEST_F(StoreTest, TheFirstCauseReachesEveryRank) {
  const auto other_failure = std::make_shared<Failure>();
  const auto first = join(0, identity_);
  const StoreClient second(address_, identity_, 1, other_failure, soon());
  failure_->report_through([&](const std::string& cause) { first->fail(cause); });
  EXPECT_EQ(failure_->fail("the first cause"), "the first cause");
  const Deadline deadline = soon();
  while (!other_failure->raised() && !deadline.passed()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(other_failure->fail("another cause"), "the first cause");
  failure_->report_through({});
}

TEST_F(StoreTest, ALostStoreIsNoticed) {
  const auto first = join(0, identity_);
  server_.reset();
  const Deadline deadline = soon();
  while (!failure_->raised() && !deadline.passed()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_TRUE(contains(error_of([&] { failure_->check(); }), "is lost"));
}

TEST(Socket, ABusyPortIsNamed) {
  const Socket taken = comm::listen_tcp("127.0.0.1", 0);
  const int port = comm::port_of(taken);
  EXPECT_EQ(error_of([&] { comm::listen_tcp("127.0.0.1", port); }),
            concat("cannot listen on 127.0.0.1:", port, ": Address already in use"));
}

TEST(Socket, NobodyThereIsAnErrorThatNamesTheAddress) {
  int port = 0;
  {
    const Socket closed = comm::listen_tcp("127.0.0.1", 0);
    port = comm::port_of(closed);
  }
  EXPECT_TRUE(
      contains(error_of([&] {
                 comm::connect_tcp({"127.0.0.1", port}, Deadline(std::chrono::milliseconds(200)));
               }),
               concat("cannot reach 127.0.0.1:", port, ": Connection refused")));
}

}  // namespace
}  // namespace ringgrad::test
