// Every collective is started without blocking and then tested again and again: so a lost rank, or
// one that does not come, is noticed here and not waited for. Large buffers go in pieces, each of
// which counts as progress. Sums use the ring's arithmetic (reduction.h), also for the types that
// MPI does not know.
#define OMPI_SKIP_MPICXX 1
#include "comm/mpi/mpi_collectives.h"

#include <mpi.h>

#include <algorithm>
#include <climits>
#include <exception>
#include <map>
#include <thread>
#include <vector>

#include "runtime/error.h"

namespace ringgrad::comm {
namespace {

std::string mpi_text(int code) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  return text;
}

#define RINGGRAD_CHECK_MPI(call) RINGGRAD_CHECK_CALL("MPI", call, MPI_SUCCESS, mpi_text)

constexpr std::int64_t kPieceBytes = std::int64_t{64} << 20;
constexpr int kSpins = 2000;  // tests at once, before others get the core

template <DType dtype, ReduceOp op>
void combine(void* in, void* in_out, int* count, MPI_Datatype*) {
  static const Reduction reduction(dtype, op, 1);
  reduction.combine(in_out, in, in_out, *count);
}

template <ReduceOp op>
MPI_User_function* combiner(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return combine<DType::f32, op>;
    case DType::f64:
      return combine<DType::f64, op>;
    case DType::f16:
      return combine<DType::f16, op>;
    case DType::bf16:
      return combine<DType::bf16, op>;
    case DType::i64:
      return combine<DType::i64, op>;
    default:
      return combine<DType::u8, op>;
  }
}

MPI_User_function* combiner(DType dtype, ReduceOp op) {
  switch (op) {
    case ReduceOp::min:
      return combiner<ReduceOp::min>(dtype);
    case ReduceOp::max:
      return combiner<ReduceOp::max>(dtype);
    default:  // an average is a sum that is divided afterwards
      return combiner<ReduceOp::sum>(dtype);
  }
}

// What MPI moves: the size counts, the arithmetic is ours.
MPI_Datatype carrier_of(DType dtype) {
  switch (size_of(dtype)) {
    case 8:
      return MPI_INT64_T;
    case 4:
      return MPI_INT32_T;
    case 2:
      return MPI_INT16_T;
    default:
      return MPI_UINT8_T;
  }
}

class Session : public MpiSession {
 public:
  Session(int rank_in_job, int size_of_job) : rank(rank_in_job), size(size_of_job) {
    int begun = 0;
    MPI_Initialized(&begun);
    RINGGRAD_CHECK(begun == 0, "--backend mpi: MPI was used in this process already");
    int offered = 0;
    RINGGRAD_CHECK_MPI(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &offered));
    int ranks = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (offered < MPI_THREAD_SERIALIZED || ranks != size) {
      MPI_Finalize();
      RINGGRAD_CHECK(ranks == size, "--backend mpi: MPI knows of ", counted(ranks, "rank"),
                     ", this job has ", size, "; start it with mpirun, or use --backend ring");
      throw Error("--backend mpi: this MPI cannot be called from threads");
    }
    RINGGRAD_CHECK_MPI(MPI_Comm_split(MPI_COMM_WORLD, 0, rank, &ranks_of_job));
    RINGGRAD_CHECK_MPI(MPI_Comm_set_errhandler(ranks_of_job, MPI_ERRORS_RETURN));
  }
  ~Session() override {
    if (in_order()) {
      MPI_Comm_free(&ranks_of_job);
      MPI_Finalize();
    }
  }
  // After a failure, of others or of what an exception now takes us out of, MPI cannot end: it
  // would wait for the ranks that are lost, or they for this one.
  bool in_order() const { return !failed && std::uncaught_exceptions() <= exceptions; }

  std::string broadcast_text(const std::string& text, const Deadline& deadline) override {
    std::string content = text;
    std::int64_t length = static_cast<std::int64_t>(content.size());
    const auto check = [&] {
      RINGGRAD_CHECK(!deadline.passed(), "MPI's ranks did not come in time");
    };
    run([&](MPI_Request* r) { return MPI_Ibcast(&length, 1, MPI_INT64_T, 0, ranks_of_job, r); },
        check);
    content.resize(static_cast<std::size_t>(length));
    run(
        [&](MPI_Request* r) {
          return MPI_Ibcast(content.data(), static_cast<int>(length), MPI_BYTE, 0, ranks_of_job, r);
        },
        check);
    return content;
  }

  // Starts an operation and waits for its end; `check` is called meanwhile, and throws to end it.
  template <class Start, class Check>
  void run(Start&& start, Check&& check) {
    MPI_Request request = MPI_REQUEST_NULL;
    try {
      RINGGRAD_CHECK_MPI(start(&request));
      for (int round = 0;; ++round) {
        int done = 0;
        RINGGRAD_CHECK_MPI(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
        if (done != 0) {
          return;
        }
        if (round >= kSpins) {
          check();
          std::this_thread::sleep_for(std::chrono::microseconds(20));
        }
      }
    } catch (const Error&) {
      failed = true;
      throw;
    }
  }

  const int rank, size;
  MPI_Comm ranks_of_job = MPI_COMM_NULL;
  bool failed = false;
  const int exceptions = std::uncaught_exceptions();
};

