// A module of deserializers. CNTK's own composite reader loads it for data of their types, and a host loads
// it for its `readerType`. `kFormat` says which deserializers the module has.

#include "deserializer_module.hpp"

#include <stdexcept>

#include "reader.hpp"
#include "text.hpp"

#define CNTK_DROPIN_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

namespace host = cntk_host;

std::shared_ptr<host::Reader> create_shared(const host::ConfigParameters& config) {
  const cntk_dropin::SectionHandle section = cntk_dropin::make_section(config);
  return std::make_shared<cntk_dropin::EngineReader>(section.get(), cntk_dropin::kFormat.kind);
}

}  // namespace

// The corpus is declared by value, and so passed by the address of a copy that the host destroys.
CNTK_DROPIN_EXPORT bool CreateDeserializer(std::shared_ptr<host::DataDeserializer>& deserializer,
                                           const std::wstring& type, const host::ConfigParameters& config,
                                           std::shared_ptr<host::CorpusDescriptor> corpus, bool is_primary) {
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

CNTK_DROPIN_EXPORT void GetReaderF(void** reader) {
  *reader = cntk_dropin::make_data_reader_float(create_shared, cntk_dropin::kFormat.adapter);
}

CNTK_DROPIN_EXPORT void GetReaderD(void** reader) {
  *reader = cntk_dropin::make_data_reader_double(create_shared, cntk_dropin::kFormat.adapter);
}
