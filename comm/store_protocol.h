// What both ends of a store's connection share: lines of JSON, and the proofs.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "comm/secret.h"
#include "runtime/json_text.h"

namespace ringgrad::comm {

constexpr std::chrono::seconds kSignOfLife{1};
constexpr std::chrono::seconds kLostAfter{10};

inline std::string rank_proof(const std::string& secret, const std::string& challenge,
                              const nlohmann::json& hello) {
  nlohmann::json signed_part = hello;
  signed_part.erase("proof");
  return proof_of(secret, "rank|" + challenge + "|" + json_text(signed_part));
}

inline std::string store_proof(const std::string& secret, const std::string& challenge) {
  return proof_of(secret, "store|" + challenge);
}

// The text of a field, or nothing if it is missing or something else.
inline std::string text_of(const nlohmann::json& message, const char* field) {
  const auto found = message.find(field);
  return found != message.end() && found->is_string() ? found->get<std::string>() : "";
}

// Takes the first whole line out of `buffer`; nothing if there is none yet.
inline std::optional<std::string> take_line(std::string& buffer) {
  const std::size_t end = buffer.find('\n');
  if (end == std::string::npos) {
    return std::nullopt;
  }
  std::string line = buffer.substr(0, end);
  buffer.erase(0, end + 1);
  return line;
}

}  // namespace ringgrad::comm