class MpiCollectives : public Collectives {
 public:
  MpiCollectives(std::shared_ptr<Session> session, bool check, std::shared_ptr<Failure> failure,
                 std::chrono::milliseconds timeout)
      : Collectives(std::move(failure), timeout), session_(std::move(session)), check_(check) {}
  ~MpiCollectives() override {
    session_->failed = session_->failed || failure().raised();
    for (auto& [key, op] : ops_) {
      if (session_->in_order()) {
        MPI_Op_free(&op);
      }
    }
  }

  int rank() const override { return session_->rank; }
  int size() const override { return session_->size; }

  void all_reduce(const Call& call, void* data) override {
    const Reduction reduction(call.dtype, call.op, size());
    start(call);
    const auto element = static_cast<std::int64_t>(size_of(call.dtype));
    const MPI_Op op = op_of(call);
    for (std::int64_t at = 0; at < call.count; at += kPieceBytes / element) {
      const auto n = static_cast<int>(std::min(kPieceBytes / element, call.count - at));
      void* piece = static_cast<unsigned char*>(data) + at * element;
      finish(call, [&](MPI_Request* request) {
        return MPI_Iallreduce(MPI_IN_PLACE, piece, n, carrier_of(call.dtype), op,
                              session_->ranks_of_job, request);
      });
    }
    reduction.finish(data, call.count);
  }

  void broadcast(const Call& call, void* data) override {
    start(call);
    const std::int64_t bytes = call.count * static_cast<std::int64_t>(size_of(call.dtype));
    for (std::int64_t at = 0; at < bytes; at += kPieceBytes) {
      const auto n = static_cast<int>(std::min(kPieceBytes, bytes - at));
      finish(call, [&](MPI_Request* request) {
        return MPI_Ibcast(static_cast<unsigned char*>(data) + at, n, MPI_BYTE, call.root,
                          session_->ranks_of_job, request);
      });
    }
  }

  void all_gather(const Call& call, const void* in, void* out) override {
    start(call);
    const int n = as_int(call);
    const auto* own = static_cast<unsigned char*>(out) + static_cast<std::size_t>(rank()) *
                                                             static_cast<std::size_t>(n) *
                                                             size_of(call.dtype);
    finish(call, [&](MPI_Request* request) {
      const MPI_Datatype type = carrier_of(call.dtype);
      return MPI_Iallgather(in == own ? MPI_IN_PLACE : in, n, type, out, n, type,
                            session_->ranks_of_job, request);
    });
  }

  void reduce_scatter(const Call& call, const void* in, void* out) override {
    const Reduction reduction(call.dtype, call.op, size());
    start(call);
    const int n = as_int(call) / size();
    finish(call, [&](MPI_Request* request) {
      return MPI_Ireduce_scatter_block(in, out, n, carrier_of(call.dtype), op_of(call),
                                       session_->ranks_of_job, request);
    });
    reduction.finish(out, n);
  }

  void barrier(const Call& call) override {
    start(call);
    finish(call,
           [&](MPI_Request* request) { return MPI_Ibarrier(session_->ranks_of_job, request); });
  }

 private:
  static int as_int(const Call& call) {
    RINGGRAD_CHECK(call.count <= INT_MAX, call.text(), ": more than MPI can count");
    return static_cast<int>(call.count);
  }

  MPI_Op op_of(const Call& call) {
    const std::pair key{call.dtype, call.op};
    const auto found = ops_.find(key);
    if (found != ops_.end()) {
      return found->second;
    }
    MPI_Op op = MPI_OP_NULL;
    RINGGRAD_CHECK_MPI(MPI_Op_create(combiner(call.dtype, call.op), 1, &op));
    ops_[key] = op;
    return op;
  }

  // Ranks that disagree would mix data up, or wait for ever.
  void start(const Call& call) {
    begin(call);
    if (!check_) {
      return;
    }
    std::vector<Call> calls(static_cast<std::size_t>(size()));
    finish(call, [&](MPI_Request* request) {
      return MPI_Iallgather(&call, sizeof call, MPI_BYTE, calls.data(), sizeof call, MPI_BYTE,
                            session_->ranks_of_job, request);
    });
    for (int r = 1; r < size(); ++r) {
      const Call& theirs = calls[static_cast<std::size_t>(r)];
      RINGGRAD_CHECK(theirs == calls[0], disagreement(0, calls[0], r, theirs));
    }
  }

  template <class Start>
  void finish(const Call& call, Start&& start) {
    const auto since = std::chrono::steady_clock::now();
    session_->run(start, [&] {
      failure().check();
      RINGGRAD_CHECK(std::chrono::steady_clock::now() - since < timeout(),
                     waited(call, timeout(), or_else(lagging(call), "another rank")));
    });
  }

  static std::string or_else(const std::string& text, const char* otherwise) {
    return text.empty() ? otherwise : text;
  }

  std::shared_ptr<Session> session_;
  bool check_;
  std::map<std::pair<DType, ReduceOp>, MPI_Op> ops_;
};

}  // namespace

bool mpi_is_built() {
  return true;
}

std::shared_ptr<MpiSession> begin_mpi(int rank, int size) {
  return std::make_shared<Session>(rank, size);
}

std::unique_ptr<Collectives> make_mpi_collectives(const std::shared_ptr<MpiSession>& session,
                                                  bool check,
                                                  const std::shared_ptr<Failure>& failure,
                                                  std::chrono::milliseconds timeout) {
  return std::make_unique<MpiCollectives>(std::static_pointer_cast<Session>(session), check,
                                          failure, timeout);
}

}  // namespace ringgrad::comm
