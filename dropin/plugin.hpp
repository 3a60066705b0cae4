// The host's modules of deserializers and transforms.
#pragma once

#include <string>

#include "host_deserializers.hpp"

namespace cntk_dropin {

// Loads a module by the name that configurations have for it, as the host does, and makes a deserializer of a
// type in it.
std::shared_ptr<cntk_host::DataDeserializer> create_deserializer(
    const std::string& module, const std::string& type, const cntk_host::ConfigParameters& config,
    const std::shared_ptr<cntk_host::CorpusDescriptor>& corpus, bool is_primary);

// The same for a transform.
std::shared_ptr<cntk_host::Transformer> create_transformer(const std::string& module, const std::string& type,
                                                           const cntk_host::ConfigParameters& config);

}  // namespace cntk_dropin
