// The entry points of a module of one deserializer, which are the same for all of them.
#pragma once

#include "deserializer.hpp"

namespace cntk_dropin {

// The module's deserializer; each module defines its own.
extern const Format kFormat;

}  // namespace cntk_dropin
