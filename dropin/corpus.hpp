// The keys of a reader's sequences as the host's modules take them.
#pragma once

#include "engine.hpp"
#include "host_deserializers.hpp"

namespace cntk_dropin {

// A descriptor that looks keys up in the engine. It keeps the engine's keys alive as long as it lives.
std::shared_ptr<cntk_host::CorpusDescriptor> make_corpus(const cntk_reader_keys* keys);

}  // namespace cntk_dropin
