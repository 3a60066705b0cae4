// The sequence keys of a reader, in the form that the host's modules take.
#pragma once

#include "engine.hpp"
#include "host_deserializers.hpp"

namespace cntk_dropin {

// Returns a descriptor that looks keys up in the engine, and keeps the engine's keys alive.
std::shared_ptr<cntk_host::CorpusDescriptor> make_corpus(const cntk_reader_keys* keys);

}  // namespace cntk_dropin
