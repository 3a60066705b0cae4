// The entry points that all modules of deserializers share.
#pragma once

#include "deserializer.hpp"

namespace cntk_dropin {

// The module's deserializers. Each module defines this constant.
extern const Format kFormat;

}  // namespace cntk_dropin
