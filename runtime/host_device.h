// The device table of the CPU: work is done when the call returns, so streams and events are
// trivial.
#pragma once

#include <memory>

#include "runtime/device.h"

namespace ringgrad {

// `name` is the backend's ("cpu", "reference"). `poison` fills fresh memory with NaN bytes, so that
// a read before the first write shows up in results.
std::unique_ptr<DeviceTable> make_host_device(std::string name, bool poison);

}  // namespace ringgrad
