#include "transforms.hpp"

#include <algorithm>
#include <stdexcept>

#include "plugin.hpp"
#include "text.hpp"

namespace cntk_dropin {
namespace {

namespace host = cntk_host;

constexpr char kTransforms[] = "transforms";

size_t find(const std::vector<host::StreamInformation>& streams, const std::string& name) {
  const std::wstring wide = widen(name);
  const auto found = std::find_if(streams.begin(), streams.end(),
                                  [&](const host::StreamInformation& stream) { return stream.name == wide; });
  if (found == streams.end()) throw std::runtime_error("Unexpected stream specified for transformation.");
  return static_cast<size_t>(found - streams.begin());
}

}  // namespace

Transforms::Transforms(const cntk_reader_section* section, const ModuleConfig& config,
                       std::vector<host::StreamInformation>& streams) {
  chains_.resize(streams.size());
  const SectionHandle input_section = child_of(section, "input");
  if (input_section == nullptr) return;
  const ModuleConfig input(input_section.get(), &config);
  const std::string& module = config.required("module");
  for (const auto& [name, value] : input.parameters().values) {
    const SectionHandle stream_section = child_of(input_section.get(), name);
    const ModuleConfig stream(stream_section.get(), &input);
    if (stream.find(kTransforms) == nullptr) continue;
    Chain chain;
    for (size_t i = 0;; ++i) {
      const SectionHandle element = element_of(stream_section.get(), kTransforms, i);
      if (element == nullptr) break;
      ModuleConfig transform(element.get());
      transform.set("precision", config.required("precision"));
      const std::string* const own_module = transform.find("module");
      chain.push_back(create_transformer(own_module != nullptr ? *own_module : module,
                                         transform.required("type"), transform.parameters()));
    }
    // The last transform converts values to the reader's element type.
    chain.push_back(create_transformer(module, "Cast", stream.parameters()));
    const size_t number = find(streams, name);
    for (const auto& transformer : chain) streams[number] = transformer->Transform(streams[number]);
    chains_[number] = std::move(chain);
  }
}

bool Transforms::is_empty() const {
  return std::all_of(chains_.begin(), chains_.end(), [](const Chain& chain) { return chain.empty(); });
}

void Transforms::start_epoch(const void* epoch_configuration) {
  for (const Chain& chain : chains_) {
    for (const auto& transformer : chain) transformer->StartEpoch(epoch_configuration);
  }
}

std::shared_ptr<host::SequenceData> Transforms::apply(size_t stream,
                                                      std::shared_ptr<host::SequenceData> sequence,
                                                      uint32_t position) const {
  for (const auto& transformer : chains_[stream]) {
    sequence = host::transform(*transformer, std::move(sequence), static_cast<int>(position));
  }
  return sequence;
}

}  // namespace cntk_dropin
