// The reader interface of BrainScript hosts (IDataReader), implemented by the host's adapter over a
// Reader.
#pragma once

#include "host_math.hpp"

namespace cntk_dropin {

// Properties that a reader's adapter reports to its host.
struct Adapter {
  // GetNumParallelSequencesForFixingBPTTMode returns the lanes of the last minibatch; otherwise 0.
  bool has_parallel_sequences;
  // The result of IsLegacyReader.
  bool is_old_style;
};

// Creates a reader. The host initializes it with a configuration, and destroys it by its Destroy.
// All readers of a module have the same adapter.
void* make_data_reader_float(cntk_host::math::CreateReader* create, Adapter adapter);
void* make_data_reader_double(cntk_host::math::CreateReader* create, Adapter adapter);

}  // namespace cntk_dropin
