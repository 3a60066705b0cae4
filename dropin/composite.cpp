// The composite module: what a host loads for a configuration with `deserializers`.

#include "data_reader.hpp"
#include "foreign.hpp"
#include "reader.hpp"

#define CNTK_DROPIN_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

namespace host = cntk_host;

host::Reader* create(const host::ConfigParameters& config) {
  const cntk_dropin::SectionHandle section = cntk_dropin::make_section(config);
  return new cntk_dropin::EngineReader(section.get(), CNTK_READER_SECTION_KIND_COMPOSITE,
                                       std::make_unique<cntk_dropin::ForeignModules>());
}

std::shared_ptr<host::Reader> create_shared(const host::ConfigParameters& config) {
  return std::shared_ptr<host::Reader>(create(config));
}

// A composite reader has no parallel sequences to fix.
constexpr cntk_dropin::Adapter kAdapter = {false, false};

}  // namespace

CNTK_DROPIN_EXPORT host::Reader* CreateCompositeDataReader(const host::ConfigParameters* config) {
  return create(*config);
}

CNTK_DROPIN_EXPORT void GetReaderF(void** reader) {
  *reader = cntk_dropin::make_data_reader_float(create_shared, kAdapter);
}

CNTK_DROPIN_EXPORT void GetReaderD(void** reader) {
  *reader = cntk_dropin::make_data_reader_double(create_shared, kAdapter);
}
