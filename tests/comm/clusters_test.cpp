// The job files of docs/clusters, with what they are for; skipped where that is missing.
#include <gtest/gtest.h>
#include <unistd.h>

#include "comm/socket.h"
#include "runtime/file.h"
#include "tests/support/expect_error.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"
#include "tests/support/temporary_folder.h"

namespace ringgrad::test {
namespace {

constexpr int kSkip = 77;

std::string job_file(const std::string& name) {
  return (source_folder() / "docs/clusters" / name).string();
}

int free_port() {
  return comm::port_of(comm::listen_tcp("127.0.0.1", 0));
}

// A cluster of this machine alone, as long as the shell lives; sbatch waits for the job's end.
std::string slurm_script(const std::filesystem::path& folder, const std::string& submit) {
  const std::string in = folder.string();
  return concat(
      "set -e; cd ", in, "; mkdir state spool; export SLURM_CONF=", in, "/slurm.conf\n",
      "command -v slurmctld slurmd sbatch >/dev/null || exit ", kSkip, "\n",
      "cat > slurm.conf <<END\nClusterName=ringgrad\nSlurmctldHost=$(hostname)(127.0.0.1)\n",
      "SlurmctldPort=", free_port(), "\nSlurmdPort=", free_port(),
      "\nSlurmUser=$(id -un)\nSlurmdUser=$(id -un)\nAuthType=auth/none\nCredType=cred/none\n",
      "ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nStateSaveLocation=", in,
      "/state\nSlurmdSpoolDir=", in, "/spool\nSlurmctldPidFile=", in,
      "/slurmctld.pid\nSlurmdPidFile=", in, "/slurmd.pid\nReturnToService=2\n",
      "SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\n",
      "NodeName=$(hostname) NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN\n",
      "PartitionName=all Nodes=ALL Default=YES State=UP\nEND\n",
      "slurmctld -D >slurmctld.out 2>&1 & controller=$!\n",
      "slurmd -D >slurmd.out 2>&1 & daemon=$!\n", "trap 'kill $controller $daemon || true' EXIT\n",
      "for i in $(seq 100); do sinfo -h 2>/dev/null | grep -q idle && break; sleep 0.2; done\n",
      "sinfo -h | grep -q idle || exit ", kSkip, "\n", submit);
}

TEST(FullClusters, SlurmRunsTheJobFile) {
  const TemporaryFolder folder;
  const std::string bin = std::filesystem::path(command_path()).parent_path().string();
  const Outcome outcome = run_process(
      {"bash", "-c",
       slurm_script(folder.path(),
                    concat("export PATH=", bin, ":$PATH\n",
                           "sbatch --wait --nodes=1 --ntasks-per-node=2 --cpus-per-task=1 "
                           "--output=job.out ",
                           job_file("train.slurm"),
                           " --data synthetic:32x32 --samples 128 --epochs 1 --out run"))});
  if (outcome.code == kSkip) {
    GTEST_SKIP() << "Slurm is not installed, or does not start here";
  }
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  const std::string printed = read_file(folder / "job.out");
  EXPECT_TRUE(contains(printed, "1 thread each, 2 replicas (ring over shared memory)")) << printed;
  EXPECT_TRUE(contains(printed, "done: best test accuracy")) << printed;
  EXPECT_TRUE(std::filesystem::exists(folder / "run/best.safetensors"));
}

TEST(FullClusters, KubernetesKnowsEveryFieldOfTheJobFile) {
  const std::string venv = (build_folder() / "kubeflow").string();
  const Outcome installed = run_process(
      {"sh", "-c",
       concat("test -e ", venv, "/ready || { python3 -m venv ", venv, " && ", venv,
              "/bin/pip -q install kubeflow-training==1.9.4 pyyaml && touch ", venv, "/ready; }")});
  if (installed.code != 0) {
    GTEST_SKIP() << "kubeflow-training cannot be installed here: " << installed.err;
  }
  const std::string python = venv + "/bin/python";
  const std::string check = (source_folder() / "tests/comm/check_mpijob.py").string();
  const Outcome good = run_process({python, check, job_file("mpijob.yaml")});
  EXPECT_EQ(good.code, 0) << good.out << good.err;
  // The check itself: a field misspelt, a required one missing, too many ranks.
  const std::string job = read_file(job_file("mpijob.yaml"));
  for (const auto& [right, wrong] :
       {std::pair{"backoffLimit", "backofLimit"}, {"claimName", "claim"}, {"- \"4\"", "- \"5\""}}) {
    const TemporaryFolder folder;
    std::string broken = job;
    broken.replace(broken.find(right), std::string(right).size(), wrong);
    write_file(folder / "job.yaml", broken);
    EXPECT_EQ(run_process({python, check, (folder / "job.yaml").string()}).code, 3) << wrong;
  }
}

}  // namespace
}  // namespace ringgrad::test
