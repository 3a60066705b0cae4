// The module that this one has replaced. It is kept in the same folder as `<name>.original`.
#pragma once

#include "host_types.hpp"

namespace cntk_dropin {

// Makes the reader by the original composite module. Throws if that module is not there.
cntk_host::Reader* create_by_original(const cntk_host::ConfigParameters& config);

}  // namespace cntk_dropin
