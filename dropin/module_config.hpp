// Converts sections of the engine to the type that the host's modules take.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine.hpp"

namespace cntk_dropin {

// A section with its own keys, without those of enclosing sections.
class ModuleConfig {
 public:
  // `parent` is the enclosing section, which must outlive this one, or null.
  explicit ModuleConfig(const cntk_reader_section* section, const ModuleConfig* parent = nullptr);
  ModuleConfig(const ModuleConfig&) = delete;
  ModuleConfig& operator=(const ModuleConfig&) = delete;

  const cntk_host::ConfigParameters& parameters() const { return parameters_; }

  // Returns the raw text of a key of this section, or null.
  const std::string* find(const std::string& key) const;
  // Returns the raw text of a required key of this section.
  const std::string& required(const std::string& key) const;
  // Replaces or adds a key.
  void set(const std::string& key, const std::string& text);

 private:
  cntk_host::ConfigParameters parameters_;
};

// Returns the section that is the value of a key; empty if there is none.
SectionHandle child_of(const cntk_reader_section* section, const std::string& key);
// Returns an element of a list of sections; empty past the last one.
SectionHandle element_of(const cntk_reader_section* section, const std::string& key, size_t index);

}  // namespace cntk_dropin
