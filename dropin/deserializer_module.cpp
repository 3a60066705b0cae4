// A module of one deserializer. CNTK's own composite reader loads it for data of its type, and a host loads
// it for its `readerType`. `kFormat` says which deserializer the module has.

#include "deserializer_module.hpp"

#include "data_reader.hpp"
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

// The corpus is declared by value, and so passed by the address of a copy that the host destroys. The last
// argument says whether this is the primary deserializer of its reader, which makes no difference here.
CNTK_DROPIN_EXPORT bool CreateDeserializer(std::shared_ptr<host::DataDeserializer>& deserializer,
                                           const std::wstring& type, const host::ConfigParameters& config,
                                           std::shared_ptr<host::CorpusDescriptor> corpus, bool /*primary*/) {
  deserializer = std::make_shared<cntk_dropin::EngineDeserializer>(
      cntk_dropin::kFormat, cntk_dropin::narrow(type), config, std::move(corpus));
  return true;
}

CNTK_DROPIN_EXPORT void GetReaderF(void** reader) {
  *reader =
      cntk_dropin::make_data_reader_float(create_shared, cntk_dropin::ParallelSequences::of_last_minibatch);
}

CNTK_DROPIN_EXPORT void GetReaderD(void** reader) {
  *reader =
      cntk_dropin::make_data_reader_double(create_shared, cntk_dropin::ParallelSequences::of_last_minibatch);
}
