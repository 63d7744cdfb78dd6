// The same table from MPI_Allreduce. usage: mpirun -np R mpi_allreduce [BYTES...]
#include <mpi.h>

#include "bench/allreduce_table.h"

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  std::vector<float> data;
  ringgrad::bench::AllReduceRank ranks{
      0,
      1,
      [&](std::int64_t count) {
        data.resize(static_cast<std::size_t>(count));
        return data.data();
      },
      [](float* values, std::int64_t count) {
        MPI_Allreduce(MPI_IN_PLACE, values, static_cast<int>(count), MPI_FLOAT, MPI_SUM,
                      MPI_COMM_WORLD);
      },
      [] { MPI_Barrier(MPI_COMM_WORLD); },
      [](std::vector<float>& values) {
        MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_FLOAT,
                      MPI_MAX, MPI_COMM_WORLD);
      }};
  MPI_Comm_rank(MPI_COMM_WORLD, &ranks.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks.size);
  const bool right =
      ringgrad::bench::print_allreduce_table(ranks, ringgrad::bench::sizes_from(argc, argv, 1));
  MPI_Finalize();
  return right ? 0 : 1;
}
