// The text module: data of `CNTKTextFormatDeserializer`, and `readerType = "CNTKTextFormatReader"`.

#include "announce.hpp"
#include "deserializer_module.hpp"

namespace cntk_dropin {

const char kLine[] = CNTK_DROPIN_LINE("Cntk.Deserializers.TextFormat", "CNTKTextFormatReader");

const Format kFormat = {
    CNTK_READER_SECTION_KIND_TEXT, {{"CNTKTextFormatDeserializer", true}}, true, {true, false}};

}  // namespace cntk_dropin
