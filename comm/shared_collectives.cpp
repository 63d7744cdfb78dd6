// Collectives of ranks that reach each other's memory: nothing is sent, every rank reads where the
// data lies. All-reduce of buffers in shared memory, for R = 2:
//
//   rank 0   [ a0 | b0 ]      any rank that has time takes the next block of the buffer, adds it
//   rank 1   [ a1 | b1 ]      over all ranks in the order of its chunk (reduction.h), and writes
//             ▲    ▲          the sum into every rank's buffer
//             block …
//
// so each byte is read once and written once for each rank, there is no copy beside, and a rank
// that comes late (there may be more ranks than cores) leaves its share of the work to the others.
//
// A turn is the unit of keeping in step. Ranks post the turn that they have reached; nobody goes on
// before all have posted it. Since a rank posts turn t+1 only when it is through with turn t, what
// was used in turn t is free again in turn t+2: two of everything, used by turns, is enough.
//
//   small buffers     copy into one's own staging area, post, add all parts: one turn
//   shared buffers    post where the buffer lies, work block by block until all blocks are done
//   any other buffer  in pieces that are cut into a share for each rank: copy the shares of the
//                     others into one's own staging area, post, add one's own share over all ranks
//                     and write the sums where the others' parts of it lie, post, copy one's own
//                     staging area back. A line of the cache that goes from core to core comes
//                     back the same way, which is the least that such lines can travel.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "comm/collectives.h"
#include "comm/rank_list.h"
#include "comm/waiting.h"
#include "runtime/error.h"

namespace ringgrad::comm {
namespace {

using Byte = unsigned char;

constexpr std::size_t kSmallBytes = 32 * 1024;
constexpr std::size_t kBlockBytes = 64 * 1024;  // what a rank takes at once
constexpr std::size_t kStripBytes = 8 * 1024;   // what it adds at once: stays in the first cache
constexpr std::size_t kPieceBytes = 256 * 1024;
constexpr std::int64_t kShareStep = 64;  // elements: no two ranks write one line of the cache
constexpr int kMaxRanks = 256;

// One line of the cache for each writer.
struct alignas(64) Slot {
  std::atomic<std::int64_t> turn;  // posted by this rank
  std::atomic<bool> inside;        // it reads or writes other ranks' memory now
  Call call[2];                    // by the turn's parity
  std::uint64_t token[2];
};

// Counts up to 2^32 within a turn; another turn starts it anew, without anybody resetting it.
class alignas(64) TurnCounter {
 public:
  // The count before; `limit` if it is there already.
  std::uint32_t take(std::int64_t turn, std::uint32_t limit) {
    std::uint64_t seen = word_.load();
    for (;;) {
      const std::uint32_t count = of_turn(seen, turn) ? static_cast<std::uint32_t>(seen) : 0;
      if (count >= limit) {
        return limit;
      }
      if (word_.compare_exchange_weak(seen, pack(turn, count + 1))) {
        return count;
      }
    }
  }
  bool reached(std::int64_t turn, std::uint32_t count) const {
    const std::uint64_t seen = word_.load();
    return of_turn(seen, turn) && static_cast<std::uint32_t>(seen) >= count;
  }

 private:
  static std::uint64_t pack(std::int64_t turn, std::uint32_t count) {
    return static_cast<std::uint64_t>(turn) << 32 | count;
  }
  static bool of_turn(std::uint64_t word, std::int64_t turn) {
    return word >> 32 == (static_cast<std::uint64_t>(turn) & 0xffffffffU);
  }
  std::atomic<std::uint64_t> word_;
};

struct Control {
  Doorbell doorbell;
  TurnCounter taken, done;  // blocks
  Slot slots[kMaxRanks];
};
static_assert(sizeof(Control) <= SharedSegment::kControlBytes);
static_assert(2 * kPieceBytes <= SharedSegment::kStagingBytes);

class SharedCollectives : public Collectives {
 public:
  SharedCollectives(SharedSegment segment, std::shared_ptr<Failure> failure,
                    std::chrono::milliseconds timeout)
      : Collectives(std::move(failure), timeout),
        segment_(std::move(segment)),
        control_(*reinterpret_cast<Control*>(segment_.control())),
        oversubscribed_(static_cast<unsigned>(size()) > std::thread::hardware_concurrency()),
        parts_(static_cast<std::size_t>(size())) {
    RINGGRAD_CHECK(size() <= kMaxRanks, "at most ", kMaxRanks, " ranks on one host");
  }

