// Typed options, the base of the builders of readers, deserializers, streams and transforms.
//
// Part of <cntk_reader.hpp>; include that. Internal: nothing here is for programs.

#ifndef CNTK_READER_OPTIONS_HPP
#define CNTK_READER_OPTIONS_HPP

#include <cntk_reader.h>

#include <cntk_reader/error.hpp>
#include <cntk_reader/stream.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cntk {
namespace reader {
namespace detail {

/// Returns the name of a type in CNTK's language. Invalid numbers are refused when the reader is
/// opened.
inline std::string WordOf(ElementType element) {
  switch (element) {
    case ElementType::kFloat:
      return "float32";
    case ElementType::kDouble:
      return "float64";
    case ElementType::kFloat16:
      return "float16";
    case ElementType::kInt16:
      return "int16";
    case ElementType::kUInt8:
      return "uint8";
    case ElementType::kInt32:
      return "int32";
    case ElementType::kInt64:
      return "int64";
    case ElementType::kBFloat16:
      return "bfloat16";
    case ElementType::kBool:
      return "bool";
  }
  return std::to_string(static_cast<std::uint32_t>(element));
}

/// Options of the C interface with value semantics. Keys are those of CNTK's language. Setters
/// ignore empty values; the library refuses invalid ones.
class Options {
 public:
  Options() {
    cntk_reader_options* options = nullptr;
    Call(cntk_reader_options_create, std::uint32_t{CNTK_READER_FRONT_END_CPP}, &options);
    handle_.reset(options);
  }
  /// Creates options of a deserializer or a transform.
  explicit Options(const std::string& type) : Options() { Text("type", type); }
  /// Creates options of a deserializer in one of CNTK's modules.
  Options(const char* type, const char* module) : Options(type) { Text("module", module); }

  Options(const Options& other) : handle_(other.Copy()) {}
  Options(Options&& other) noexcept = default;
  Options& operator=(const Options& other) {
    handle_ = other.Copy();
    return *this;
  }
  Options& operator=(Options&& other) noexcept = default;
  ~Options() = default;

  const cntk_reader_options* get() const {
    Check();
    return handle_.get();
  }

  /// Throws if the options were moved from.
  void Check() const {
    if (!handle_) MovedFrom::Refuse("deserializer or transform");
  }

  void Flag(const char* key, std::optional<bool> flag) {
    if (flag) Set(cntk_reader_options_set_flag, key, std::uint32_t{*flag});
  }
  /// Sets an unsigned number.
  void Whole(const char* key, std::optional<std::uint64_t> number) {
    if (number) Set(cntk_reader_options_set_size, key, *number);
  }
  void Pair(const char* key, std::uint32_t first, std::uint32_t second) {
    Text(key, std::to_string(first) + ":" + std::to_string(second));
  }
  void Real(const char* key, double number) { Set(cntk_reader_options_set_real, key, number); }
  void Text(const char* key, const std::string& text) {
    Set(cntk_reader_options_set_text, key, text.data(), text.size());
  }
  void Path(const char* key, const std::string& path) {
    Set(cntk_reader_options_set_path, key, path.data(), path.size());
  }
  void AddPath(const char* key, const std::string& path) {
    Set(cntk_reader_options_add_path, key, path.data(), path.size());
  }
  /// Appends a path, or a pattern of paths.
  void AddFile(const char* key, const std::string& file) {
    Set(cntk_reader_options_add_file, key, file.data(), file.size());
  }
  void Section(std::string_view key, const Options& section) {
    Set(cntk_reader_options_set_section, key, section.get());
  }
  void AddSection(const char* key, const Options& section) {
    Set(cntk_reader_options_add_section, key, section.get());
  }

  /// Returns the options in CNTK's language: lines of a configuration, or a section in brackets.
  /// Throws if a name or a text cannot be written there.
  std::string Write(bool in_brackets) const {
    std::string text;
    std::size_t length = 0;
    do {
      text.resize(length + 1);
      Call(cntk_reader_options_write, get(), std::uint32_t{in_brackets}, &text[0], text.size(), &length);
    } while (length >= text.size());
    text.resize(length);
    return text;
  }

 private:
  struct Free {
    void operator()(cntk_reader_options* options) const noexcept { cntk_reader_options_free(options); }
  };
  using Handle = std::unique_ptr<cntk_reader_options, Free>;

  template <typename Function, typename... Values>
  void Set(Function function, std::string_view key, Values... values) {
    Check();
    Call(function, handle_.get(), key.data(), key.size(), values...);
  }

  Handle Copy() const {
    cntk_reader_options* copy = nullptr;
    Call(cntk_reader_options_copy, get(), &copy);
    return Handle(copy);
  }

  Handle handle_;  // Empty only after a move.
};

/// Streams with their names.
using Streams = std::vector<std::pair<std::string, Options>>;

/// The options of a deserializer with its streams. Throws if two streams have the same name.
inline Options WithStreams(const Options& deserializer, const Streams& streams) {
  Options input;
  for (const auto& [name, stream] : streams) input.Section(name, stream);
  Options all = deserializer;
  all.Section("input", input);
  return all;
}

}  // namespace detail
}  // namespace reader
}  // namespace cntk

#endif  // CNTK_READER_OPTIONS_HPP
