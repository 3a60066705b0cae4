// The module for images: map files and lines of Base64, transforms, and
// `readerType = "ImageReader"`.

#include "announce.hpp"
#include "deserializer_module.hpp"
#include "image_transforms.hpp"
#include "text.hpp"

#define CNTK_DROPIN_EXPORT extern "C" __attribute__((visibility("default")))

namespace cntk_dropin {

const char kLine[] = CNTK_DROPIN_LINE("Cntk.Deserializers.Image", "ImageReader");

const Format kFormat = {CNTK_READER_SECTION_KIND_IMAGE, kImageTypes, false, {true, false}};

}  // namespace cntk_dropin

#if CNTK_DROPIN_HOST >= 20100

CNTK_DROPIN_EXPORT bool CreateTransformer(cntk_host::Transformer** transformer, const std::wstring& type,
                                          const cntk_host::ConfigParameters& config) {
  cntk_dropin::announce(config);
  auto made = cntk_dropin::make_image_transform(cntk_dropin::narrow(type), config);
  if (made == nullptr) return false;
  *transformer = made.release();
  return true;
}

#else

// Like CreateDeserializer in this version.
CNTK_DROPIN_EXPORT bool CreateTransformer(void**, const std::wstring& type,
                                          const cntk_host::ConfigParameters&) {
  throw std::runtime_error(
      "CNTK's own composite reader asked cntk-reader for a transform '" + cntk_dropin::narrow(type) +
      "', which is not supported in this version of CNTK. Install all modules of cntk-reader, or none.");
}

#endif
