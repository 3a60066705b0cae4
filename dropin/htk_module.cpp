// The module for speech: HTK features, labels and lattices, and `readerType = "HTKDeserializers"`.

#include "announce.hpp"
#include "deserializer_module.hpp"

namespace cntk_dropin {

const char kLine[] = CNTK_DROPIN_LINE("Cntk.Deserializers.HTK", "HTKDeserializers");

const Format kFormat = {CNTK_READER_SECTION_KIND_HTK,
                        {{"HTKFeatureDeserializer", true},
                         {"HTKMLFDeserializer", false},
                         {"HTKMLFBinaryDeserializer", false},
                         {"LatticeDeserializer", false}},
                        false,
                        {true, true}};

}  // namespace cntk_dropin
