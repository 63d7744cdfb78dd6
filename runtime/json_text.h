// JSON as text.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace ringgrad {

// Folders' names need not be UTF-8, JSON must be: bytes that are not are replaced.
template <class Json>
std::string json_text(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace ringgrad
