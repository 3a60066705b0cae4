// The entry points that all modules of one deserializer share.
#pragma once

#include "deserializer.hpp"

namespace cntk_dropin {

// The module's deserializer. Each module defines this constant.
extern const Format kFormat;

}  // namespace cntk_dropin
