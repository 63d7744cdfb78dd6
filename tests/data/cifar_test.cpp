#include <gtest/gtest.h>

#include <fstream>

#include "data/dataset.h"
#include "data/pickle.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace ringgrad::test {
namespace {

// Image i: all pixels i, with the planes 1 and 2 one and two higher.
std::string pixels(int i) {
  return std::string(1024, static_cast<char>(i)) + std::string(1024, static_cast<char>(i + 1)) +
         std::string(1024, static_cast<char>(i + 2));
}

std::string little_endian(std::uint32_t value) {
  return {static_cast<char>(value), static_cast<char>(value >> 8), static_cast<char>(value >> 16),
          static_cast<char>(value >> 24)};
}

std::string short_text(const std::string& text) {
  return "U" + std::string(1, static_cast<char>(text.size())) + text;
}

// As Python 2 pickled the batches: protocol 2, a NumPy array by _reconstruct and BUILD.
std::string python_batch(const std::string& labels, const char* label_key,
                         const std::string& dtype = "u1", int columns = 3072) {
  std::string data;
  std::string list = "](";
  for (std::size_t i = 0; i < labels.size(); ++i) {
    data += pixels(static_cast<int>(i));
    list += std::string("K") + labels[i];
  }
  const std::string reconstruct =
      "cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n" + std::string("K\0\x85U\1btR", 8);
  const std::string shape = std::string("K") + static_cast<char>(labels.size()) + "M" +
                            static_cast<char>(columns) + static_cast<char>(columns >> 8) + "\x86";
  const std::string type = "cnumpy\ndtype\n(" + short_text(dtype) + std::string("K\0K\1tR", 6) +
                           std::string("(K\3U\1|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb", 23);
  return "\x80\2}(" + short_text("data") + reconstruct + "(" + std::string("K\1", 2) + shape +
         type + "\x89T" + little_endian(static_cast<std::uint32_t>(data.size())) + data + "tb" +
         short_text(label_key) + list + "eu.";
}

class CifarTest : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& content) {
    std::ofstream(folder_ / name, std::ios::binary) << content;
  }
  std::unique_ptr<data::Dataset> open(const char* kind, data::Split split = data::Split::test) {
    return data::open_dataset(kind + (":" + folder_.path().string()), split);
  }
  TemporaryFolder folder_;
};

TEST_F(CifarTest, ReadsTheBinaryVersion) {
  for (int batch = 1; batch <= 5; ++batch) {
    write(concat("data_batch_", batch, ".bin"), static_cast<char>(batch) + pixels(10 * batch) +
                                                    static_cast<char>(batch) +
                                                    pixels(10 * batch + 5));
  }
  write("batches.meta.txt", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n\n");
  const auto dataset = open("cifar10", data::Split::train);
  ASSERT_EQ(dataset->size(), 10);
  EXPECT_EQ(dataset->classes()[3], "d");
  EXPECT_EQ(dataset->label(5), 3);
  const data::Image image = dataset->image(5);
  EXPECT_EQ(image.at(31, 7)[0], 35);
  EXPECT_EQ(image.at(31, 7)[1], 36);
  EXPECT_EQ(image.at(31, 7)[2], 37);
  EXPECT_TRUE(contains(dataset->source(5), "data_batch_3.bin image 1"));
}

TEST_F(CifarTest, Cifar100TakesTheFineLabel) {
  write("test.bin", std::string("\x03\x63") + pixels(1));
  EXPECT_EQ(open("cifar100")->label(0), 99);
}

TEST_F(CifarTest, RefusesDamagedBatches) {
  write("test_batch.bin", "");
  EXPECT_TRUE(contains(error_of([&] { open("cifar10"); }), "test_batch.bin: 0 bytes"));
  write("test_batch.bin", static_cast<char>(1) + pixels(1) + "x");
  EXPECT_TRUE(contains(error_of([&] { open("cifar10"); }), "test_batch.bin: 3074 bytes"));
  write("test_batch.bin", static_cast<char>(1) + pixels(1) + static_cast<char>(10) + pixels(2));
  EXPECT_TRUE(contains(error_of([&] { open("cifar10"); }),
                       "test_batch.bin: label 10 of image 1 (byte 3073) is not below 10"));
}

TEST_F(CifarTest, MissingFilesAreNamedWithTheWayToGetThem) {
  EXPECT_TRUE(contains(error_of([&] { open("cifar10"); }), "ringgrad fetch cifar10"));
}

TEST_F(CifarTest, ReadsThePythonVersion) {
  write("test_batch", python_batch({4, 7}, "labels"));
  const auto dataset = open("cifar10");
  ASSERT_EQ(dataset->size(), 2);
  EXPECT_EQ(dataset->label(1), 7);
  EXPECT_EQ(dataset->image(1).at(3, 3)[2], 3);
  write("test", python_batch({99}, "fine_labels"));
  EXPECT_EQ(open("cifar100")->label(0), 99);
}

TEST_F(CifarTest, RefusesOddPythonBatches) {
  const auto error_for = [&](const std::string& content) {
    write("test_batch", content);
    return error_of([&] { open("cifar10"); });
  };
  EXPECT_TRUE(contains(error_for(python_batch({4}, "labels", "f4")), "not an array of bytes"));
  EXPECT_TRUE(contains(error_for(python_batch({4}, "labels", "u1", 3071)), "3072 bytes"));
  EXPECT_TRUE(contains(error_for(python_batch({4}, "lab")), "no list of labels"));
  EXPECT_TRUE(contains(error_for(python_batch({11}, "labels")), "label 11 of image 0"));
  EXPECT_TRUE(contains(error_for(python_batch({4}, "labels").substr(0, 500)), "ends"));
  EXPECT_TRUE(contains(error_for("<html>"), "opcode"));
}

// What a hostile pickle would run is only written down.
TEST(Pickle, CallsNothing) {
  const data::Pickle pickle = data::read_pickle("cos\nsystem\n(S'touch /tmp/x'\ntR.");
  EXPECT_EQ(pickle.root->kind, data::PickleValue::Kind::object);
  EXPECT_EQ(pickle.root->items[0]->text, "os.system");
}

TEST(Pickle, NestingAndCirclesHarmNothing) {
  const data::Pickle deep =
      data::read_pickle(std::string(1000000, ']') + std::string(999999, 'a') + ".");
  EXPECT_EQ(deep.root->items.size(), 1U);
  const data::Pickle circle = data::read_pickle("]q\1h\1a.");
  EXPECT_EQ(circle.root->items[0], circle.root);
}

TEST(Pickle, BrokenStreamsAreErrors) {
  for (const char* stream : {"", ".", "R.", "t.", "h\5.", "X\xff\xff\xff\x7f.", "u.", "\x85."}) {
    EXPECT_TRUE(contains(error_of([&] { data::read_pickle(stream); }), "pickle:")) << stream;
  }
}

}  // namespace
}  // namespace ringgrad::test