  int rank() const override { return segment_.rank(); }
  int size() const override { return segment_.size(); }

  void all_reduce(const Call& call, void* data) override {
    const Reduction reduction(call.dtype, call.op, size());
    const std::size_t element = size_of(call.dtype);
    auto* bytes = static_cast<Byte*>(data);
    const std::size_t total = static_cast<std::size_t>(call.count) * element;
    if (total <= kSmallBytes) {
      copy(staged(rank()), bytes, total);
      post(call, 0);
      find_parts([&](int of) { return staged_by(of); });
      sum(call, reduction, 0, call.count, {bytes});
      return;
    }
    const bool reached = lend(call, data, total, [&] {
      if (!all_tokens()) {
        return false;
      }
      find_parts([&](int of) { return segment_.address(slot(of).token[parity()]); });
      sum_blocks(call, reduction);
      return true;
    });
    if (reached) {
      return;
    }
    all_reduce_by_shares(call, reduction, bytes);
  }

  void broadcast(const Call& call, void* data) override {
    auto* bytes = static_cast<Byte*>(data);
    const std::size_t total = static_cast<std::size_t>(call.count) * size_of(call.dtype);
    const bool root = rank() == call.root;
    const bool reached = lend(call, data, total, [&] {
      const std::uint64_t token = slot(call.root).token[parity()];
      if (token == 0) {
        return false;
      }
      if (!root) {
        inside([&] { copy(bytes, segment_.address(token), total); });
      }
      post(call, 0);
      return true;
    });
    if (reached) {
      return;
    }
    for (std::size_t begin = 0; begin < total; begin += kPieceBytes) {
      const std::size_t n = std::min(kPieceBytes, total - begin);
      if (root) {
        copy(staged(rank()), bytes + begin, n);
      }
      post(call, 0);
      if (!root) {
        copy(bytes + begin, staged_by(call.root), n);
      }
    }
  }

  void all_gather(const Call& call, const void* in, void* out) override {
    const std::size_t part = static_cast<std::size_t>(call.count) * size_of(call.dtype);
    const auto* mine = static_cast<const Byte*>(in);
    auto* all = static_cast<Byte*>(out);
    std::size_t begin = 0;
    do {
      const std::size_t n = std::min(kPieceBytes, part - begin);
      copy(staged(rank()), mine + begin, n);
      post(call, 0);
      for (int r = 0; r < size(); ++r) {
        copy(all + index(r) * part + begin, staged_by(r), n);
      }
      begin += n;
    } while (begin < part);
  }

  void reduce_scatter(const Call& call, const void* in, void* out) override {
    const Reduction reduction(call.dtype, call.op, size());
    const std::size_t element = size_of(call.dtype);
    const std::int64_t part = call.count / size();
    const auto* mine = static_cast<const Byte*>(in);
    const auto piece = static_cast<std::int64_t>(kPieceBytes / element) / size();
    std::int64_t begin = 0;
    do {  // a piece holds a stretch of every rank's part
      const std::int64_t n = std::min(piece, part - begin);
      const std::size_t stretch = static_cast<std::size_t>(n) * element;
      for (int r = 0; r < size(); ++r) {
        copy(staged(rank()) + index(r) * stretch,
             mine + static_cast<std::size_t>(r * part + begin) * element, stretch);
      }
      post(call, 0);
      Byte* result = static_cast<Byte*>(out) + static_cast<std::size_t>(begin) * element;
      const auto of = [&](int k) {
        return staged_by((rank() + k) % size()) + index(rank()) * stretch;
      };
      copy(result, of(1), stretch);
      for (int k = 2; k <= size(); ++k) {
        reduction.combine(result, result, of(k), n);
      }
      reduction.finish(result, n);
      begin += n;
    } while (begin < part);
  }

  void barrier(const Call& call) override { post(call, 0); }

  std::shared_ptr<void> allocate(std::size_t bytes) override { return segment_.allocate(bytes); }

 private:
  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }
  static void copy(void* to, const void* from, std::size_t bytes) {
    if (bytes > 0 && to != from) {
      std::memmove(to, from, bytes);
    }
  }

