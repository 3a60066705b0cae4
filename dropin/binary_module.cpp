// The binary module: data of `CNTKBinaryFormatDeserializer`, and `readerType = "CNTKBinaryReader"`.

#include "announce.hpp"
#include "deserializer_module.hpp"

namespace cntk_dropin {

const char kLine[] = CNTK_DROPIN_LINE("Cntk.Deserializers.Binary", "CNTKBinaryReader");

const Format kFormat = {
    CNTK_READER_SECTION_KIND_BINARY, {{"CNTKBinaryFormatDeserializer", false}}, true, {true, false}};

}  // namespace cntk_dropin
