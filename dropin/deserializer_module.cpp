// A module of deserializers. CNTK's composite reader loads it for data of their types, and a host
// loads it for its `readerType`. `kFormat` lists the module's deserializers.

#include "deserializer_module.hpp"

#include <stdexcept>

#include "announce.hpp"
#include "host_reader.hpp"
#include "text.hpp"

#define CNTK_DROPIN_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

namespace host = cntk_host;

std::shared_ptr<host::Reader> create_shared(const host::ConfigParameters& config) {
  return cntk_dropin::make_host_reader(config, cntk_dropin::kFormat.kind);
}

}  // namespace

#if CNTK_DROPIN_HOST >= 20100

// The corpus is declared by value, and thus passed as the address of a copy that the host destroys.
CNTK_DROPIN_EXPORT bool CreateDeserializer(std::shared_ptr<host::DataDeserializer>& deserializer,
                                           const std::wstring& type, const host::ConfigParameters& config,
                                           std::shared_ptr<host::CorpusDescriptor> corpus, bool is_primary) {
  cntk_dropin::announce(config);
  const std::string name = cntk_dropin::narrow(type);
  const cntk_dropin::Type* const known = cntk_dropin::kFormat.find(name);
  if (known == nullptr) {
    if (!cntk_dropin::kFormat.refuses_types) return false;
    throw std::invalid_argument("Unknown deserializer type '" + name + "'");
  }
  deserializer =
      std::make_shared<cntk_dropin::EngineDeserializer>(*known, config, std::move(corpus), is_primary);
  return true;
}

#else

// Only CNTK's composite reader calls this function. This project's composite reader, which is
// installed with this module, has the deserializers built in.
CNTK_DROPIN_EXPORT bool CreateDeserializer(void**, const std::wstring& type, const host::ConfigParameters&,
                                           std::shared_ptr<void>, bool) {
  throw std::runtime_error(
      "CNTK's own composite reader asked cntk-reader for a '" + cntk_dropin::narrow(type) +
      "', which is not supported in this version of CNTK. Install all modules of cntk-reader, or none.");
}

#endif

CNTK_DROPIN_EXPORT void GetReaderF(void** reader) {
  *reader = cntk_dropin::make_data_reader_float(create_shared, cntk_dropin::kFormat.adapter);
}

CNTK_DROPIN_EXPORT void GetReaderD(void** reader) {
  *reader = cntk_dropin::make_data_reader_double(create_shared, cntk_dropin::kFormat.adapter);
}
