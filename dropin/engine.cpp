#include "engine.hpp"

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <vector>

#include "exception.hpp"
#include "host_versions.hpp"
#include "text.hpp"

namespace cntk_dropin {

void raise(cntk_reader_error* error, const char* old_style_reader) {
  const std::unique_ptr<cntk_reader_error, Free<cntk_reader_error_free>> owner(error);
  throw_kept(error);
  cntk_reader_error_info info = {};
  info.struct_size = sizeof info;
  info.exception = CNTK_READER_EXCEPTION_RUNTIME_ERROR;
  cntk_reader_error_describe(error, &info);
  // The message without details: hosts and their programs compare it with CNTK's.
  std::string text = info.message != nullptr ? info.message : "";
  log_where(error, text);
  const bool of_file = (info.kind == CNTK_READER_STATUS_IO || info.kind == CNTK_READER_STATUS_DATA) &&
                       info.exception == CNTK_READER_EXCEPTION_RUNTIME_ERROR;
  if (old_style_reader != nullptr && of_file && info.file != nullptr) {
    text = std::string(old_style_reader) + ": While reading '" + info.file + "': " + text;
  }
  switch (info.exception) {
    case CNTK_READER_EXCEPTION_LOGIC_ERROR:
      throw std::logic_error(text);
    case CNTK_READER_EXCEPTION_INVALID_ARGUMENT:
      throw std::invalid_argument(text);
    default:
      throw std::runtime_error(text);
  }
}

cntk_reader_host_source source_of(const cntk_reader_section* section, cntk_reader_section_kind kind) {
  cntk_reader_host_source source = CNTK_READER_HOST_SOURCE_INIT;
  source.section = section;
  source.section_kind = static_cast<uint32_t>(kind);
  source.release = cntk_host::kIsBeta ? CNTK_READER_RELEASE_BETA : CNTK_READER_RELEASE_CURRENT;
  return source;
}

namespace {

// Returns whether this version of the host does not know a key.
bool is_ignored(const std::string& key) {
  return std::any_of(std::begin(cntk_host::kLaterKeys), std::end(cntk_host::kLaterKeys),
                     [&](const cntk_host::LaterKey& later) {
                       return CNTK_DROPIN_HOST < later.since && strcasecmp(key.c_str(), later.name) == 0;
                     });
}

}  // namespace

SectionHandle make_section(const cntk_host::ConfigParameters& config) {
  SectionHandle parent;
  if (config.parent != nullptr) parent = make_section(*config.parent);
  std::vector<cntk_reader_section_entry> entries;
  entries.reserve(config.values.size());
  for (const auto& [key, value] : config.values) {
    if (is_ignored(key)) continue;
    entries.push_back({key.data(), key.size(), value.text.data(), value.text.size(), 0, 0});
  }
  cntk_reader_section* section = nullptr;
  call(cntk_reader_section_create, config.name.data(), config.name.size(), entries.data(), entries.size(),
       parent.get(), &section);
  return SectionHandle(section);
}

bool flag(const cntk_reader_section* section, std::string_view key, bool otherwise) {
  uint32_t value = 0;
  call(cntk_reader_section_get_flag, section, key.data(), key.size(), uint32_t{otherwise}, &value);
  return value != 0;
}

cntk_host::StreamInformation describe(const cntk_reader_stream_info& info) {
  cntk_host::StreamInformation stream;
  stream.name = widen({info.name, info.name_length});
  stream.id = info.id;
  stream.storage =
      info.storage == CNTK_READER_STORAGE_DENSE ? cntk_host::Storage::dense : cntk_host::Storage::sparse_csc;
  stream.element =
      info.element == CNTK_READER_ELEMENT_DOUBLE ? cntk_host::Element::float64 : cntk_host::Element::float32;
  stream.shape.dimensions.assign(info.shape, info.shape + info.shape_rank);
  stream.defines_mb_size = info.defines_mb_size != 0;
  stream.is_binary = info.is_binary != 0;
  return stream;
}

}  // namespace cntk_dropin
