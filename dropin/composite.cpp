// The composite module, which a host loads for a configuration with `deserializers`.

#include "announce.hpp"
#include "data_reader.hpp"
#include "foreign.hpp"
#include "host_reader.hpp"

#define CNTK_DROPIN_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

namespace host = cntk_host;

std::unique_ptr<host::Reader> create(const host::ConfigParameters& config) {
  std::unique_ptr<cntk_dropin::Companion> companion;
#if CNTK_DROPIN_HOST >= 20100
  companion = std::make_unique<cntk_dropin::ForeignModules>();
#endif
  return cntk_dropin::make_host_reader(config, CNTK_READER_SECTION_KIND_COMPOSITE, std::move(companion));
}

std::shared_ptr<host::Reader> create_shared(const host::ConfigParameters& config) { return create(config); }

// A composite reader reports no parallel sequences.
constexpr cntk_dropin::Adapter kAdapter = {false, false};

}  // namespace

const char cntk_dropin::kLine[] = CNTK_DROPIN_LINE("Cntk.Composite", "CompositeDataReader");

CNTK_DROPIN_EXPORT host::Reader* CreateCompositeDataReader(const host::ConfigParameters* config) {
  return create(*config).release();
}

CNTK_DROPIN_EXPORT void GetReaderF(void** reader) {
  *reader = cntk_dropin::make_data_reader_float(create_shared, kAdapter);
}

CNTK_DROPIN_EXPORT void GetReaderD(void** reader) {
  *reader = cntk_dropin::make_data_reader_double(create_shared, kAdapter);
}
