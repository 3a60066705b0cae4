// A module of one deserializer: what CNTK's own composite reader loads for its data, and what a host loads
// for a `readerType` of its own. Which one it is says `kFormat`.

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

// Hosts pass the corpus as they do all class types by value: by the address of a copy that stays theirs. Only
// the primary deserializer of a reader defines the order of sequences; for this one both are the same.
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
