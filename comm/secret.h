// The secret that the ranks of a job share, and how both ends of a connection prove that they have
// it without sending it: each answers the other's challenge with an HMAC-SHA256 over it.
#pragma once

#include <filesystem>
#include <string>

#include "comm/socket.h"

namespace ringgrad::comm {

// What the ranks of one user on one host share without anybody's doing: the content of a file that
// this user alone can read, made if it is not there. Error if others could have written or read it.
std::string host_secret(const std::filesystem::path& file);
std::filesystem::path host_secret_file();

// `bytes` random bytes in hexadecimal digits.
std::string random_hex(std::size_t bytes);
// HMAC-SHA256 in hexadecimal digits.
std::string proof_of(const std::string& secret, const std::string& message);
// In constant time.
bool same_proof(const std::string& a, const std::string& b);

// One end of a connection between two ranks: says who it is and proves it. `role` keeps connections
// of one kind from being taken for another.
void prove_rank(const Socket& socket, const std::string& secret, const std::string& role, int rank,
                const Deadline& deadline);
// The other end: the rank that proved itself. Error for a stranger.
int proven_rank(const Socket& socket, const std::string& secret, const std::string& role,
                const Deadline& deadline);

}  // namespace ringgrad::comm