  Slot& slot(int rank) const { return control_.slots[rank]; }
  std::size_t parity() const { return static_cast<std::size_t>(turn_ & 1); }
  // Where this rank puts its part of the next turn; where a rank put its part of the present one.
  Byte* staged(int rank) const { return segment_.staging(rank) + (parity() ^ 1U) * kPieceBytes; }
  Byte* staged_by(int rank) const { return segment_.staging(rank) + parity() * kPieceBytes; }

  // Where every rank's part of the present sum lies.
  template <class Of>
  void find_parts(Of&& part_of) {
    for (int r = 0; r < size(); ++r) {
      parts_[index(r)] = part_of(r);
    }
  }

  bool all_tokens() const {
    for (int r = 0; r < size(); ++r) {
      if (slot(r).token[parity()] == 0) {
        return false;
      }
    }
    return true;
  }

  // Begins the next turn: says what this rank does, waits for all to say it, and compares.
  void post(const Call& call, std::uint64_t token) {
    ++turn_;
    Slot& mine = slot(rank());
    mine.call[parity()] = call;
    mine.token[parity()] = token;
    mine.turn.store(turn_);
    control_.doorbell.ring();
    wait(call, [&] {
      for (int r = 0; r < size(); ++r) {
        if (slot(r).turn.load() < turn_) {
          return false;
        }
      }
      return true;
    });
    for (int r = 1; r < size(); ++r) {  // all ranks find the same pair
      RINGGRAD_CHECK(slot(r).call[parity()] == slot(0).call[parity()],
                     disagreement(0, slot(0).call[parity()], r, slot(r).call[parity()]));
    }
  }

  // Begins a turn in which the others may reach `data`, and runs `body`, which returns with all of
  // them through with it. A rank that leaves by an error is about to free its memory: it waits
  // until nobody is inside any more; who comes later sees the failure.
  template <class Body>
  bool lend(const Call& call, void* data, std::size_t bytes, Body&& body) {
    try {
      post(call, segment_.token(data, bytes));
      return body();
    } catch (const std::exception& error) {
      failure().fail(error.what());
      for (int r = 0; segment_.one_process() && r < size(); ++r) {
        while (r != rank() && slot(r).inside.load()) {
          std::this_thread::yield();
        }
      }
      throw;
    }
  }

  // Runs what reads or writes other ranks' memory, unless they may be leaving with it.
  template <class Access>
  void inside(Access&& access) {
    std::atomic<bool>& mine = slot(rank()).inside;
    mine.store(true);
    const bool failed = failure().raised();
    if (!failed) {
      access();
    }
    mine.store(false);
    failure().check();
  }

  // Of a piece, share r (elements) belongs to rank r. Pointers into staging are as if the whole
  // buffer lay there.
  void all_reduce_by_shares(const Call& call, const Reduction& reduction, Byte* data) {
    const std::size_t element = size_of(call.dtype);
    const std::int64_t evenly = (call.count + size() - 1) / size() + kShareStep - 1;
    const std::int64_t at_most = static_cast<std::int64_t>(kPieceBytes / element) / size();
    const std::int64_t share = std::min(evenly, at_most) / kShareStep * kShareStep;
    const std::int64_t piece = share * size();
    const auto start_of = [&](std::int64_t begin, int of) {
      return std::min(call.count, begin + of * share);
    };
    const auto byte_of = [&](std::int64_t i) { return static_cast<std::size_t>(i) * element; };
    const auto copy_others_shares = [&](std::int64_t begin, Byte* to, const Byte* from) {
      const std::size_t first = byte_of(begin);
      const std::size_t mine = byte_of(start_of(begin, rank()));
      const std::size_t next = byte_of(start_of(begin, rank() + 1));
      copy(to + first, from + first, mine - first);
      copy(to + next, from + next, byte_of(start_of(begin, size())) - next);
    };
    copy_others_shares(0, staged(rank()), data);
    post(call, 0);
    for (std::int64_t begin = 0; begin < call.count; begin += piece) {
      find_parts([&](int of) { return of == rank() ? data : staged_by(of) - byte_of(begin); });
      const std::int64_t mine = start_of(begin, rank());
      sum(call, reduction, mine, start_of(begin, rank() + 1) - mine, parts_);
      const Byte* sums = staged_by(rank()) - byte_of(begin);
      const std::int64_t next = begin + piece;
      if (next < call.count) {
        copy_others_shares(next, staged(rank()) - byte_of(next), data);
      }
      post(call, 0);
      copy_others_shares(begin, data, sums);
    }
  }

