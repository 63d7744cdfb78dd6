#include "comm/rendezvous.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/support/expect_error.h"

namespace ringgrad::test {
namespace {

using Variables = std::map<std::string, std::string>;

std::optional<comm::Placement> placement(const Variables& variables) {
  return comm::placement_from(
      [&](const char* name) -> const char* {
        const auto found = variables.find(name);
        return found != variables.end() ? found->second.c_str() : nullptr;
      },
      "");
}

const Variables kTwoNodes = {
    {"RANK", "3"},           {"WORLD_SIZE", "4"},       {"LOCAL_RANK", "1"},
    {"MASTER_ADDR", "a"},    {"LOCAL_WORLD_SIZE", "2"}, {"MASTER_PORT", "7"},
    {"RINGGRAD_SECRET", "s"}};

Variables with(Variables variables, const std::string& name, const std::string& value) {
  variables[name] = value;
  return variables;
}

Variables without(Variables variables, const std::string& name) {
  variables.erase(name);
  return variables;
}

TEST(Rendezvous, NothingIsSet) {
  EXPECT_FALSE(placement({}).has_value());
}

TEST(Rendezvous, TheEnvironmentOfPyTorch) {
  const auto place = placement(kTwoNodes);
  EXPECT_EQ(place->rank, 3);
  EXPECT_EQ(place->size, 4);
  EXPECT_EQ(place->local_rank, 1);
  EXPECT_FALSE(place->one_host());
  EXPECT_EQ(place->master_addr, "a");
  EXPECT_EQ(place->master_port, 7);
  EXPECT_EQ(placement(without(kTwoNodes, "MASTER_PORT"))->master_port, 29500);
}

TEST(Rendezvous, WithoutALocalRankEachHostHasOneUnlessTheyMeetOnLoopback) {
  Variables bare = without(without(kTwoNodes, "LOCAL_RANK"), "LOCAL_WORLD_SIZE");
  EXPECT_EQ(placement(bare)->local_rank, 0);
  EXPECT_EQ(placement(bare)->local_size, 1);
  bare["MASTER_ADDR"] = "localhost";
  EXPECT_EQ(placement(bare)->local_rank, 3);
  EXPECT_TRUE(placement(bare)->one_host());
}

TEST(Rendezvous, TorchrunsAgentHasThePortAlready) {
  const Variables torchrun = with(kTwoNodes, "TORCHELASTIC_USE_AGENT_STORE", "True");
  EXPECT_EQ(placement(torchrun)->master_port, 8);
  EXPECT_EQ(placement(with(torchrun, "RINGGRAD_STORE_PORT", "99"))->master_port, 99);
}

TEST(Rendezvous, ACompleteRankComesBeforeAnythingElse) {
  Variables both = kTwoNodes;
  both["OMPI_COMM_WORLD_RANK"] = "0";
  both["OMPI_COMM_WORLD_SIZE"] = "9";
  EXPECT_EQ(placement(both)->rank, 3);
}

TEST(Rendezvous, OpenMpiOnOneHostNeedsNothingElse) {
  const Variables mpi = {{"OMPI_COMM_WORLD_RANK", "1"},
                         {"OMPI_COMM_WORLD_SIZE", "2"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                         {"PMIX_NAMESPACE", "prte-1"}};
  const auto place = placement(mpi);
  EXPECT_TRUE(place->one_host());
  EXPECT_EQ(place->master_addr, "127.0.0.1");
  EXPECT_NE(place->master_port, placement(with(mpi, "PMIX_NAMESPACE", "prte-2"))->master_port)
      << "two jobs on a host do not meet";
  // On several hosts MPI can tell them where to meet; without it they must know.
  Variables hosts = with(mpi, "OMPI_COMM_WORLD_SIZE", "4");
  const auto error = [&] { return error_of([&] { comm::check_can_meet(*placement(hosts)); }); };
  EXPECT_TRUE(contains(error(), "mpirun -x MASTER_ADDR=HOST"));
  hosts["MASTER_ADDR"] = "a";
  EXPECT_TRUE(contains(error(), "openssl rand -hex 32"));
  hosts["RINGGRAD_SECRET"] = "s";
  EXPECT_EQ(error(), "no error");
}

TEST(Rendezvous, SlurmNamesTheFirstHostOfItsList) {
  Variables slurm = {{"SLURM_PROCID", "2"},        {"SLURM_STEP_NUM_TASKS", "4"},
                     {"SLURM_LOCALID", "0"},       {"SLURM_STEP_TASKS_PER_NODE", "2(x2)"},
                     {"SLURM_JOB_ID", "17"},       {"SLURM_STEP_ID", "0"},
                     {"RINGGRAD_SECRET", "secret"}};
  for (const auto& [list, first] : {std::pair{"node[03-07,9],other", "node03"},
                                    {"n[2,5]", "n2"},
                                    {"alpha,beta", "alpha"},
                                    {"alone", "alone"}}) {
    slurm["SLURM_STEP_NODELIST"] = list;
    EXPECT_EQ(placement(slurm)->master_addr, first);
  }
  EXPECT_EQ(placement(slurm)->local_size, 2);
  slurm["SLURM_STEP_TASKS_PER_NODE"] = "1(x2),3,2";
  for (const auto& [node, tasks] : {std::pair{"0", 1}, {"1", 1}, {"2", 3}, {"3", 2}}) {
    slurm["SLURM_NODEID"] = node;
    EXPECT_EQ(placement(slurm)->local_size, tasks);
  }
  slurm["SLURM_NODEID"] = "4";
  EXPECT_TRUE(contains(error_of([&] { placement(slurm); }), "say nothing of this node"));
  EXPECT_FALSE(placement(without(slurm, "SLURM_STEP_ID")).has_value()) << "outside a step";
}

TEST(Rendezvous, MistakesAreNamed) {
  const auto error = [](const Variables& variables) {
    return error_of([&] { placement(variables); });
  };
  EXPECT_TRUE(contains(error(without(kTwoNodes, "WORLD_SIZE")),
                       "WORLD_SIZE is missing, though RANK is set"));
  EXPECT_TRUE(contains(error(without(kTwoNodes, "MASTER_ADDR")), "MASTER_ADDR is missing"));
  EXPECT_TRUE(contains(error(with(kTwoNodes, "RANK", "4")), "rank 4 of 4"));
  EXPECT_TRUE(contains(error(with(kTwoNodes, "RANK", "one")), "RANK is 'one'"));
  EXPECT_TRUE(contains(error(with(kTwoNodes, "LOCAL_RANK", "2")), "local rank 2 of 2"));
  EXPECT_TRUE(contains(error(without(kTwoNodes, "RINGGRAD_SECRET")), "openssl rand -hex 32"));
}

}  // namespace
}  // namespace ringgrad::test
