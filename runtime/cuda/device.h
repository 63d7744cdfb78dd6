// The device table over the CUDA runtime, built from device.cu once per runtime: the real one
// (cuda) and the emulator (emulated).
#pragma once

#include <memory>
#include <string>

#include "runtime/device.h"

namespace ringgrad::cuda {

// 0 where there is no GPU or no driver.
int device_count();
// Throws Error for an index that does not exist.
std::unique_ptr<DeviceTable> make_device(int index);

}  // namespace ringgrad::cuda

namespace ringgrad::emulated {

// Chooses the machine to play ("k80x4"; "" is h200); Error for an unknown one.
void set_profile(const std::string& profile);
// In which order threads, blocks and streams run: forward, reverse, shuffled or shuffled:SEED;
// Error for anything else.
void set_order(const std::string& order);
int device_count();
std::unique_ptr<DeviceTable> make_device(int index);

}  // namespace ringgrad::emulated
