#include "tests/support/paths.h"

namespace ringgrad::test {

std::filesystem::path source_folder() {
  return RINGGRAD_SOURCE_DIR;
}
std::filesystem::path build_folder() {
  return RINGGRAD_BINARY_DIR;
}
std::string command_path() {
  return RINGGRAD_COMMAND;
}

}  // namespace ringgrad::test
