// CNTK's image transforms with the host's interface.
#pragma once

#include <memory>
#include <string>

#include "host_deserializers.hpp"

namespace cntk_dropin {

// Creates a transform from its section, which has the reader's `precision`; null if the type is
// unknown.
//
// It transforms this project's images, and any other dense sequence whose samples have the three
// dimensions of an image: channels, columns, rows. The result is a new sequence. Several threads
// may transform sequences with different positions in a minibatch concurrently.
std::unique_ptr<cntk_host::Transformer> make_image_transform(const std::string& type,
                                                             const cntk_host::ConfigParameters& config);

}  // namespace cntk_dropin