  // Takes blocks of all ranks' parts until none is left, then waits for the others'.
  void sum_blocks(const Call& call, const Reduction& reduction) {
    const auto block = static_cast<std::int64_t>(kBlockBytes / size_of(call.dtype));
    const auto blocks = static_cast<std::uint32_t>((call.count + block - 1) / block);
    for (;;) {
      const std::uint32_t taken = control_.taken.take(turn_, blocks);
      if (taken == blocks) {
        break;
      }
      const std::int64_t first = taken * block;
      inside([&] { sum(call, reduction, first, std::min(block, call.count - first), parts_); });
      if (control_.done.take(turn_, blocks) + 1 == blocks) {
        control_.doorbell.ring();
      }
    }
    wait(call, [&] { return control_.done.reached(turn_, blocks); });
  }

  // Elements [begin, begin + n) of all ranks' parts, added in the order of their chunks, into the
  // same places of `results`, which may be the parts themselves.
  void sum(const Call& call, const Reduction& reduction, std::int64_t begin, std::int64_t n,
           const std::vector<Byte*>& results) const {
    const auto strip = static_cast<std::int64_t>(kStripBytes / size_of(call.dtype));
    for (int chunk = 0; chunk < size(); ++chunk) {
      std::int64_t from = std::max(begin, chunk_begin(call.count, chunk, size()));
      const std::int64_t end = std::min(begin + n, chunk_begin(call.count, chunk + 1, size()));
      for (; from < end; from += strip) {
        sum_strip(chunk, size_of(call.dtype), reduction, from, std::min(strip, end - from),
                  results);
      }
    }
  }

  void sum_strip(int chunk, std::size_t element, const Reduction& reduction, std::int64_t from,
                 std::int64_t n, const std::vector<Byte*>& results) const {
    const std::size_t offset = static_cast<std::size_t>(from) * element;
    const auto part = [&](int k) { return parts_[index((chunk + k) % size())] + offset; };
    alignas(64) Byte partial[kStripBytes];
    const Byte* sum = part(0);
    for (int k = 1; k + 1 < size(); ++k) {
      reduction.combine(partial, sum, part(k), n);
      sum = partial;
    }
    // Written last: a result may be one of the parts.
    Byte* result = results.front() + offset;
    reduction.combine(result, sum, part(size() - 1), n);
    reduction.finish(result, n);
    for (std::size_t r = 1; r < results.size(); ++r) {
      std::memcpy(results[r] + offset, result, static_cast<std::size_t>(n) * element);
    }
  }

  template <class Ready>
  void wait(const Call& call, Ready&& ready) const {
    // With more ranks than cores the one we wait for needs this core.
    const int spins = oversubscribed_ ? 0 : 4000;
    const int yields = oversubscribed_ ? 500 : 100;
    for (int i = 0; i < spins; ++i) {
      if (ready()) {
        return;
      }
      relax();
    }
    for (int i = 0; i < yields; ++i) {
      if (ready()) {
        return;
      }
      std::this_thread::yield();
    }
    const auto start = std::chrono::steady_clock::now();
    for (;;) {
      const std::uint32_t seen = control_.doorbell.rings.load();
      if (ready()) {
        return;
      }
      failure().check();
      RINGGRAD_CHECK(std::chrono::steady_clock::now() - start < timeout(),
                     waited(call, timeout(), missing()));
      control_.doorbell.sleep(seen);
    }
  }

  std::string missing() const {
    std::vector<int> ranks;
    for (int r = 0; r < size(); ++r) {
      if (slot(r).turn.load() < turn_) {
        ranks.push_back(r);
      }
    }
    return ranks.empty() ? "a block of the sum that another rank took" : rank_list(ranks);
  }

  SharedSegment segment_;
  Control& control_;
  const bool oversubscribed_;
  std::vector<Byte*> parts_;  // (R)
  std::int64_t turn_ = 0;
};

}  // namespace

std::unique_ptr<Collectives> make_shared_collectives(SharedSegment segment,
                                                     std::shared_ptr<Failure> failure,
                                                     std::chrono::milliseconds timeout) {
  return std::make_unique<SharedCollectives>(std::move(segment), std::move(failure), timeout);
}

}  // namespace ringgrad::comm
