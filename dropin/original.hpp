// The module whose place this one has taken, kept beside it as `<name>.original`.
#pragma once

#include "host_types.hpp"

namespace cntk_dropin {

// Has the original composite module make the reader. Throws if it is not there.
cntk_host::Reader* create_by_original(const cntk_host::ConfigParameters& config);

}  // namespace cntk_dropin
