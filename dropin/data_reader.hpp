// The interface of BrainScript hosts (IDataReader), by the host's own adapter over a Reader.
#pragma once

#include "host_math.hpp"

namespace cntk_dropin {

// What GetNumParallelSequencesForFixingBPTTMode answers.
enum class ParallelSequences { of_last_minibatch, none };

// Makes a reader that hosts initialize with a configuration and destroy by its own Destroy.
void* make_data_reader_float(cntk_host::math::CreateReader* create, ParallelSequences answer);
void* make_data_reader_double(cntk_host::math::CreateReader* create, ParallelSequences answer);

}  // namespace cntk_dropin
