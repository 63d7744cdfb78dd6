// Data-parallel training: every rank computes the gradients of its own batch; their average is
// formed while backward still runs. Flat gradients are cut into buckets in the order in which
// backward finishes them; the hook of each parameter marks it ready, and a bucket whose parameters
// all are is reduced in place.
#pragma once

#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "engine/flat_parameters.h"

namespace ringgrad::comm {

// Gradients in memory that the host's ranks share, so that buckets are reduced without a copy.
FlatParameters::GradientStorage shared_gradients(Context& context, Communicator& communicator);

// Rank 0's content of a tensor to all ranks.
void broadcast(Communicator& communicator, const Tensor& tensor);
// Rank 0's text to all ranks.
std::string broadcast_text(Communicator& communicator, Context& context, const std::string& text);

// Batch norms that `module` has use the statistics of all ranks' batches together, as
// torch.nn.SyncBatchNorm. `communicator` must outlive the module's use.
void synchronize_batch_norm(Module& module, Communicator& communicator);

class DistributedDataParallel {
 public:
  struct Options {
    std::size_t bucket_bytes = std::size_t{25} << 20;
    std::size_t first_bucket_bytes = std::size_t{1} << 20;  // communication starts early
    bool fp16_compression = false;                          // gradients travel as halves
    bool find_unused_parameters = false;  // that get no gradient count as zero, instead of an Error
  };

  // Sends rank 0's parameters to all ranks and takes the hooks of `parameters`. All must outlive
  // this.
  DistributedDataParallel(const FlatParameters& parameters, Communicator& communicator,
                          Options options);
  DistributedDataParallel(const FlatParameters& parameters, Communicator& communicator)
      : DistributedDataParallel(parameters, communicator, Options()) {}
  DistributedDataParallel(const DistributedDataParallel&) = delete;
  DistributedDataParallel& operator=(const DistributedDataParallel&) = delete;
  ~DistributedDataParallel();

  // After backward: the averaged gradients are there for what comes on the compute stream. Error if
  // a parameter had no part in this step; it is named.
  void finish();
  // Without it backward only adds to this rank's gradients: all but the last of several that make
  // up one step.
  void set_sync(bool sync) { sync_ = sync; }
  // Error that names the ranks whose parameters or buffers differ from rank 0's.
  void check_equal(Module& module);
  // Rank 0's running statistics to all ranks: before evaluation and saving.
  void broadcast_buffers(Module& module);

  std::size_t bucket_count() const { return buckets_.size(); }

 private:
  struct Bucket {
    Index begin, count;  // in elements of the flat gradients
    std::size_t first_range, range_count;
    std::size_t ready = 0;
    std::unique_ptr<Work> work;
  };

  void mark_ready(std::size_t range);
  void launch_in_order();

  const FlatParameters& parameters_;
  Communicator& communicator_;
  std::vector<Bucket> buckets_;
  std::vector<std::size_t> bucket_of_;  // by range
  std::vector<bool> is_ready_;          // by range
  std::size_t next_bucket_ = 0;
  const Options options_;
  bool sync_ = true;
};

}  // namespace ringgrad::comm
