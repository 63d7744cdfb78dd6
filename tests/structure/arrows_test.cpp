// The arrows between the folders run one way: every include is read and held against the table.
#include <gtest/gtest.h>
#include "tests/support/paths.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>

namespace ringgrad::test {
namespace {

namespace fs = std::filesystem;

// What the files of a folder may include, beside their own. The longest matching folder counts.
const std::map<std::string, std::set<std::string>> kAllowed = {
    {"runtime", {}},
    {"emulator", {}},
    {"kernels", {"runtime"}},
    {"engine", {"kernels", "runtime"}},
    {"models", {"engine", "kernels", "runtime"}},
    {"data", {"runtime"}},
    {"comm", {"kernels", "runtime"}},
    {"comm/ddp", {"comm", "engine", "kernels", "runtime"}},
    {"training", {"models", "data", "comm", "engine", "kernels", "runtime"}},
    {"apps", {"training", "models", "data", "comm", "engine", "kernels", "runtime"}},
    {"examples", {"training", "models", "data", "comm", "engine", "kernels", "runtime"}},
};

// Where CUDA's headers may be included.
const std::set<std::string> kCudaFolders = {"runtime/cuda", "kernels/cuda", "comm/nccl",
                                            "emulator",     "bench",        "tests"};

bool under(const std::string& path, const std::string& folder) {
  return path.compare(0, folder.size(), folder) == 0 &&
         (path.size() == folder.size() || path[folder.size()] == '/' || path[folder.size()] == '.');
}

std::string top(const std::string& path) {
  return path.substr(0, path.find('/'));
}

const std::set<std::string>* allowed_for(const std::string& path) {
  const std::set<std::string>* allowed = nullptr;
  std::size_t longest = 0;
  for (const auto& [folder, targets] : kAllowed) {
    if (under(path, folder) && folder.size() >= longest) {
      allowed = &targets;
      longest = folder.size();
    }
  }
  return allowed;
}

// The violation of one include, or nothing.
std::string violation(const std::string& path, const std::string& included) {
  static const std::regex cuda("(cuda_runtime|cuda_fp16|cuda|cublas.*|cudnn.*|nccl)\\.h");
  if (std::regex_match(included, cuda)) {
    for (const std::string& folder : kCudaFolders) {
      if (under(path, folder)) {
        return "";
      }
    }
    return path + " includes " + included;
  }
  if (included.find("..") != std::string::npos) {
    return path + " includes " + included + ": paths are from the root";
  }
  const std::string target = top(included);
  const bool ours = kAllowed.count(target) > 0 || target == "tests" || target == "bench";
  const std::set<std::string>* allowed = allowed_for(path);
  if (!ours || allowed == nullptr || target == top(path) || allowed->count(target) > 0) {
    return "";
  }
  return path + " includes " + included;
}

TEST(Arrows, RunOneWay) {
  const fs::path root = source_folder();
  const std::regex include("^\\s*#\\s*include\\s*[<\"]([^>\"]+)[>\"]");
  int files = 0;
  for (const auto& [folder, targets] : kAllowed) {
    if (folder.find('/') != std::string::npos || !fs::exists(root / folder)) {
      continue;
    }
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / folder)) {
      const std::string extension = entry.path().extension();
      if (extension != ".h" && extension != ".cpp" && extension != ".cu") {
        continue;
      }
      ++files;
      std::ifstream file(entry.path());
      for (std::string line; std::getline(file, line);) {
        std::smatch match;
        if (std::regex_search(line, match, include)) {
          EXPECT_EQ(violation(fs::relative(entry.path(), root), match[1]), "");
        }
      }
    }
  }
  EXPECT_GT(files, 50);
}

TEST(Arrows, TheTestItselfCanFail) {
  EXPECT_NE(violation("runtime/arena.cpp", "engine/tensor.h"), "");
  EXPECT_NE(violation("data/loader.h", "kernels/kernels.h"), "");
  EXPECT_NE(violation("comm/ring.cpp", "engine/tensor.h"), "");
  EXPECT_EQ(violation("comm/ddp.cpp", "engine/tensor.h"), "");
  EXPECT_NE(violation("engine/tensor.cpp", "tests/support/compare.h"), "");
  EXPECT_NE(violation("engine/tensor.cpp", "cuda_runtime.h"), "");
  EXPECT_NE(violation("runtime/arena.cpp", "../engine/tensor.h"), "");
  EXPECT_NE(violation("kernels/cpu/conv2d.cpp", "cuda_runtime.h"), "");
  EXPECT_EQ(violation("runtime/cuda/device.cu", "cuda_runtime.h"), "");
}

}  // namespace
}  // namespace ringgrad::test
