#include "comm/secret.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "runtime/error.h"
#include "runtime/file.h"

namespace ringgrad::comm {
namespace {

constexpr const char* kDigits = "0123456789abcdef";
constexpr std::size_t kNonceBytes = 16;
constexpr std::size_t kNonceDigits = 2 * kNonceBytes;
constexpr std::size_t kProofDigits = 64;
constexpr std::size_t kRankDigits = 8;
constexpr std::size_t kHostSecretDigits = 64;

std::string hex(const unsigned char* bytes, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 15];
  }
  return text;
}

std::string message_of(const std::string& role, const std::string& nonce, const std::string& rank) {
  return role + "|" + nonce + "|" + rank;
}

}  // namespace

std::filesystem::path host_secret_file() {
  return std::filesystem::temp_directory_path() / concat("ringgrad-secret-", geteuid());
}

std::string host_secret(const std::filesystem::path& path) {
  const Socket file(open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  RINGGRAD_CHECK(file.valid(), "cannot open ", system_error(path, errno));
  struct stat status {};
  RINGGRAD_CHECK(fstat(file.descriptor(), &status) == 0 && S_ISREG(status.st_mode) &&
                     status.st_uid == geteuid() && (status.st_mode & 077U) == 0 &&
                     status.st_nlink == 1,
                 path.string(), " is open to other users; remove it, or set RINGGRAD_SECRET");
  // Whoever comes first writes it; the others wait for that.
  RINGGRAD_CHECK(flock(file.descriptor(), LOCK_EX) == 0, "cannot lock ", system_error(path, errno));
  std::string secret(kHostSecretDigits, '\0');
  const ssize_t got = pread(file.descriptor(), secret.data(), secret.size(), 0);
  if (got == static_cast<ssize_t>(secret.size()) &&
      secret.find_first_not_of(kDigits) == std::string::npos) {
    return secret;
  }
  secret = random_hex(kHostSecretDigits / 2);
  RINGGRAD_CHECK(pwrite(file.descriptor(), secret.data(), secret.size(), 0) ==
                     static_cast<ssize_t>(secret.size()),
                 "cannot write ", system_error(path, errno));
  return secret;
}

std::string random_hex(std::size_t bytes) {
  std::vector<unsigned char> random(bytes);
  RINGGRAD_CHECK(RAND_bytes(random.data(), static_cast<int>(bytes)) == 1,
                 "the system gives no random numbers");
  return hex(random.data(), bytes);
}

std::string proof_of(const std::string& secret, const std::string& message) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
       reinterpret_cast<const unsigned char*>(message.data()), message.size(), digest, &length);
  return hex(digest, length);
}

bool same_proof(const std::string& a, const std::string& b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

void prove_rank(const Socket& socket, const std::string& secret, const std::string& role, int rank,
                const Deadline& deadline) {
  std::string nonce(kNonceDigits, '\0');
  receive_all(socket, nonce.data(), nonce.size(), deadline);
  std::string number = std::to_string(rank);
  number.insert(0, kRankDigits - number.size(), '0');
  const std::string answer = number + proof_of(secret, message_of(role, nonce, number));
  send_all(socket, answer.data(), answer.size(), deadline);
}

int proven_rank(const Socket& socket, const std::string& secret, const std::string& role,
                const Deadline& deadline) {
  const std::string nonce = random_hex(kNonceBytes);
  send_all(socket, nonce.data(), nonce.size(), deadline);
  std::string answer(kRankDigits + kProofDigits, '\0');
  receive_all(socket, answer.data(), answer.size(), deadline);
  const std::string number = answer.substr(0, kRankDigits);
  RINGGRAD_CHECK(
      same_proof(answer.substr(kRankDigits), proof_of(secret, message_of(role, nonce, number))),
      "a stranger connected");
  return std::stoi(number);
}

}  // namespace ringgrad::comm
