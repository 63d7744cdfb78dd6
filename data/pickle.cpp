#include "data/pickle.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <utility>

#include "runtime/error.h"

namespace ringgrad::data {
namespace {

using Kind = PickleValue::Kind;

class Reader {
 public:
  explicit Reader(const std::string& bytes) : bytes_(bytes) {}

  Pickle run() {
    for (;;) {
      const std::size_t position = at_;
      const auto opcode = static_cast<unsigned char>(take(1)[0]);
      if (opcode == '.') {
        pickle_.root = pop();
        return std::move(pickle_);
      }
      RINGGRAD_CHECK(step(opcode), "pickle: opcode ", static_cast<int>(opcode), " at byte ",
                     position, " is not one that data needs");
    }
  }

 private:
  PickleValue* make(Kind kind) {
    PickleValue& value = pickle_.values.emplace_back();
    value.kind = kind;
    return &value;
  }
  std::string take(std::size_t count) {
    RINGGRAD_CHECK(count <= bytes_.size() - at_, "pickle: the stream ends at byte ", bytes_.size(),
                   ", within an opcode");
    at_ += count;
    return bytes_.substr(at_ - count, count);
  }
  std::string line() {
    const std::size_t end = bytes_.find('\n', at_);
    RINGGRAD_CHECK(end != std::string::npos, "pickle: the stream ends within a line");
    std::string text = bytes_.substr(at_, end - at_);
    at_ = end + 1;
    return text;
  }
  std::uint64_t little_endian(std::size_t count) {
    const std::string raw = take(count);
    std::uint64_t value = 0;
    for (std::size_t i = count; i-- > 0;) {
      value = value << 8 | static_cast<unsigned char>(raw[i]);
    }
    return value;
  }

  PickleValue* pop() {
    RINGGRAD_CHECK(!stack_.empty() && stack_.back() != nullptr,
                   "pickle: the stack is empty at byte ", at_);
    PickleValue* value = stack_.back();
    stack_.pop_back();
    return value;
  }
  PickleValue* top() {
    RINGGRAD_CHECK(!stack_.empty() && stack_.back() != nullptr,
                   "pickle: the stack is empty at byte ", at_);
    return stack_.back();
  }
  // What lies above the last mark, which goes too.
  std::vector<const PickleValue*> pop_to_mark() {
    std::size_t mark = stack_.size();
    while (mark > 0 && stack_[mark - 1] != nullptr) {
      --mark;
    }
    RINGGRAD_CHECK(mark > 0, "pickle: no mark on the stack at byte ", at_);
    std::vector<const PickleValue*> items(stack_.begin() + static_cast<std::ptrdiff_t>(mark),
                                          stack_.end());
    stack_.resize(mark - 1);
    return items;
  }

  void push(PickleValue* value) { stack_.push_back(value); }
  void push_integer(std::int64_t integer, Kind kind = Kind::integer) {
    PickleValue* value = make(kind);
    value->integer = integer;
    push(value);
  }
  void push_text(std::string text, Kind kind = Kind::text) {
    PickleValue* value = make(kind);
    value->text = std::move(text);
    push(value);
  }
  void push_real(double real) {
    PickleValue* value = make(Kind::real);
    value->real = real;
    push(value);
  }
  void push_items(Kind kind, std::vector<const PickleValue*> items) {
    PickleValue* value = make(kind);
    value->items = std::move(items);
    push(value);
  }
  void push_tuple_of(std::size_t count) {
    std::vector<const PickleValue*> items(count);
    for (std::size_t i = count; i-- > 0;) {
      items[i] = pop();
    }
    push_items(Kind::tuple, std::move(items));
  }
  void push_object() {
    const PickleValue* arguments = pop();
    const PickleValue* callable = pop();
    push_items(Kind::object, {callable, arguments});
  }
  void append(std::vector<const PickleValue*> items) {
    PickleValue& target = *top();
    target.items.insert(target.items.end(), items.begin(), items.end());
  }
  void get(std::uint64_t slot) {
    const auto found = memo_.find(slot);
    RINGGRAD_CHECK(found != memo_.end(), "pickle: memo ", slot, " was never stored");
    push(found->second);
  }
  static std::string without_quotes(const std::string& text) {
    return text.size() >= 2 ? text.substr(1, text.size() - 2) : text;
  }

  bool step(unsigned char opcode) {
    switch (opcode) {
      case 0x80:  // PROTO
        take(1);
        return true;
      case 0x95:  // FRAME
        take(8);
        return true;
      case '(':
        stack_.push_back(nullptr);
        return true;
      case '0':
        pop();
        return true;
      default:
        return push_constant(opcode) || push_container(opcode) || use_memo(opcode) ||
               push_construction(opcode);
    }
  }

