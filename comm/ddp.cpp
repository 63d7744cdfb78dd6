#include "comm/ddp.h"

#include <algorithm>

#include "comm/rank_list.h"
#include "engine/autograd.h"
#include "engine/functions.h"
#include "engine/layers.h"

namespace ringgrad::comm {

FlatParameters::GradientStorage shared_gradients(Context& context, Communicator& communicator) {
  return [&](std::size_t bytes) {
    std::shared_ptr<void> memory;
    if (context.device().host_accessible()) {
      memory = communicator.allocate(bytes);
    }
    return FlatParameters::Storage{memory.get(), memory};
  };
}

void broadcast(Communicator& communicator, const Tensor& tensor) {
  const Stream& stream = tensor.context().compute_stream();
  communicator.broadcast(tensor.raw(), static_cast<std::size_t>(tensor.bytes()), 0, stream)
      ->wait(stream);
}

std::string broadcast_text(Communicator& communicator, Context& context, const std::string& text) {
  const Tensor length =
      Tensor::from_host<std::int64_t>(context, {1}, {static_cast<std::int64_t>(text.size())});
  broadcast(communicator, length);
  std::vector<std::uint8_t> bytes(text.begin(), text.end());
  bytes.resize(static_cast<std::size_t>(length.to_host<std::int64_t>().front()));
  if (bytes.empty()) {
    return "";
  }
  const Tensor content =
      Tensor::from_host<std::uint8_t>(context, {static_cast<Index>(bytes.size())}, bytes);
  broadcast(communicator, content);
  bytes = content.to_host<std::uint8_t>();
  return {bytes.begin(), bytes.end()};
}

void synchronize_batch_norm(Module& module, Communicator& communicator) {
  for (Module* member : module.all_members().modules) {
    auto* layer = dynamic_cast<BatchNorm2d*>(member);
    if (layer != nullptr && communicator.size() > 1) {
      layer->sum_over_replicas = [&communicator](const Tensor& own) {
        const Stream& stream = own.context().compute_stream();
        Tensor all = Tensor::empty(own.context(), own.shape(), own.dtype());
        communicator
            .all_reduce(own.raw(), all.raw(), own.count(), own.dtype(), ReduceOp::sum, stream)
            ->wait(stream);
        return all;
      };
    }
  }
}

DistributedDataParallel::DistributedDataParallel(const FlatParameters& parameters,
                                                 Communicator& communicator, Options options)
    : parameters_(parameters), communicator_(communicator), options_(options) {
  const auto& ranges = parameters.ranges();
  const auto element = static_cast<Index>(size_of(parameters.values().dtype()));
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const Index end = i + 1 < ranges.size() ? ranges[i + 1].begin : parameters.values().count();
    const auto capacity = static_cast<Index>(buckets_.size() == 1 ? options.first_bucket_bytes
                                                                  : options.bucket_bytes);
    if (buckets_.empty() || (end - buckets_.back().begin) * element > capacity) {
      buckets_.push_back({ranges[i].begin, 0, i, 0, 0, nullptr});
    }
    Bucket& bucket = buckets_.back();
    bucket.count = end - bucket.begin;
    ++bucket.range_count;
    bucket_of_.push_back(buckets_.size() - 1);
  }
  is_ready_.resize(ranges.size());
  broadcast(communicator, parameters.values());
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    ranges[i].tensor.node()->hook = [this, i] { mark_ready(i); };
  }
}

DistributedDataParallel::~DistributedDataParallel() {
  // What is under way still writes into the gradients; its errors have been, or are being, thrown
  // elsewhere.
  for (Bucket& bucket : buckets_) {
    try {
      if (bucket.work != nullptr) {
        bucket.work->wait(parameters_.context().compute_stream());
      }
    } catch (const Error&) {
      continue;
    }
  }
  for (const FlatParameters::Range& range : parameters_.ranges()) {
    range.tensor.node()->hook = nullptr;
  }
}

void DistributedDataParallel::mark_ready(std::size_t range) {
  if (!sync_) {
    return;
  }
  RINGGRAD_CHECK(!is_ready_[range], "parameter ", parameters_.ranges()[range].name,
                 " became ready twice; call finish() after each backward");
  is_ready_[range] = true;
  ++buckets_[bucket_of_[range]].ready;
  launch_in_order();
}

// Buckets go out in their own order on every rank, whatever order backward finished them in.
void DistributedDataParallel::launch_in_order() {
  const Tensor& gradients = parameters_.gradients();
  const Stream& stream = gradients.context().compute_stream();
  for (; next_bucket_ < buckets_.size(); ++next_bucket_) {
    Bucket& bucket = buckets_[next_bucket_];
    if (bucket.ready < bucket.range_count) {
      return;
    }
    const Tensor range = gradients.range(bucket.begin, {bucket.count});
    bucket.work = options_.fp16_compression
                      ? communicator_.all_reduce_as_half(range.data<float>(), bucket.count, stream)
                      : communicator_.all_reduce(range.raw(), bucket.count, range.dtype(),
                                                 ReduceOp::average, stream);
  }
}

void DistributedDataParallel::finish() {
  RINGGRAD_CHECK(sync_, "finish() after a backward without set_sync(true)");
  if (options_.find_unused_parameters) {
    parameters_.settle();
    for (std::size_t range = 0; range < is_ready_.size(); ++range) {
      if (!is_ready_[range]) {
        mark_ready(range);
      }
    }
  }
  const auto missing = std::find(is_ready_.begin(), is_ready_.end(), false);
  RINGGRAD_CHECK(missing == is_ready_.end(), "parameter ",
                 parameters_.ranges()[static_cast<std::size_t>(missing - is_ready_.begin())].name,
                 " had no part in this step's loss, so its gradient would differ between ranks "
                 "(--find-unused-parameters counts it as zero)");
  const Stream& stream = parameters_.context().compute_stream();
  for (Bucket& bucket : buckets_) {
    bucket.work->wait(stream);
    bucket.work.reset();
    bucket.ready = 0;
  }
  std::fill(is_ready_.begin(), is_ready_.end(), false);
  next_bucket_ = 0;
}

void DistributedDataParallel::check_equal(Module& module) {
  if (communicator_.size() == 1) {
    return;
  }
  Context& context = parameters_.context();
  std::uint64_t digest = hash(parameters_.values());
  for (const auto& [name, buffer] : module.all_members().buffers) {
    digest = digest * 31 + hash(buffer->tensor);
  }
  const Stream& stream = context.compute_stream();
  const Tensor mine =
      Tensor::from_host(context, {1}, std::vector{static_cast<std::int64_t>(digest)});
  const Tensor all = Tensor::empty(context, {communicator_.size()}, DType::i64);
  communicator_.all_gather(mine.raw(), all.raw(), 1, DType::i64, stream)->wait(stream);
  const auto digests = all.to_host<std::int64_t>();
  std::vector<std::size_t> different;
  for (std::size_t rank = 1; rank < digests.size(); ++rank) {
    if (digests[rank] != digests[0]) {
      different.push_back(rank);
    }
  }
  RINGGRAD_CHECK(different.empty(),
                 "the weights of the ranks have drifted apart: ", rank_list(different),
                 " differs from rank 0");
}

void DistributedDataParallel::broadcast_buffers(Module& module) {
  for (const auto& [name, buffer] : module.all_members().buffers) {
    broadcast(communicator_, buffer->tensor);
  }
}

}  // namespace ringgrad::comm
