// The ring all-reduce.
//
// R ranks stand in a ring; each sends to its right neighbour only. The data is cut into R chunks.
// First, reduce-scatter: in R-1 steps partial sums travel once round the ring, each rank adding its
// own part, until every rank owns one finished chunk. For R = 3, with a b c the chunks of ranks 0,
// 1 and 2:
//
//             rank 0          rank 1          rank 2
//   start     a0 b0 c0        a1 b1 c1        a2 b2 c2
//   step 0    sends a0 ──▶    sends b1 ──▶    sends c2 ──▶ (to rank 0)
//             c2+c0           a0+a1           b1+b2
//   step 1    sends c2+c0 ─▶  sends a0+a1 ─▶  sends b1+b2 ─▶
//             b1+b2+b0        c2+c0+c1        a0+a1+a2
//
// Then, all-gather: in R-1 more steps the finished chunks travel round and overwrite.
//
//   step 2    sends b ──▶     sends c ──▶     sends a ──▶
//   step 3    sends a ──▶     sends b ──▶     sends c ──▶          all ranks hold a b c
//
// Each rank sends 2 (R-1)/R of the data whatever R is: the least possible. Chunk c is always added
// in the order c, c+1, …, c+R-1 (mod R), so the bits depend on nothing but inputs, count and world
// size. Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
// workstations", 2009.
//
// What a rank sends in step k+1 is the chunk that it received in step k. So the steps need no
// boundaries: all that goes out is one stream of bytes, all that comes in is another, and a byte
// may go out as soon as it came in and was added. Two numbers describe the whole state,
//
//   out   ████████████░░░░░░░······      sent │ may be sent │ not there yet
//   in    ██████████·················    received and added │ to come
//
//   may be sent  =  the first chunk, which is our own  +  what was received
//
// and Flow below turns them until both streams are at their ends. This is the pipeline that keeps
// all links busy at once: nobody waits for a whole chunk. Broadcast, all-gather and reduce-scatter
// are the same two streams with other contents. Small data goes round as it is, every rank's to
// every other (R-1 steps instead of 2(R-1)), and is added at its destination in the same order.
#include <algorithm>
#include <array>
#include <cstring>
#include <thread>
#include <vector>

#include "comm/collectives.h"
#include "runtime/error.h"

namespace ringgrad::comm {
namespace {

constexpr std::int64_t kSmallBytes = 32 * 1024;
constexpr std::size_t kPieceBytes = 256 * 1024;  // added while it is in the cache
constexpr std::size_t kJoinedBytes = 8 * 1024;  // copied to be sent or received with what is beside
constexpr int kYields = 200;  // before a sleep, whose end takes longer than a neighbour mostly does
constexpr std::chrono::milliseconds kGrace{5000};
constexpr std::chrono::milliseconds kTick{50};  // between two looks at the failure

using Byte = unsigned char;

// A stretch of one of the two streams.
struct Stretch {
  Byte* data;
  std::size_t bytes;
  bool reduced = false;  // what comes in is added to `data` instead of overwriting it
  bool last = false;     // and was the last addition
};

class RingCollectives : public Collectives {
 public:
  RingCollectives(std::unique_ptr<Transport> transport, std::shared_ptr<Failure> failure,
                  std::chrono::milliseconds timeout)
      : Collectives(std::move(failure), timeout), transport_(std::move(transport)) {}

  int rank() const override { return transport_->rank(); }
  int size() const override { return transport_->size(); }

