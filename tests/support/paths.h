// Where things are, for tests.
#pragma once

#include <filesystem>
#include <string>

namespace ringgrad::test {

// The source tree, the build tree, and the `ringgrad` command under test.
std::filesystem::path source_folder();
std::filesystem::path build_folder();
std::string command_path();

}  // namespace ringgrad::test
