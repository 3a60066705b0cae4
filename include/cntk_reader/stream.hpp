// Streams: descriptions, element types, and views of values.
//
// Part of <cntk_reader.hpp>; include that.

#ifndef CNTK_READER_STREAM_HPP
#define CNTK_READER_STREAM_HPP

#include <cntk_reader.h>

#include <cntk_reader/error.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace cntk {
namespace reader {

/// A view of contiguous elements; std::span for C++17.
template <typename T>
class Span {
 public:
  constexpr Span() noexcept = default;
  constexpr Span(T* data, std::size_t size) noexcept : data_(data), size_(size) {}

  constexpr T* data() const noexcept { return data_; }
  constexpr std::size_t size() const noexcept { return size_; }
  constexpr bool empty() const noexcept { return size_ == 0; }
  constexpr T* begin() const noexcept { return data_; }
  constexpr T* end() const noexcept { return data_ + size_; }
  constexpr T& operator[](std::size_t index) const { return data_[index]; }
  constexpr Span subspan(std::size_t offset, std::size_t count) const { return Span(data_ + offset, count); }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

enum class Storage { kDense = CNTK_READER_STORAGE_DENSE, kSparseCsc = CNTK_READER_STORAGE_SPARSE_CSC };
/// Type of a stream's values. Sparse streams have kFloat or kDouble.
enum class ElementType {
  kFloat = CNTK_READER_ELEMENT_FLOAT,        ///< `float`
  kDouble = CNTK_READER_ELEMENT_DOUBLE,      ///< `double`
  kFloat16 = CNTK_READER_ELEMENT_FLOAT16,    ///< Float16
  kInt16 = CNTK_READER_ELEMENT_INT16,        ///< `std::int16_t`
  kUInt8 = CNTK_READER_ELEMENT_UINT8,        ///< `std::uint8_t`
  kInt32 = CNTK_READER_ELEMENT_INT32,        ///< `std::int32_t`
  kInt64 = CNTK_READER_ELEMENT_INT64,        ///< `std::int64_t`
  kBFloat16 = CNTK_READER_ELEMENT_BFLOAT16,  ///< BFloat16
  kBool = CNTK_READER_ELEMENT_BOOL,          ///< Bool
};

/// The bits of an IEEE half-precision number.
struct Float16 {
  std::uint16_t bits = 0;
};

/// The bits of a bfloat16: the upper 16 bits of a `float`.
struct BFloat16 {
  std::uint16_t bits = 0;
};

/// A Boolean: a byte that is 0 or 1. (std::vector<bool> has no bytes.)
struct Bool {
  std::uint8_t byte = 0;
};

namespace detail {

template <typename T, typename... Others>
inline constexpr bool kIsOneOf = (std::is_same_v<T, Others> || ...);

/// Returns the element type of a C++ type.
template <typename T>
constexpr ElementType ElementOf() {
  static_assert(kIsOneOf<T, float, double, Float16, std::int16_t, std::uint8_t, std::int32_t, std::int64_t,
                         BFloat16, Bool>,
                "values are float, double, std::int16_t, std::uint8_t, std::int32_t, std::int64_t, Float16, "
                "BFloat16 or Bool");
  if (std::is_same_v<T, double>) return ElementType::kDouble;
  if (std::is_same_v<T, Float16>) return ElementType::kFloat16;
  if (std::is_same_v<T, std::int16_t>) return ElementType::kInt16;
  if (std::is_same_v<T, std::uint8_t>) return ElementType::kUInt8;
  if (std::is_same_v<T, std::int32_t>) return ElementType::kInt32;
  if (std::is_same_v<T, std::int64_t>) return ElementType::kInt64;
  if (std::is_same_v<T, BFloat16>) return ElementType::kBFloat16;
  if (std::is_same_v<T, Bool>) return ElementType::kBool;
  return ElementType::kFloat;
}

/// Returns the size of a value in bytes.
constexpr std::size_t SizeOf(ElementType element) {
  switch (element) {
    case ElementType::kDouble:
    case ElementType::kInt64:
      return 8;
    case ElementType::kFloat16:
    case ElementType::kBFloat16:
    case ElementType::kInt16:
      return 2;
    case ElementType::kUInt8:
    case ElementType::kBool:
      return 1;
    case ElementType::kFloat:
    case ElementType::kInt32:
      break;
  }
  return 4;
}

/// Returns the name of a type for messages.
constexpr const char* NameOf(ElementType element) {
  switch (element) {
    case ElementType::kFloat:
      return "float";
    case ElementType::kDouble:
      return "double";
    case ElementType::kFloat16:
      return "Float16";
    case ElementType::kInt16:
      return "std::int16_t";
    case ElementType::kUInt8:
      return "std::uint8_t";
    case ElementType::kInt32:
      return "std::int32_t";
    case ElementType::kInt64:
      return "std::int64_t";
    case ElementType::kBFloat16:
      return "BFloat16";
    case ElementType::kBool:
      return "Bool";
  }
  return "another type";
}

}  // namespace detail

/// Description of a stream.
struct StreamDescription {
  std::string name;
  std::size_t id = 0;  ///< Index among the streams of the reader and of every minibatch.
  Storage storage = Storage::kDense;
  ElementType element = ElementType::kFloat;
  std::vector<std::size_t> shape;  ///< Of a sample, first dimension varying fastest.
  std::size_t sample_size = 0;     ///< Values per sample: the product of `shape`.
  bool defines_mb_size = false;    ///< Minibatch sizes are measured in this stream's samples.
  /// The values are opaque bytes, such as lattices, with four bytes per sample. In minibatches of
  /// whole sequences the bytes of each sequence are contiguous: see
  /// StreamMinibatch::IsSequenceMajor.
  bool is_binary = false;
  /// Number of classes if the values are class numbers (0 to `classes` - 1), else 0.
  std::size_t classes = 0;
};

using StreamDescriptions = std::vector<StreamDescription>;

namespace detail {

/// Returns the stream with this name. Throws an error that lists the existing names.
inline const StreamDescription& FindStream(const StreamDescriptions& streams, std::string_view name) {
  std::string names;
  for (const StreamDescription& stream : streams) {
    if (stream.name == name) return stream;
    names += (names.empty() ? " The streams are: '" : "', '") + stream.name;
  }
  if (!names.empty()) names += "'.";
  throw Error(ErrorKind::kInvalidArgument, "There is no stream '" + std::string(name) + "'." + names);
}

}  // namespace detail

}  // namespace reader
}  // namespace cntk

#endif  // CNTK_READER_STREAM_HPP
