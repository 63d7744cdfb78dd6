#include "training/phase.h"

namespace ringgrad::training {

DeviceBatch to_device(Context& context, const std::shared_ptr<data::Batch>& batch) {
  const Shape image_shape{batch->n, batch->height, batch->width, 3};
  if (context.device().host_accessible()) {
    return {Tensor::over(context, image_shape, DType::u8, batch->pixel_data(), batch),
            Tensor::over(context, {batch->n}, DType::i32, batch->label_data(), batch)};
  }
  DeviceBatch on_device{Tensor::empty(context, image_shape, DType::u8),
                        Tensor::empty(context, {batch->n}, DType::i32)};
  DeviceTable& device = context.device();
  const Event allocated(device);
  allocated.record(context.compute_stream());
  allocated.wait_on(context.copy_stream());
  const StreamHandle copy = context.copy_stream().handle();
  device.copy(on_device.images.raw(), batch->pixel_data(),
              static_cast<std::size_t>(on_device.images.bytes()), CopyKind::host_to_device, copy);
  device.copy(on_device.labels.raw(), batch->label_data(),
              static_cast<std::size_t>(on_device.labels.bytes()), CopyKind::host_to_device, copy);
  const Event copied(device);
  copied.record(context.copy_stream());
  copied.wait_on(context.compute_stream());
  copied.synchronize();  // the batch's memory goes back when the caller lets go of it
  return on_device;
}

Normalization normalization_of(data::TransformKind kind) {
  const data::ChannelStatistics statistics = data::statistics_of(kind);
  Normalization normalization;
  for (int c = 0; c < 3; ++c) {
    normalization.mean[c] = statistics.mean[c];
    normalization.stddev[c] = statistics.stddev[c];
  }
  return normalization;
}

Totals reduced(const Totals& mine, comm::Communicator& communicator, Context& context) {
  if (communicator.size() == 1) {
    return mine;
  }
  const Tensor sums = Tensor::from_host<double>(
      context, {3},
      {mine.loss_sum, static_cast<double>(mine.correct), static_cast<double>(mine.samples)});
  communicator.all_reduce(sums.raw(), 3, DType::f64, comm::ReduceOp::sum, context.compute_stream())
      ->wait(context.compute_stream());
  const std::vector<double> all = sums.to_host<double>();
  return {all[0], static_cast<std::int64_t>(all[1]), static_cast<std::int64_t>(all[2])};
}

Totals evaluate(Context& context, Module& model, data::DataLoader& loader,
                const Normalization& normalization,
                const std::function<bool(const Totals&)>& tick) {
  const NoGrad no_grad(context);
  const bool was_training = model.training();
  model.eval();
  Totals totals;
  while (const std::shared_ptr<data::Batch> batch = loader.next()) {
    const DeviceBatch on_device = to_device(context, batch);
    const Tensor logits = model(image_to_float(on_device.images, normalization));
    const Tensor loss = cross_entropy(logits, on_device.labels);
    const Tensor correct = correct_in_top_k(logits, on_device.labels, 1);
    totals.add(loss.item(), correct.to_host<std::int64_t>().front(), batch->n);
    context.check_status();
    if (tick && !tick(totals)) {
      break;
    }
  }
  model.train(was_training);
  return totals;
}

}  // namespace ringgrad::training
