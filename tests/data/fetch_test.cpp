#include "data/fetch.h"

#include <archive.h>
#include <archive_entry.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <sys/resource.h>

#include <csignal>
#include <memory>
#include <thread>

#include "runtime/file.h"
#include "tests/support/expect_error.h"
#include "tests/support/http_server.h"
#include "tests/support/random_data.h"
#include "tests/support/temporary_folder.h"

namespace ringgrad::test {
namespace {

// While it lives, no file of this process can grow beyond `bytes`: what a full disk looks like.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit low{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &low);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;
  ~FileSizeLimit() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

std::string incompressible(std::size_t bytes) {
  std::string content;
  RandomStream random(1, 2);
  while (content.size() < bytes) {
    content += static_cast<char>(random.next_word());
  }
  return content;
}

// A tar.gz with one member.
std::string tar_gz(const std::string& member, const std::string& content) {
  std::string out(content.size() + 65536, '\0');
  std::size_t used = 0;
  archive* a = archive_write_new();
  archive_write_add_filter_gzip(a);
  archive_write_set_format_ustar(a);
  archive_write_open_memory(a, out.data(), out.size(), &used);
  archive_entry* entry = archive_entry_new();
  archive_entry_set_pathname(entry, member.c_str());
  archive_entry_set_size(entry, static_cast<la_int64_t>(content.size()));
  archive_entry_set_filetype(entry, AE_IFREG);
  archive_entry_set_perm(entry, 0644);
  archive_write_header(a, entry);
  archive_write_data(a, content.data(), content.size());
  archive_entry_free(entry);
  archive_write_close(a);
  archive_write_free(a);
  out.resize(used);
  return out;
}

std::string md5_of(const std::string& bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  EVP_Digest(bytes.data(), bytes.size(), digest, &length, EVP_md5(), nullptr);
  std::string text;
  for (unsigned i = 0; i < length; ++i) {
    constexpr char kHex[] = "0123456789abcdef";
    text += kHex[digest[i] >> 4];
    text += kHex[digest[i] & 15];
  }
  return text;
}

class FetchTest : public testing::Test {
 protected:
  data::Archive archive_at(const HttpServer& server) const {
    return {server.url(),
            "set.tar.gz",
            static_cast<std::int64_t>(content_.size()),
            md5_of(content_),
            {"set/data.bin"}};
  }
  std::string content_ = tar_gz("set/data.bin", incompressible(300000));
  TemporaryFolder folder_;
};

TEST_F(FetchTest, DownloadsVerifiesUnpacksAndLeavesNothingElse) {
  const HttpServer server(content_);
  data::fetch(archive_at(server), folder_.path());
  EXPECT_EQ(std::filesystem::file_size(folder_ / "set/data.bin"), 300000U);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 1);
  data::fetch(archive_at(server), folder_.path());
  EXPECT_EQ(server.requested_from().size(), 1U) << "what is there is not fetched again";
}

TEST_F(FetchTest, SeveralAtOnceDownloadOnce) {
  const HttpServer server(content_);
  std::vector<std::thread> ranks;
  for (int i = 0; i < 3; ++i) {
    ranks.emplace_back([&] { data::fetch(archive_at(server), folder_.path()); });
  }
  for (std::thread& rank : ranks) {
    rank.join();
  }
  EXPECT_EQ(server.requested_from().size(), 1U);
  EXPECT_EQ(std::filesystem::file_size(folder_ / "set/data.bin"), 300000U);
}

TEST_F(FetchTest, ContinuesWhereAConnectionWasCut) {
  const HttpServer server(content_, 2, 100000);
  data::fetch(archive_at(server), folder_.path());
  EXPECT_EQ(server.requested_from(), (std::vector<std::size_t>{0, 100000, 200000}));
  EXPECT_EQ(std::filesystem::file_size(folder_ / "set/data.bin"), 300000U);
}

TEST_F(FetchTest, KeepsWhatItHasForTheNextCall) {
  {
    const HttpServer server(content_, 100, 50000);
    const std::string error = error_of([&] { data::fetch(archive_at(server), folder_.path()); });
    EXPECT_TRUE(contains(error, "150000 bytes are kept in"));
    EXPECT_TRUE(contains(error, "set.tar.gz.part"));
  }
  const HttpServer server(content_);
  data::fetch(archive_at(server), folder_.path());
  EXPECT_EQ(server.requested_from(), std::vector<std::size_t>{150000});
}

TEST_F(FetchTest, AWrongChecksumIsNamedAndTheFileRemoved) {
  std::string damaged = content_;
  damaged[1000] = static_cast<char>(damaged[1000] ^ 1);
  const HttpServer server(damaged);
  EXPECT_TRUE(
      contains(error_of([&] { data::fetch(archive_at(server), folder_.path()); }), "checksum is"));
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(FetchTest, AFullDiskIsNamedAndLeavesNoHalfDataSet) {
  const HttpServer server(content_);
  const FileSizeLimit limit(200000);
  const std::string error = error_of([&] { data::fetch(archive_at(server), folder_.path()); });
  EXPECT_TRUE(contains(error, "cannot write"));
  EXPECT_TRUE(contains(error, "File too large"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "set"));
}

TEST_F(FetchTest, ADiskThatIsFullWhenUnpackingIsNamedAndLeavesNoHalfDataSet) {
  content_ = tar_gz("set/data.bin", std::string(1000000, 'x'));
  const HttpServer server(content_);
  const FileSizeLimit limit(200000);
  EXPECT_TRUE(contains(error_of([&] { data::fetch(archive_at(server), folder_.path()); }),
                       "cannot unpack"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "set"));
}

TEST_F(FetchTest, NamesThatLeadOutOfTheFolderAreRefused) {
  content_ = tar_gz("../outside.bin", incompressible(1000));
  const HttpServer server(content_);
  EXPECT_TRUE(contains(error_of([&] { data::fetch(archive_at(server), folder_ / "in"); }),
                       "cannot unpack"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "outside.bin"));
}

TEST(Fetch, KnowsTheTwoCifars) {
  EXPECT_EQ(data::known_archive("cifar10").bytes, 170052171);
  EXPECT_EQ(data::known_archive("cifar100").md5, "03b5dce01913d631647c71ecec9e9cb8");
  EXPECT_TRUE(
      contains(error_of([] { data::known_archive("mnist"); }), "expected cifar10 or cifar100"));
}

}  // namespace
}  // namespace ringgrad::test
