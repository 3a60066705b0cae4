// Sections of a configuration as keys with their values: what typed configurations are made of.
//
// A part of <cntk_reader.hpp>, which is the one to include. Nothing here is for programs.

#ifndef CNTK_READER_SECTION_HPP
#define CNTK_READER_SECTION_HPP

#include <cntk_reader.h>

#include <algorithm>
#include <cntk_reader/error.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace cntk {
namespace reader {
namespace detail {

/// A size as a configuration has it. A negative number that was converted is refused.
inline std::string SizeText(const std::string& key, std::uint64_t size) {
  if (size > std::uint64_t{INT64_MAX})
    throw Error(ErrorKind::kConfig,
                "The value of '" + key + "' is " + std::to_string(size) +
                    ". Expected a size, at least 0; a negative number becomes a great one here.");
  return std::to_string(size);
}

/// SizeText of a number of 32 bits.
inline std::string CountText(const std::string& key, std::uint32_t count) {
  if (count > std::uint32_t{INT32_MAX})
    throw Error(ErrorKind::kConfig, "The value of '" + key + "' is " + std::to_string(count) +
                                        ". Expected a number from 0 to " + std::to_string(INT32_MAX) +
                                        "; a negative number becomes a great one here.");
  return std::to_string(count);
}

/// Two numbers of 32 bits as an array of a configuration.
inline std::string CountsText(const std::string& key, std::uint32_t first, std::uint32_t second) {
  return CountText(key, first) + ":" + CountText(key, second);
}

/// Keys with their values as a configuration has them, in the order in which they were set.
class Keys {
 public:
  void Set(std::string key, std::string value) {
    for (auto& [known, text] : keys_) {
      if (known == key) {
        text = std::move(value);
        return;
      }
    }
    keys_.emplace_back(std::move(key), std::move(value));
  }
  void Set(std::string key, bool value) { Set(std::move(key), std::string(value ? "true" : "false")); }
  void Set(std::string key, std::uint64_t value) {
    // Seeds may have all bits.
    std::string text = key == "randomizationSeed" ? std::to_string(value) : SizeText(key, value);
    Set(std::move(key), std::move(text));
  }
  void Set(std::string key, std::uint32_t value) {
    std::string text = CountText(key, value);
    Set(std::move(key), std::move(text));
  }
  template <typename T>
  void Set(std::string key, const std::optional<T>& value) {
    if (value) Set(std::move(key), *value);
  }

  const std::vector<std::pair<std::string, std::string>>& All() const noexcept { return keys_; }

  /// The keys as lines of a configuration.
  std::string Text(std::string_view indent) const {
    std::string text;
    for (const auto& [key, value] : keys_) text.append(indent).append(key + " = " + value + "\n");
    return text;
  }

 private:
  std::vector<std::pair<std::string, std::string>> keys_;
};

/// The URL of a path, in characters that mean nothing in a configuration. With `keeps_patterns`, `*`, `?` and
/// brackets stay what they are.
inline std::string UrlOf(std::string_view path, bool keeps_patterns) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string url = "file:";
  for (const char c : path) {
    const bool is_kept = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                         std::string_view("/-._~+@").find(c) != std::string_view::npos ||
                         (keeps_patterns && std::string_view("*?[]!").find(c) != std::string_view::npos);
    if (is_kept) {
      url += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      url += {'%', kDigits[byte / 16], kDigits[byte % 16]};
    }
  }
  return url;
}

/// Whether all of a text is UTF-8.
inline bool IsUtf8(std::string_view text) noexcept {
  for (std::size_t at = 0; at < text.size();) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned char first = byte(at);
    const std::size_t rest = first < 0x80   ? 0
                             : first < 0xc2 ? 4
                             : first < 0xe0 ? 1
                             : first < 0xf0 ? 2
                             : first < 0xf5 ? 3
                                            : 4;
    if (rest == 4 || text.size() - at <= rest) return false;
    for (std::size_t i = 1; i <= rest; ++i)
      if (byte(at + i) >> 6 != 2) return false;
    if (rest > 1) {
      const unsigned char second = byte(at + 1);
      if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
          (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f))
        return false;
    }
    at += rest + 1;
  }
  return true;
}

