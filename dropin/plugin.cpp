#include "plugin.hpp"

#include <stdexcept>

#include "host_math.hpp"
#include "text.hpp"

namespace cntk_dropin {
namespace {

namespace host = cntk_host;

// `plugin`, the first argument of the host's function, only identifies a module elsewhere. The host passes
// null here, too.
template <typename Function>
Function* load(const std::string& module, const char* symbol) {
  const void* plugin = nullptr;
  return reinterpret_cast<Function*>(host::math::load_plugin(&plugin, module, symbol, true));
}

}  // namespace

std::shared_ptr<host::DataDeserializer> create_deserializer(
    const std::string& module, const std::string& type, const host::ConfigParameters& config,
    const std::shared_ptr<host::CorpusDescriptor>& corpus, bool is_primary) {
  auto* const create = load<host::CreateDeserializer>(module, "CreateDeserializer");
  std::shared_ptr<host::DataDeserializer> made;
  if (!create(made, widen(type), config, corpus, is_primary) || made == nullptr) {
    throw std::runtime_error(
        "Cannot create deserializer. Please check module and type in the configuration.");
  }
  return made;
}

std::shared_ptr<host::Transformer> create_transformer(const std::string& module, const std::string& type,
                                                      const host::ConfigParameters& config) {
  auto* const create = load<host::CreateTransformer>(module, "CreateTransformer");
  host::Transformer* made = nullptr;
  if (!create(&made, widen(type), config) || made == nullptr) {
    throw std::runtime_error(
        "Cannot create transformer. Please check the module and type in the configuration.");
  }
  return std::shared_ptr<host::Transformer>(made);
}

}  // namespace cntk_dropin
