// The memory of the emulated devices, and pinned memory of the host.
//
// Device memory is shut while nothing runs on a device: the host that touches it faults, as it
// would with a GPU, and hears why. Each allocation has pages of its own and one behind it that is
// never open; under AddressSanitizer what lies between its end and that page is poisoned too. Fresh
// memory reads as NaN.
#pragma once

#include <cstddef>
#include <string>

#include "site.h"

namespace emulator {

// Null where the device's memory is used up.
void* allocate_on_device(int device, std::size_t bytes, std::size_t device_bytes);
bool free_on_device(void* memory);
void* allocate_pinned(std::size_t bytes);
bool free_pinned(void* memory);

// Whether all of the bytes lie in one allocation of that device, or of any for -1.
bool is_on_device(const void* memory, std::size_t bytes, int device = -1);
bool is_pinned(const void* memory, std::size_t bytes);

// While one lives, device memory is open.
class DeviceMemoryOpen {
 public:
  DeviceMemoryOpen();
  DeviceMemoryOpen(const DeviceMemoryOpen&) = delete;
  DeviceMemoryOpen& operator=(const DeviceMemoryOpen&) = delete;
  ~DeviceMemoryOpen();
};

// What a kernel on `device` cannot use and finds among the 8-byte words of its arguments: memory of
// another device, memory that was freed, pageable memory of the host. Empty: nothing.
std::string unusable_argument(const void* arguments, std::size_t bytes, int device);

}  // namespace emulator