/// Whether a path could be taken for a URL, and is none. One with slashes after the scheme is one.
inline bool IsLikeUrl(std::string_view path) noexcept {
  return path.substr(0, 5) == "file:" && path.substr(0, 7) != "file://";
}

/// A path as a value that is taken as it is: its URL where it is no UTF-8 or looks like a URL.
inline std::string LiteralPath(std::string_view path) {
  return IsUtf8(path) && !IsLikeUrl(path) ? std::string(path) : UrlOf(path, true);
}

/// A section of the C interface.
class SectionHandle {
 public:
  /// Makes a section of keys as a configuration has them, and one, `literal_key`, whose value is taken as it
  /// is: a path, or the name of a type.
  SectionHandle(std::string_view path, const Keys& keys, std::string_view literal_key,
                std::string_view literal) {
    std::vector<cntk_reader_section_entry> entries;
    for (const auto& [key, value] : keys.All())
      entries.push_back({key.data(), key.size(), value.data(), value.size(), 0, 0});
    const std::string value = literal_key == "type" ? std::string(literal) : LiteralPath(literal);
    if (!literal_key.empty())
      entries.push_back({literal_key.data(), literal_key.size(), value.data(), value.size(), 1, 0});
    cntk_reader_section* section = nullptr;
    const cntk_reader_section* const parent = nullptr;
    Call(cntk_reader_section_create, path.data(), path.size(), entries.data(), entries.size(), parent,
         &section);
    handle_.reset(section);
  }

  const cntk_reader_section* get() const noexcept { return handle_.get(); }

 private:
  struct Free {
    void operator()(cntk_reader_section* section) const noexcept { cntk_reader_section_free(section); }
  };

  std::unique_ptr<cntk_reader_section, Free> handle_;
};

/// Whether a text in quotes comes out of a configuration as it went in: the language has no way to write
/// others.
inline bool IsPlain(std::string_view text) {
  const auto contains = [&](std::string_view part) { return text.find(part) != std::string_view::npos; };
  const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
  const bool trimmed = text.empty() || !(is_blank(text.front()) || is_blank(text.back()));
  const bool comment = (!text.empty() && text.front() == '#') || contains(" #") || contains("\t#");
  const bool variable = text.find('$') != text.rfind('$');
  const bool separator = text.find_first_of(std::string_view("\"\n\r\0", 4)) != std::string_view::npos;
  return trimmed && !comment && !variable && !separator && text != "default";
}

/// A text in quotes, if quotes can protect it.
inline std::string Quoted(std::string_view what, std::string_view text) {
  if (!IsPlain(text))
    throw Error(ErrorKind::kConfig, "The " + std::string(what) + " '" + std::string(text) +
                                        "' cannot be part of a configuration. It must not begin or end with "
                                        "a blank, and not contain line "
                                        "breaks, quotes, a '#' after a blank or two '$'.");
  return '"' + std::string(text) + '"';
}

/// The name of a stream, which is a key of the configuration.
inline std::string StreamKey(const std::string& name) {
  if (name.empty() || !IsPlain(name) || name.find_first_of("=[]{}(),;") != std::string::npos)
    throw Error(ErrorKind::kConfig,
                "The stream name '" + name +
                    "' cannot be part of a configuration. It must not be empty, begin or end with a blank, "
                    "or contain "
                    "line breaks, quotes, brackets, '=', ',', ';', a '#' after a blank or two '$'.");
  return name;
}

/// Refuses two streams of one name: one of them would be lost. Upper and lower case are the same, as in all
/// keys of configurations.
class DistinctStreams {
 public:
  void Add(const std::string& name) {
    const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; };
    std::string plain = name;
    for (char& c : plain) c = lower(c);
    for (const auto& [earlier, text] : seen_)
      if (earlier == plain)
        throw Error(ErrorKind::kConfig, "Two streams have the names '" + text + "' and '" + name +
                                            "'. Give each stream a name of its own. Upper and lower case are "
                                            "the same in names of one file.");
    seen_.emplace_back(std::move(plain), name);
  }

 private:
  std::vector<std::pair<std::string, std::string>> seen_;
};

