#include "plugin.hpp"

#include <algorithm>
#include <stdexcept>

#include "deserializer.hpp"
#include "host_math.hpp"
#include "image_transforms.hpp"
#include "text.hpp"

namespace cntk_dropin {
namespace {

namespace host = cntk_host;

// `plugin`, the first argument of the host's function, only identifies a module. The host passes
// null here, too.
template <typename Function>
Function* load(const std::string& module, const char* symbol) {
  const void* plugin = nullptr;
  return reinterpret_cast<Function*>(host::math::load_plugin(&plugin, module, symbol, true));
}

// Returns whether a module is the one for images, whose deserializers and transforms are built into
// this module. A module named by its file is loaded.
bool is_own(const std::string& module) {
  return module == "ImageReader" || module == "Cntk.Deserializers.Image";
}

std::shared_ptr<host::DataDeserializer> create_own(const std::string& type,
                                                   const host::ConfigParameters& config,
                                                   const std::shared_ptr<host::CorpusDescriptor>& corpus,
                                                   bool is_primary) {
  const auto known = std::find_if(kImageTypes.begin(), kImageTypes.end(),
                                  [&](const Type& image) { return type == image.name; });
  if (known == kImageTypes.end()) return nullptr;
  return std::make_shared<EngineDeserializer>(*known, config, corpus, is_primary);
}

std::shared_ptr<host::DataDeserializer> create_foreign(const std::string& module, const std::string& type,
                                                       const host::ConfigParameters& config,
                                                       const std::shared_ptr<host::CorpusDescriptor>& corpus,
                                                       bool is_primary) {
  auto* const create = load<host::CreateDeserializer>(module, "CreateDeserializer");
  std::shared_ptr<host::DataDeserializer> made;
  return create(made, widen(type), config, corpus, is_primary) ? made : nullptr;
}

std::shared_ptr<host::Transformer> create_foreign_transformer(const std::string& module,
                                                              const std::string& type,
                                                              const host::ConfigParameters& config) {
  auto* const create = load<host::CreateTransformer>(module, "CreateTransformer");
  host::Transformer* made = nullptr;
  if (!create(&made, widen(type), config)) return nullptr;
  return std::shared_ptr<host::Transformer>(made);
}

}  // namespace

std::shared_ptr<host::DataDeserializer> create_deserializer(
    const std::string& module, const std::string& type, const host::ConfigParameters& config,
    const std::shared_ptr<host::CorpusDescriptor>& corpus, bool is_primary) {
  auto made = is_own(module) ? create_own(type, config, corpus, is_primary)
                             : create_foreign(module, type, config, corpus, is_primary);
  if (made == nullptr) {
    throw std::runtime_error(
        "Cannot create deserializer. Please check module and type in the configuration.");
  }
  return made;
}

std::shared_ptr<host::Transformer> create_transformer(const std::string& module, const std::string& type,
                                                      const host::ConfigParameters& config) {
  std::shared_ptr<host::Transformer> made =
      is_own(module) ? make_image_transform(type, config) : create_foreign_transformer(module, type, config);
  if (made == nullptr) {
    throw std::runtime_error(
        "Cannot create transformer. Please check the module and type in the configuration.");
  }
  return made;
}

}  // namespace cntk_dropin
