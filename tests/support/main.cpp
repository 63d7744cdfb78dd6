// The main of every test program; tests that need ranks as processes execute it anew (ranks.h).
#include <gtest/gtest.h>

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
