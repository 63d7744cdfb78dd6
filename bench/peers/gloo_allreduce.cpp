// The same table from Gloo's chunked ring over TCP, its only transport on a host.
// usage: ringgrad launch -np R -- gloo_allreduce FOLDER [BYTES...]      FOLDER: empty, for the
// ranks to meet in
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/barrier_all_to_one.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/transport/tcp/device.h>

#include "bench/allreduce_table.h"

int main(int argc, char** argv) {
  const char* rank = std::getenv("RANK");
  const char* size = std::getenv("WORLD_SIZE");
  if (rank == nullptr || size == nullptr || argc < 2) {
    std::fprintf(stderr, "usage: ringgrad launch -np R -- gloo_allreduce FOLDER [BYTES...]\n");
    return 2;
  }
  gloo::transport::tcp::attr address;
  address.hostname = "127.0.0.1";
  auto device = gloo::transport::tcp::CreateDevice(address);
  gloo::rendezvous::FileStore store(argv[1]);
  auto context = std::make_shared<gloo::rendezvous::Context>(std::atoi(rank), std::atoi(size));
  context->connectFullMesh(store, device);

  std::vector<float> data;
  std::unique_ptr<gloo::AllreduceRingChunked<float>> sum;
  gloo::BarrierAllToOne barrier(context);
  ringgrad::bench::AllReduceRank ranks{
      context->rank,
      context->size,
      [&](std::int64_t count) {
        data.resize(static_cast<std::size_t>(count));
        sum = std::make_unique<gloo::AllreduceRingChunked<float>>(
            context, std::vector<float*>{data.data()}, static_cast<int>(count));
        return data.data();
      },
      [&](float*, std::int64_t) { sum->run(); },
      [&] { barrier.run(); },
      [&](std::vector<float>& values) {
        gloo::AllreduceRingChunked<float> max(context, {values.data()},
                                              static_cast<int>(values.size()),
                                              gloo::ReductionFunction<float>::max);
        max.run();
      }};
  return ringgrad::bench::print_allreduce_table(ranks, ringgrad::bench::sizes_from(argc, argv, 2))
             ? 0
             : 1;
}