/// Whether a path in quotes comes out of a configuration as it went in.
inline bool IsPlainPath(std::string_view path) {
  const bool is_text = IsPlain(path) && IsUtf8(path) && !IsLikeUrl(path);
  const bool is_printable =
      std::all_of(path.begin(), path.end(), [](char c) { return c >= ' ' && c <= '~'; });
  const bool is_strange = path.substr(0, 1) == "'" || path.find(" /") != std::string_view::npos;
  return is_text && is_printable && !is_strange;
}

/// A path that is taken as it is, alone or in an array: in quotes, or as its URL where quotes do not protect
/// it.
inline std::string QuotedPath(std::string_view path) {
  // In an array a star would repeat the element, and brackets would make one of a single path.
  const bool is_exact =
      path.find('*') == std::string_view::npos &&
      (path.empty() || std::string_view("([{").find(path.front()) == std::string_view::npos);
  return '"' + (is_exact && IsPlainPath(path) ? std::string(path) : UrlOf(path, false)) + '"';
}

/// A path or a pattern, otherwise as QuotedPath.
inline std::string QuotedPattern(std::string_view path) {
  return '"' + (IsPlainPath(path) ? std::string(path) : UrlOf(path, true)) + '"';
}

/// Paths as an array of a configuration.
inline std::string QuotedArray(const std::vector<std::string>& paths) {
  std::string text = "(";
  for (const std::string& path : paths) text += (text.size() == 1 ? "" : ":") + QuotedPath(path);
  return text + ")";
}

/// The file of a deserializer of text or binary data, or several.
class Files {
 public:
  explicit Files(std::string file) : paths_{std::move(file)} {}

  void Add(std::string file) { paths_.push_back(std::move(file)); }

  /// The key of a single file, whose path is taken as it is; empty if there are several.
  std::string_view LiteralKey() const noexcept { return paths_.size() == 1 ? "file" : ""; }
  std::string_view Literal() const noexcept { return paths_.front(); }

  /// Adds the key as a configuration has it.
  void Write(Keys& keys) const {
    if (paths_.size() == 1) return keys.Set("file", QuotedPattern(paths_.front()));
    std::string text = "(";
    for (const std::string& path : paths_) text += (text.size() == 1 ? "" : ":") + QuotedPattern(path);
    keys.Set("file", text + ")");
  }

 private:
  std::vector<std::string> paths_;
};

/// The section of a deserializer of one stream.
class StreamSection {
 public:
  /// `module` may be empty. `file_key` is the key of the deserializer's file, whose path may have any
  /// characters.
  StreamSection(std::string type, std::string module, std::string stream, std::string file_key,
                std::string file)
      : type_(std::move(type)),
        module_(std::move(module)),
        stream_(std::move(stream)),
        file_key_(std::move(file_key)),
        file_(std::move(file)) {}

  /// Keys of the deserializer.
  Keys outer;
  /// Keys of the stream.
  Keys inner;

  /// Empty once there is more than one file.
  const std::string& FileKey() const noexcept { return file_key_; }
  const std::string& File() const noexcept { return file_; }

  /// All keys but the file.
  Keys AllKeys() const {
    Keys keys;
    keys.Set("type", type_);
    if (!module_.empty()) keys.Set("module", module_);
    for (const auto& [key, value] : outer.All()) keys.Set(key, value);
    std::string stream;
    for (const auto& [key, value] : inner.All())
      stream += (stream.empty() ? " " : " ; ") + key + " = " + value;
    keys.Set("input", "[ " + StreamKey(stream_) + " = [" + stream + " ] ]");
    return keys;
  }

  /// The section as a configuration has it.
  std::string Text() const {
    Keys keys = AllKeys();
    if (!file_key_.empty()) keys.Set(file_key_, QuotedPath(file_));
    return "[\n" + keys.Text("  ") + "]";
  }

  /// Has the file in an array instead, which the caller keeps.
  void WithoutFile() {
    file_key_.clear();
    file_.clear();
  }

 private:
  std::string type_;
  std::string module_;
  std::string stream_;
  std::string file_key_;
  std::string file_;
};

}  // namespace detail
}  // namespace reader
}  // namespace cntk

#endif  // CNTK_READER_SECTION_HPP
