// The settings of a training run. Their JSON has the command's flag names as keys; it is what a
// checkpoint stores and a resumed run starts from.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace ringgrad::training {

struct TrainOptions {
  std::string model = "cifar-net";
  std::string data;
  std::string transform = "auto";  // to-tensor, cifar, imagenet; auto: by the kind of data
  int num_classes = 0;             // 0: as many as the data has
  bool cifar_stem = false;
  int epochs = 10;
  std::int64_t batch_size = 64;        // of each replica
  std::int64_t global_batch_size = 0;  // of all together, instead
  int accumulate = 1;                  // batches for one step of the optimizer
  bool scale_lr = false;               // by the number of replicas
  std::string compression = "none";    // or fp16: what gradients travel as
  bool find_unused_parameters = false;
  bool sync_bn = false;  // batch norm over the batches of all replicas together
  double lr = 0.001;
  double momentum = 0.9;
  double weight_decay = 0;
  bool nesterov = false;
  double label_smoothing = 0;
  std::string schedule = "constant";
  double warmup = 0;  // epochs
  std::uint64_t seed = 0;
  std::int64_t samples = 2048;  // synthetic data
  bool drop_last = false;
  bool skip_bad = false;
  bool exif_rotation = false;
  bool allow_empty_classes = false;
  std::string init;  // weights to start from

  // How it runs, without influence on what is computed (threads: on the last bits).
  std::string device = "cpu";
  int replicas = 1;  // in this process; 0: one on each device
  int threads = 0;   // 0: all cores, shared out among the replicas
  int workers = -1;  // -1: as many as cores, at most 4
  std::string out;   // the run's folder
  bool resume = false;
  bool allow_resize = false;  // resume with another number of replicas
  int checkpoint_every = 1;   // epochs
  long save_every = 0;        // steps, besides; 0: not

  // Several processes. These are each rank's own.
  std::string backend = "auto";    // ring, mpi, nccl
  bool check_collectives = false;  // also where the backend does not do it anyway
  std::string transport = "auto";  // of the ring: shared, tcp
  std::string interface;           // network interface that other hosts connect to
  std::string secret_file;
  double comm_timeout = 600;   // seconds without progress in a collective
  std::string given_settings;  // what this rank was told, packed; the rest comes from rank 0
};

std::chrono::milliseconds timeout_of(const TrainOptions& options);

nlohmann::json to_json(const TrainOptions& options);
// Fields that `json` does not name keep the value they have. Error for a key that is no setting.
void merge_json(TrainOptions& options, const nlohmann::json& json);
// Settings from rank to rank. Not as text: folders' names need not be UTF-8, JSON must be.
std::string pack(const nlohmann::json& settings);
nlohmann::json unpack(const std::string& packed);
// Error that names the first setting that makes no sense.
void check(const TrainOptions& options);

}  // namespace ringgrad::training
