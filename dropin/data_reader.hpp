// The reader interface of BrainScript hosts (IDataReader), made by the host's own adapter over a Reader.
#pragma once

#include "host_math.hpp"

namespace cntk_dropin {

// What GetNumParallelSequencesForFixingBPTTMode returns: the number of the last minibatch, or none.
enum class ParallelSequences { of_last_minibatch, none };

// Makes a reader. The host initializes it with a configuration, and destroys it by its Destroy.
void* make_data_reader_float(cntk_host::math::CreateReader* create, ParallelSequences answer);
void* make_data_reader_double(cntk_host::math::CreateReader* create, ParallelSequences answer);

}  // namespace cntk_dropin
