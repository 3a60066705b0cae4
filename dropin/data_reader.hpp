// The reader interface of BrainScript hosts (IDataReader), made by the host's own adapter over a Reader.
#pragma once

#include "host_math.hpp"

namespace cntk_dropin {

// How the adapter of a reader answers its host.
struct Adapter {
  // GetNumParallelSequencesForFixingBPTTMode returns the number of the last minibatch, or none.
  bool has_parallel_sequences;
  // What IsLegacyReader returns.
  bool is_old_style;
};

// Makes a reader. The host initializes it with a configuration, and destroys it by its Destroy. All readers
// of a module have the same adapter.
void* make_data_reader_float(cntk_host::math::CreateReader* create, Adapter adapter);
void* make_data_reader_double(cntk_host::math::CreateReader* create, Adapter adapter);

}  // namespace cntk_dropin