  void all_reduce(const Call& call, void* data) override {
    const Reduction reduction(call.dtype, call.op, size());
    const std::size_t element = size_of(call.dtype);
    auto* bytes = static_cast<Byte*>(data);
    if (call.count * static_cast<std::int64_t>(element) <= kSmallBytes) {
      return small_all_reduce(call, bytes, reduction);
    }
    const auto stretch = [&](int step) {
      const int chunk = wrapped(rank() - step);
      const std::int64_t begin = chunk_begin(call.count, chunk, size());
      const std::int64_t end = chunk_begin(call.count, chunk + 1, size());
      return Stretch{bytes + static_cast<std::size_t>(begin) * element,
                     static_cast<std::size_t>(end - begin) * element};
    };
    std::vector<Stretch> out, in;
    for (int step = 0; step < 2 * (size() - 1); ++step) {
      out.push_back(stretch(step));
      in.push_back(stretch(step + 1));
      in.back().reduced = step < size() - 1;
      in.back().last = step == size() - 2;
    }
    flow(call, out, in, out.front().bytes, &reduction);
  }

  void broadcast(const Call& call, void* data) override {
    const std::size_t bytes = static_cast<std::size_t>(call.count) * size_of(call.dtype);
    const Stretch all{static_cast<Byte*>(data), bytes};
    const bool sends = transport_->right() != call.root;
    const bool receives = rank() != call.root;
    flow(call, sends ? std::vector<Stretch>{all} : std::vector<Stretch>{},
         receives ? std::vector<Stretch>{all} : std::vector<Stretch>{}, receives ? 0 : bytes,
         nullptr);
  }

  void all_gather(const Call& call, const void* in, void* out) override {
    const std::size_t bytes = static_cast<std::size_t>(call.count) * size_of(call.dtype);
    auto* all = static_cast<Byte*>(out);
    const auto part = [&](int of) { return all + static_cast<std::size_t>(of) * bytes; };
    if (bytes > 0 && part(rank()) != in) {
      std::memmove(part(rank()), in, bytes);
    }
    gather_parts(call, all, bytes);
  }

  void reduce_scatter(const Call& call, const void* in, void* out) override {
    const Reduction reduction(call.dtype, call.op, size());
    const std::size_t part = static_cast<std::size_t>(call.count / size()) * size_of(call.dtype);
    std::vector<Byte> sums(static_cast<const Byte*>(in),
                           static_cast<const Byte*>(in) + part * static_cast<std::size_t>(size()));
    const auto stretch = [&](int step) {  // one place on, so that a rank's own part comes last
      return Stretch{sums.data() + static_cast<std::size_t>(wrapped(rank() - 1 - step)) * part,
                     part};
    };
    std::vector<Stretch> outgoing, incoming;
    for (int step = 0; step < size() - 1; ++step) {
      outgoing.push_back(stretch(step));
      incoming.push_back(stretch(step + 1));
      incoming.back().reduced = true;
      incoming.back().last = step == size() - 2;
    }
    flow(call, outgoing, incoming, part, &reduction);
    if (part > 0) {
      std::memcpy(out, sums.data() + static_cast<std::size_t>(rank()) * part, part);
    }
  }

  void barrier(const Call& call) override {
    std::vector<Byte> parts(static_cast<std::size_t>(size()));
    gather_parts(call, parts.data(), 1);
  }

 private:
  int wrapped(int index) const { return (index % size() + size()) % size(); }

  // Each rank's own part of `all` is filled; all others arrive.
  void gather_parts(const Call& call, Byte* all, std::size_t bytes) {
    std::vector<Stretch> out, in;
    for (int step = 0; step < size() - 1; ++step) {
      out.push_back({all + static_cast<std::size_t>(wrapped(rank() - step)) * bytes, bytes});
      in.push_back({all + static_cast<std::size_t>(wrapped(rank() - step - 1)) * bytes, bytes});
    }
    flow(call, out, in, bytes, nullptr);
  }

