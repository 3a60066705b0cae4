#include "module_config.hpp"

#include <stdexcept>

#include "host_math.hpp"

namespace cntk_dropin {

ModuleConfig::ModuleConfig(const cntk_reader_section* section, const ModuleConfig* parent) {
  parameters_.vtable = cntk_host::math::config_parameters_table + 2;  // past its two leading words
  if (parent != nullptr) parameters_.parent = &parent->parameters_;
  size_t length = 0;
  call(cntk_reader_section_get_path, section, nullptr, size_t{0}, &length);
  parameters_.name.resize(length + 1);
  call(cntk_reader_section_get_path, section, parameters_.name.data(), parameters_.name.size(), &length);
  parameters_.name.resize(length);

  size_t count = 0;
  call(cntk_reader_section_list_entries, section, nullptr, size_t{0}, &count);
  std::vector<cntk_reader_section_entry> entries(count);
  call(cntk_reader_section_list_entries, section, entries.data(), entries.size(), &count);
  for (const cntk_reader_section_entry& entry : entries) {
    set({entry.key, entry.key_length}, {entry.text, entry.text_length});
  }
}

const std::string* ModuleConfig::find(const std::string& key) const {
  const auto found = parameters_.values.find(key);
  return found == parameters_.values.end() ? nullptr : &found->second.text;
}

const std::string& ModuleConfig::required(const std::string& key) const {
  const std::string* const text = find(key);
  if (text == nullptr || text->empty()) {
    throw std::runtime_error("configparameters: required parameter missing: " + parameters_.name + ":" + key);
  }
  return *text;
}

void ModuleConfig::set(const std::string& key, const std::string& text) {
  parameters_.values[key] = {text, parameters_.name + ":" + key, &parameters_};
}

SectionHandle child_of(const cntk_reader_section* section, const std::string& key) {
  cntk_reader_section* child = nullptr;
  call(cntk_reader_section_open_child, section, key.data(), key.size(), &child);
  return SectionHandle(child);
}

SectionHandle element_of(const cntk_reader_section* section, const std::string& key, size_t index) {
  cntk_reader_section* element = nullptr;
  call(cntk_reader_section_open_element, section, key.data(), key.size(), index, &element);
  return SectionHandle(element);
}

}  // namespace cntk_dropin
