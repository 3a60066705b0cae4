// The module for speech: HTK features, labels and lattices, and `readerType = "HTKDeserializers"`.

#include "deserializer_module.hpp"

namespace cntk_dropin {

const Format kFormat = {CNTK_READER_SECTION_KIND_HTK,
                        {{"HTKFeatureDeserializer", true},
                         {"HTKMLFDeserializer", false},
                         {"HTKMLFBinaryDeserializer", false},
                         {"LatticeDeserializer", false}},
                        false,
                        {true, true}};

}  // namespace cntk_dropin
