#include "data/fetch.h"

#include <archive.h>
#include <archive_entry.h>
#include <curl/curl.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>

#include "runtime/error.h"
#include "runtime/file.h"

namespace ringgrad::data {
namespace {

namespace fs = std::filesystem;

constexpr int kAttempts = 3;
constexpr long kStallSeconds = 60;

std::int64_t size_or_zero(const fs::path& path) {
  std::error_code missing;
  const auto size = fs::file_size(path, missing);
  return missing ? 0 : static_cast<std::int64_t>(size);
}

// What curl's callbacks work on.
struct Download {
  std::FILE* file;
  std::int64_t have, want;
  bool terminal;
  int shown_percent = -1;
  int write_error = 0;
};

std::size_t on_data(char* data, std::size_t, std::size_t bytes, void* user) {
  auto& download = *static_cast<Download*>(user);
  // A server that sends more than the archive's size is cut off here.
  if (download.have + static_cast<std::int64_t>(bytes) > download.want) {
    return 0;
  }
  if (std::fwrite(data, 1, bytes, download.file) != bytes) {
    download.write_error = errno;
    return 0;
  }
  download.have += static_cast<std::int64_t>(bytes);
  const int percent = static_cast<int>(100 * download.have / download.want);
  if (percent != download.shown_percent && (download.terminal || percent % 10 == 0)) {
    download.shown_percent = percent;
    std::fprintf(stderr, download.terminal ? "\r%3d%% of %lld MiB" : "%3d%% of %lld MiB\n", percent,
                 static_cast<long long>(download.want >> 20));
  }
  return bytes;
}

// Appends what is missing to `part`. Empty, or why the transfer ended early.
std::string transfer(const Archive& archive, const fs::path& part) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(part.c_str(), "ab"),
                                                             std::fclose);
  RINGGRAD_CHECK(file != nullptr, "cannot write ", system_error(part, errno));
  Download download{file.get(), size_or_zero(part), archive.bytes, isatty(STDERR_FILENO) == 1};
  const std::unique_ptr<CURL, void (*)(CURL*)> curl(curl_easy_init(), curl_easy_cleanup);
  RINGGRAD_ASSERT(curl != nullptr);
  char reason[CURL_ERROR_SIZE] = "";
  curl_easy_setopt(curl.get(), CURLOPT_URL, archive.url.c_str());
  curl_easy_setopt(curl.get(), CURLOPT_FOLLOWLOCATION, 1L);
  curl_easy_setopt(curl.get(), CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl.get(), CURLOPT_FAILONERROR, 1L);
  curl_easy_setopt(curl.get(), CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl.get(), CURLOPT_CONNECTTIMEOUT, 30L);
  curl_easy_setopt(curl.get(), CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(curl.get(), CURLOPT_LOW_SPEED_TIME, kStallSeconds);
  curl_easy_setopt(curl.get(), CURLOPT_RESUME_FROM_LARGE, static_cast<curl_off_t>(download.have));
  curl_easy_setopt(curl.get(), CURLOPT_ERRORBUFFER, reason);
  curl_easy_setopt(curl.get(), CURLOPT_WRITEFUNCTION, on_data);
  curl_easy_setopt(curl.get(), CURLOPT_WRITEDATA, &download);
  const CURLcode code = curl_easy_perform(curl.get());
  if (download.terminal) {
    std::fprintf(stderr, "\r\033[K");
  }
  if (std::fflush(file.get()) != 0 && download.write_error == 0) {
    download.write_error = errno;
  }
  RINGGRAD_CHECK(download.write_error == 0, "cannot write ",
                 system_error(part, download.write_error));
  if (code == CURLE_RANGE_ERROR) {
    fs::resize_file(part, 0);  // a server that cannot continue: from the start
  }
  if (code != CURLE_OK) {
    return reason[0] != '\0' ? reason : curl_easy_strerror(code);
  }
  return download.have == archive.bytes
             ? ""
             : concat("the server sent ", download.have, " of ", archive.bytes, " bytes");
}

std::string md5_of(const fs::path& path) {
  const std::string bytes = read_file(path);
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  RINGGRAD_CHECK(EVP_Digest(bytes.data(), bytes.size(), digest, &length, EVP_md5(), nullptr) == 1,
                 "this machine's libcrypto offers no MD5");
  std::string text;
  for (unsigned i = 0; i < length; ++i) {
    char hex[3];
    std::snprintf(hex, sizeof hex, "%02x", digest[i]);
    text += hex;
  }
  return text;
}

// Unpacks into `folder`; names that would lead out of it are refused.
void unpack(const fs::path& path, const fs::path& folder) {
  const std::unique_ptr<archive, int (*)(archive*)> reader(archive_read_new(), archive_read_free);
  const std::unique_ptr<archive, int (*)(archive*)> writer(archive_write_disk_new(),
                                                           archive_write_free);
  archive_read_support_format_tar(reader.get());
  archive_read_support_filter_gzip(reader.get());
  archive_write_disk_set_options(writer.get(), ARCHIVE_EXTRACT_SECURE_NODOTDOT |
                                                   ARCHIVE_EXTRACT_SECURE_SYMLINKS |
                                                   ARCHIVE_EXTRACT_TIME);
  // What is read may come with a warning; what is written must not: a full disk is one.
  const auto check = [&](int code, archive* side) {
    RINGGRAD_CHECK(code >= (side == writer.get() ? ARCHIVE_OK : ARCHIVE_WARN), "cannot unpack ",
                   path.string(), ": ", archive_error_string(side));
  };
  check(archive_read_open_filename(reader.get(), path.c_str(), 1 << 16), reader.get());
  for (;;) {
    archive_entry* entry = nullptr;
    const int code = archive_read_next_header(reader.get(), &entry);
    if (code == ARCHIVE_EOF) {
      break;
    }
    check(code, reader.get());
    const std::string name = archive_entry_pathname(entry);
    RINGGRAD_CHECK(!fs::path(name).is_absolute(), path.string(), ": holds the absolute name ",
                   name);
    archive_entry_set_pathname(entry, (folder / name).c_str());
    check(archive_write_header(writer.get(), entry), writer.get());
    const void* block = nullptr;
    std::size_t size = 0;
    la_int64_t offset = 0;
    for (;;) {
      const int got = archive_read_data_block(reader.get(), &block, &size, &offset);
      if (got == ARCHIVE_EOF) {
        break;
      }
      check(got, reader.get());
      check(static_cast<int>(archive_write_data_block(writer.get(), block, size, offset)),
            writer.get());
    }
    check(archive_write_finish_entry(writer.get()), writer.get());
  }
  check(archive_write_close(writer.get()), writer.get());
}

// Keeps other processes (the ranks of a job that all download) from fetching into the same folder
// for as long as it lives; waits for one that does.
class FolderLock {
 public:
  explicit FolderLock(const fs::path& folder) : file_(folder / ".fetch.lock") {
    while (!take()) {
      close(descriptor_);
    }
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock() {
    unlink(file_.c_str());
    close(descriptor_);
  }

 private:
  // False if the file was removed meanwhile by who had the lock before.
  bool take() {
    descriptor_ = open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    RINGGRAD_CHECK(descriptor_ >= 0, "cannot write ", system_error(file_, errno));
    if (flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
      std::fprintf(stderr, "waiting for another process that downloads there: %s\n", file_.c_str());
      // On a network file system a file that was removed is a stale handle.
      RINGGRAD_CHECK(flock(descriptor_, LOCK_EX) == 0 || errno == ESTALE, "cannot lock ",
                     system_error(file_, errno));
    }
    struct stat locked {};
    struct stat present {};
    return fstat(descriptor_, &locked) == 0 && stat(file_.c_str(), &present) == 0 &&
           locked.st_ino == present.st_ino;
  }

  fs::path file_;
  int descriptor_ = -1;
};

bool complete(const Archive& archive, const fs::path& folder) {
  return std::all_of(archive.members.begin(), archive.members.end(),
                     [&](const std::string& member) { return fs::exists(folder / member); });
}

}  // namespace

Archive known_archive(const std::string& name) {
  if (name == "cifar10") {
    return {"https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
            "cifar-10-binary.tar.gz",
            170052171,
            "c32a1d4ab5d03f1284b67883e8d87530",
            {"cifar-10-batches-bin/data_batch_1.bin", "cifar-10-batches-bin/data_batch_2.bin",
             "cifar-10-batches-bin/data_batch_3.bin", "cifar-10-batches-bin/data_batch_4.bin",
             "cifar-10-batches-bin/data_batch_5.bin", "cifar-10-batches-bin/test_batch.bin"}};
  }
  if (name == "cifar100") {
    return {"https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
            "cifar-100-binary.tar.gz",
            168513733,
            "03b5dce01913d631647c71ecec9e9cb8",
            {"cifar-100-binary/train.bin", "cifar-100-binary/test.bin"}};
  }
  throw Error(concat("nothing to fetch is called '", name, "'; expected cifar10 or cifar100"));
}

void fetch(const Archive& archive, const fs::path& folder) {
  const auto nothing_to_do = [&] {
    const bool there = complete(archive, folder);
    if (there) {
      std::fprintf(stderr, "%s is there already\n", folder.c_str());
    }
    return there;
  };
  if (nothing_to_do()) {
    return;
  }
  std::error_code error;
  fs::create_directories(folder, error);
  RINGGRAD_CHECK(!error, "cannot make folder ", folder.string(), ": ", error.message());
  const FolderLock lock(folder);
  if (nothing_to_do()) {
    return;
  }
  const fs::path part = folder / (archive.file_name + ".part");
  if (size_or_zero(part) > archive.bytes) {
    fs::remove(part);
  }
  std::string reason;
  for (int attempt = 0; attempt < kAttempts && size_or_zero(part) < archive.bytes; ++attempt) {
    std::fprintf(stderr, "%s %s\n", size_or_zero(part) > 0 ? "continuing" : "downloading",
                 archive.url.c_str());
    reason = transfer(archive, part);
  }
  RINGGRAD_CHECK(size_or_zero(part) == archive.bytes, "cannot download ", archive.url, ": ", reason,
                 "; ", size_or_zero(part), " bytes are kept in ", part.string(),
                 ", and the same command continues");
  const std::string md5 = md5_of(part);
  if (md5 != archive.md5) {
    fs::remove(part);
    throw Error(concat(archive.url, ": the download's checksum is ", md5, ", expected ",
                       archive.md5, "; it was removed"));
  }
  // Unpacked beside, then moved, so that a full disk or a kill leaves no half of a data set behind.
  const fs::path temporary = folder / (archive.file_name + ".unpacking");
  try {
    fs::remove_all(temporary);
    fs::create_directories(temporary);
    unpack(part, temporary);
    RINGGRAD_CHECK(complete(archive, temporary), archive.url,
                   ": the archive does not hold what it should");
    for (const fs::directory_entry& entry : fs::directory_iterator(temporary)) {
      const fs::path target = folder / entry.path().filename();
      fs::remove_all(target);
      fs::rename(entry.path(), target);
    }
  } catch (...) {
    fs::remove_all(temporary, error);
    throw;
  }
  fs::remove_all(temporary, error);
  fs::remove(part, error);
  std::fprintf(stderr, "%s is complete\n", folder.c_str());
}

}  // namespace ringgrad::data
