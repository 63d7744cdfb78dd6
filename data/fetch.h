// Downloads: data sets from their own home, resumed where a connection was cut, verified, unpacked.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace ringgrad::data {

struct Archive {
  std::string url;
  std::string file_name;
  std::int64_t bytes;  // its exact size
  std::string md5;     // its checksum, hexadecimal
  std::vector<std::string>
      members;  // files that are there once it is unpacked, relative to the folder
};

// "cifar10" or "cifar100": the binary versions. Sizes and checksums:
// https://www.cs.toronto.edu/~kriz/cifar.html.
Archive known_archive(const std::string& name);

// Makes the archive's members exist in `folder`, with progress on standard error. Nothing is done
// if they are there. What has been downloaded when a connection breaks stays as FILE.part and is
// continued, three times at once and at the next call; a wrong checksum removes it. Error with the
// reason otherwise.
void fetch(const Archive& archive, const std::filesystem::path& folder);

}  // namespace ringgrad::data
