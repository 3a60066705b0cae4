// The text module: data of `CNTKTextFormatDeserializer`, and `readerType = "CNTKTextFormatReader"`.

#include "deserializer_module.hpp"

namespace cntk_dropin {

const Format kFormat = {
    CNTK_READER_SECTION_KIND_TEXT, {{"CNTKTextFormatDeserializer", true}}, true, {true, false}};

}  // namespace cntk_dropin