  bool push_constant(unsigned char opcode) {
    switch (opcode) {
      case 'N':
        push(make(Kind::none));
        return true;
      case 0x88:
      case 0x89:
        push_integer(opcode == 0x88 ? 1 : 0, Kind::boolean);
        return true;
      case 'K':
        push_integer(static_cast<std::int64_t>(little_endian(1)));
        return true;
      case 'M':
        push_integer(static_cast<std::int64_t>(little_endian(2)));
        return true;
      case 'J':
        push_integer(static_cast<std::int32_t>(little_endian(4)));
        return true;
      case 0x8a: {  // LONG1
        const std::size_t size = little_endian(1);
        RINGGRAD_CHECK(size <= 8, "pickle: an integer of ", size, " bytes");
        const std::uint64_t value = little_endian(size);
        const int shift = static_cast<int>(64 - 8 * size);
        push_integer(size == 0 ? 0 : static_cast<std::int64_t>(value << shift) >> shift);
        return true;
      }
      case 'I': {
        const std::string text = line();
        if (text == "00" || text == "01") {
          push_integer(text == "01" ? 1 : 0, Kind::boolean);
        } else {
          push_integer(std::strtoll(text.c_str(), nullptr, 10));
        }
        return true;
      }
      case 'L':
        push_integer(std::strtoll(line().c_str(), nullptr, 10));
        return true;
      case 'F':
        push_real(std::strtod(line().c_str(), nullptr));
        return true;
      case 'G': {  // big-endian double
        const std::string raw = take(8);
        std::uint64_t bits = 0;
        for (const char c : raw) {
          bits = bits << 8 | static_cast<unsigned char>(c);
        }
        double value = 0;
        std::memcpy(&value, &bits, sizeof value);
        push_real(value);
        return true;
      }
      case 'U':
      case 'C':
      case 0x8c:
        push_text(take(little_endian(1)));
        return true;
      case 'T':
      case 'B':
      case 'X':
        push_text(take(little_endian(4)));
        return true;
      case 0x8d:
      case 0x8e:
        push_text(take(little_endian(8)));
        return true;
      case 'S':
        push_text(without_quotes(line()));
        return true;
      case 'V':
        push_text(line());
        return true;
      default:
        return false;
    }
  }

  bool push_container(unsigned char opcode) {
    switch (opcode) {
      case '}':
        push(make(Kind::dictionary));
        return true;
      case ']':
        push(make(Kind::list));
        return true;
      case ')':
        push(make(Kind::tuple));
        return true;
      case 't':
        push_items(Kind::tuple, pop_to_mark());
        return true;
      case 'l':
        push_items(Kind::list, pop_to_mark());
        return true;
      case 'd':
        push_items(Kind::dictionary, pop_to_mark());
        return true;
      case 0x85:
      case 0x86:
      case 0x87:
        push_tuple_of(std::size_t{opcode} - 0x84);
        return true;
      case 'a':
        append({pop()});
        return true;
      case 's': {
        const PickleValue* value = pop();
        const PickleValue* key = pop();
        append({key, value});
        return true;
      }
      case 'e':
      case 'u':
        append(pop_to_mark());
        return true;
      default:
        return false;
    }
  }

  bool use_memo(unsigned char opcode) {
    switch (opcode) {
      case 'q':
        memo_[little_endian(1)] = top();
        return true;
      case 'r':
        memo_[little_endian(4)] = top();
        return true;
      case 'p':
        memo_[std::strtoull(line().c_str(), nullptr, 10)] = top();
        return true;
      case 0x94: {
        const std::uint64_t slot = memo_.size();
        memo_[slot] = top();
        return true;
      }
      case 'h':
        get(little_endian(1));
        return true;
      case 'j':
        get(little_endian(4));
        return true;
      case 'g':
        get(std::strtoull(line().c_str(), nullptr, 10));
        return true;
      default:
        return false;
    }
  }

  bool push_construction(unsigned char opcode) {
    switch (opcode) {
      case 'c': {
        const std::string module = line();
        push_text(module + "." + line(), Kind::global);
        return true;
      }
      case 0x93: {  // STACK_GLOBAL
        const PickleValue* name = pop();
        const PickleValue* module = pop();
        push_text(module->text + "." + name->text, Kind::global);
        return true;
      }
      case 'R':
      case 0x81:  // NEWOBJ
        push_object();
        return true;
      case 'b': {
        const PickleValue* state = pop();
        top()->state = state;
        return true;
      }
      case 'Q':
        push_items(Kind::persistent, {pop()});
        return true;
      default:
        return false;
    }
  }

  const std::string& bytes_;
  std::size_t at_ = 0;
  Pickle pickle_;
  std::vector<PickleValue*> stack_;  // a mark is a null
  std::map<std::uint64_t, PickleValue*> memo_;
};

}  // namespace

const PickleValue* PickleValue::find(const std::string& key) const {
  if (kind != Kind::dictionary) {
    return nullptr;
  }
  for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
    if (items[i]->kind == Kind::text && items[i]->text == key) {
      return items[i + 1];
    }
  }
  return nullptr;
}

Pickle read_pickle(const std::string& bytes) {
  return Reader(bytes).run();
}

}  // namespace ringgrad::data