  void small_all_reduce(const Call& call, Byte* data, const Reduction& reduction) {
    const std::size_t element = size_of(call.dtype);
    const std::size_t bytes = static_cast<std::size_t>(call.count) * element;
    std::vector<Byte> all(bytes * static_cast<std::size_t>(size()));
    if (bytes > 0) {
      std::memcpy(all.data() + static_cast<std::size_t>(rank()) * bytes, data, bytes);
    }
    gather_parts(call, all.data(), bytes);
    for (int chunk = 0; chunk < size(); ++chunk) {
      const std::int64_t begin = chunk_begin(call.count, chunk, size());
      const std::int64_t n = chunk_begin(call.count, chunk + 1, size()) - begin;
      if (n == 0) {
        continue;
      }
      Byte* result = data + static_cast<std::size_t>(begin) * element;
      const auto part = [&](int of) {
        return all.data() + static_cast<std::size_t>(wrapped(of)) * bytes +
               static_cast<std::size_t>(begin) * element;
      };
      std::memcpy(result, part(chunk), static_cast<std::size_t>(n) * element);
      for (int k = 1; k < size(); ++k) {
        reduction.combine(result, result, part(chunk + k), n);
      }
      reduction.finish(result, n);
    }
  }

  // A position in a list of stretches.
  struct Cursor {
    const std::vector<Stretch>& stretches;
    std::size_t index = 0, offset = 0;

    bool at_end() {
      while (index < stretches.size() && offset == stretches[index].bytes) {
        ++index;
        offset = 0;
      }
      return index == stretches.size();
    }
    const Stretch& stretch() const { return stretches[index]; }
    Byte* data() const { return stretch().data + offset; }
    std::size_t left() const { return stretch().bytes - offset; }
  };

  // Sends `out` and receives `in`, each behind a header that says what this rank is about to do. Of
  // `out`, `ready` bytes may go at once, the rest as `in` comes.
  void flow(const Call& call, const std::vector<Stretch>& out, const std::vector<Stretch>& in,
            std::size_t ready, const Reduction* reduction) {
    if (size() == 1) {
      return;
    }
    begin(call);
    const std::size_t joined = out.empty() ? 0 : std::min(ready, kJoinedBytes);
    std::vector<Byte> header_and_data(sizeof call + joined);
    std::memcpy(header_and_data.data(), &call, sizeof call);
    if (joined > 0) {
      std::memcpy(header_and_data.data() + sizeof call, out.front().data, joined);
    }
    const std::vector<Stretch> opening{{header_and_data.data(), header_and_data.size()}};
    Cursor sending_first{opening};
    Cursor sending{out, 0, joined};
    ready -= joined;
    Cursor receiving{in};
    Inbox inbox(sizeof call);
    for (const Stretch& stretch : in) {
      inbox.to_come += stretch.bytes;
    }
    bool welcomed = false;  // by the left neighbour's header
    int yields = 0;
    auto last_moved = std::chrono::steady_clock::now();
    for (;;) {
      std::size_t moved = 0;
      bool may_send = true;
      if (!sending_first.at_end()) {
        moved += send(sending_first, sending_first.left());
      } else if (!sending.at_end() && ready > 0) {
        const std::size_t sent = send(sending, ready);
        ready -= sent;
        moved += sent;
      } else {
        may_send = false;
      }
      if (!welcomed) {
        moved += fill(inbox, sizeof call + kJoinedBytes);
        if (inbox.held >= sizeof call) {
          Call theirs;
          std::memcpy(&theirs, piece_.data(), sizeof theirs);
          drop(inbox, sizeof theirs);
          check_agreement(call, theirs);
          welcomed = true;
        }
      }
      if (welcomed && !receiving.at_end()) {
        ready += receive(receiving, inbox, moved, size_of(call.dtype), reduction);
      }
      const bool may_receive = !welcomed || !receiving.at_end();
      if (sending_first.at_end() && sending.at_end() && !may_receive) {
        return;
      }
      if (moved > 0) {
        last_moved = {};
        yields = 0;
      } else if (yields < kYields) {
        ++yields;
        std::this_thread::yield();
      } else {
        last_moved = wait(call, welcomed, may_send, may_receive, last_moved);
      }
    }
  }

  // What came in and is not in its place yet lies at the front of piece_.
  struct Inbox {
    explicit Inbox(std::size_t coming) : to_come(coming) {}
    std::size_t held = 0;
    std::size_t to_come;  // of this collective
  };

