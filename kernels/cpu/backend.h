#pragma once

#include "kernels/backends.h"

namespace ringgrad::kernels::cpu {

Backend backend();

}  // namespace ringgrad::kernels::cpu
