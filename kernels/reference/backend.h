#pragma once

#include "kernels/backends.h"

namespace ringgrad::kernels::reference {

Backend backend();

}  // namespace ringgrad::kernels::reference
