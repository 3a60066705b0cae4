// A reader with the host's interface.
#pragma once

#include <memory>

#include "reader.hpp"

namespace cntk_dropin {

// Creates a reader from a section of the host. `kind` is the kind of reader that the host
// requested. `companion` may be null.
std::unique_ptr<cntk_host::Reader> make_host_reader(const cntk_host::ConfigParameters& config,
                                                    cntk_reader_section_kind kind,
                                                    std::unique_ptr<Companion> companion = nullptr);

}  // namespace cntk_dropin