  std::size_t send(Cursor& from, std::size_t at_most) {
    const std::size_t sent = transport_->try_send(from.data(), std::min(from.left(), at_most));
    from.offset += sent;
    return sent;
  }

  // Up to `at_most` bytes held, if so many have come.
  std::size_t fill(Inbox& inbox, std::size_t at_most) {
    const std::size_t room = std::min(at_most, kPieceBytes);
    if (inbox.held >= room || inbox.to_come == 0) {
      return 0;
    }
    const std::size_t got = transport_->try_receive(piece_.data() + inbox.held,
                                                    std::min(room - inbox.held, inbox.to_come));
    inbox.held += got;
    inbox.to_come -= got;
    return got;
  }
  void drop(Inbox& inbox, std::size_t bytes) {
    inbox.held -= bytes;
    std::memmove(piece_.data(), piece_.data() + bytes, inbox.held);
  }

  // Returns the bytes that reached their place; adds to `moved` those that came from the transport.
  std::size_t receive(Cursor& to, Inbox& inbox, std::size_t& moved, std::size_t element,
                      const Reduction* reduction) {
    const bool reduced = to.stretch().reduced;
    if (!reduced && inbox.held == 0 && to.left() > kJoinedBytes) {
      const std::size_t got = transport_->try_receive(to.data(), to.left());
      inbox.to_come -= got;
      to.offset += got;
      moved += got;
      return got;
    }
    moved += fill(inbox, std::max(reduced ? to.left() : 0, kJoinedBytes));
    std::size_t placed = std::min(inbox.held, to.left());
    if (reduced) {  // only whole elements can be added
      placed -= placed % element;
      const auto n = static_cast<std::int64_t>(placed / element);
      reduction->combine(to.data(), piece_.data(), to.data(), n);
      if (to.stretch().last) {
        reduction->finish(to.data(), n);
      }
    } else {
      std::memcpy(to.data(), piece_.data(), placed);
    }
    drop(inbox, placed);
    to.offset += placed;
    return placed;
  }

  void check_agreement(const Call& call, const Call& theirs) const {
    const int left = transport_->left();
    RINGGRAD_CHECK(theirs == call, left < rank() ? disagreement(left, theirs, rank(), call)
                                                 : disagreement(rank(), call, left, theirs));
  }

  // Nothing moves: waits a little. Returns since when. Where nobody knows who lags, a left
  // neighbour that has begun the collective (`welcomed`) waits for its own left one, which is to be
  // named first.
  std::chrono::steady_clock::time_point wait(const Call& call, bool welcomed, bool may_send,
                                             bool may_receive,
                                             std::chrono::steady_clock::time_point since) {
    failure().check();
    const auto now = std::chrono::steady_clock::now();
    since = since == decltype(since){} ? now : since;
    const auto patience = welcomed ? timeout() + std::min(timeout(), kGrace) : timeout();
    if (now - since >= timeout()) {
      const std::string late = lagging(call);
      RINGGRAD_CHECK(late.empty(), waited(call, timeout(), late));
    }
    RINGGRAD_CHECK(
        now - since < patience,
        waited(call, patience,
               may_receive ? concat("rank ", transport_->left(), ", which sent nothing")
                           : concat("rank ", transport_->right(), ", which takes nothing")));
    transport_->wait(may_send, may_receive, kTick);
    return since;
  }

  std::unique_ptr<Transport> transport_;
  std::vector<Byte> piece_ = std::vector<Byte>(kPieceBytes);
};

}  // namespace

std::unique_ptr<Collectives> make_ring_collectives(std::unique_ptr<Transport> transport,
                                                   std::shared_ptr<Failure> failure,
                                                   std::chrono::milliseconds timeout) {
  return std::make_unique<RingCollectives>(std::move(transport), std::move(failure), timeout);
}

}  // namespace ringgrad::comm
