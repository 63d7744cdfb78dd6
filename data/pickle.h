// A reader of Python pickles that can call nothing: objects that a pickle would construct are kept
// as a record of what it asked for (a class, its arguments, its state), and the reader of the
// format looks into that. Source: Python's pickletools documents the opcodes.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace ringgrad::data {

struct PickleValue {
  enum class Kind {
    none,
    boolean,     // integer
    integer,     // integer
    real,        // real
    text,        // text: str or bytes
    list,        // items
    tuple,       // items
    dictionary,  // items: key, value, key, value, …
    global,      // text: "module.name"
    object,      // items: callable, arguments; state may follow
    persistent,  // items: the id
  };
  Kind kind = Kind::none;
  std::int64_t integer = 0;
  double real = 0;
  std::string text;
  std::vector<const PickleValue*> items;
  const PickleValue* state = nullptr;  // of an object, as BUILD gave it

  // The value of a dictionary's text key, or null.
  const PickleValue* find(const std::string& key) const;
};

// All values of one pickle. They refer to each other, in circles if the pickle says so, and go
// together.
struct Pickle {
  std::deque<PickleValue> values;
  const PickleValue* root = nullptr;
};

// Error with position and reason for an unknown opcode, a broken stack, or a stream that ends
// early.
Pickle read_pickle(const std::string& bytes);

}  // namespace ringgrad::data
