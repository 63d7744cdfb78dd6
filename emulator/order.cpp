#include "order.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <utility>

#include "cuda_runtime.h"

namespace emulator {
namespace {

struct Setting {
  std::atomic<Order> order{Order::forward};
  std::atomic<std::uint64_t> seed{0};
};

bool parse(const char* text, Setting& setting) {
  if (std::strcmp(text, "forward") == 0) {
    setting.order = Order::forward;
  } else if (std::strcmp(text, "reverse") == 0) {
    setting.order = Order::reverse;
  } else if (std::strcmp(text, "shuffled") == 0) {
    setting.seed = std::random_device()();
    setting.order = Order::shuffled;
    std::fprintf(stderr, "emulator: order shuffled:%llu\n",
                 static_cast<unsigned long long>(setting.seed));
  } else if (std::strncmp(text, "shuffled:", 9) == 0) {
    char* end = nullptr;
    setting.seed = std::strtoull(text + 9, &end, 10);
    setting.order = Order::shuffled;
    return end != text + 9 && *end == '\0';
  } else {
    return false;
  }
  return true;
}

Setting& setting() {
  static Setting the_setting;
  static const bool read = [] {
    const char* wanted = std::getenv("RINGGRAD_EMULATOR_ORDER");
    if (wanted != nullptr && !parse(wanted, the_setting)) {
      std::fprintf(stderr,
                   "emulator: RINGGRAD_EMULATOR_ORDER=%s: expected forward, reverse, shuffled or "
                   "shuffled:SEED\n",
                   wanted);
      std::exit(2);
    }
    return true;
  }();
  (void)read;
  return the_setting;
}

}  // namespace

bool set_order(const char* text) {
  return parse(text, setting());
}

Order order() {
  return setting().order;
}
std::uint64_t order_seed() {
  return setting().seed;
}

void arrange(std::vector<std::uint32_t>& places, std::uint32_t n, Shuffler& shuffler) {
  places.resize(n);
  std::iota(places.begin(), places.end(), 0U);
  if (order() == Order::reverse) {
    std::iota(places.rbegin(), places.rend(), 0U);
  } else if (order() == Order::shuffled) {
    for (std::uint32_t i = n; i > 1; --i) {
      std::swap(places[i - 1], places[shuffler.below(i)]);
    }
  }
}

}  // namespace emulator
