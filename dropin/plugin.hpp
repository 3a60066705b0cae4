// Deserializers and transforms of the host's modules, and of this project's module for images.
#pragma once

#include <string>

#include "host_deserializers.hpp"

namespace cntk_dropin {

// Loads a module by its name in configurations, as the host does, and creates a deserializer of one
// of its types.
std::shared_ptr<cntk_host::DataDeserializer> create_deserializer(
    const std::string& module, const std::string& type, const cntk_host::ConfigParameters& config,
    const std::shared_ptr<cntk_host::CorpusDescriptor>& corpus, bool is_primary);

// Loads a module by its name in configurations, and creates a transform of one of its types.
std::shared_ptr<cntk_host::Transformer> create_transformer(const std::string& module, const std::string& type,
                                                           const cntk_host::ConfigParameters& config);

}  // namespace cntk_dropin
