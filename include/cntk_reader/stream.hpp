// Streams: what their samples are, and views of them.
//
// A part of <cntk_reader.hpp>, which is the one to include.

#ifndef CNTK_READER_STREAM_HPP
#define CNTK_READER_STREAM_HPP

#include <cntk_reader.h>

#include <cntk_reader/error.hpp>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace cntk {
namespace reader {

/// A run of elements that somebody else owns; std::span for C++17.
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
enum class ElementType { kFloat = CNTK_READER_ELEMENT_FLOAT, kDouble = CNTK_READER_ELEMENT_DOUBLE };

/// Description of a stream.
struct StreamDescription {
  std::string name;
  std::size_t id = 0;  ///< Index among the streams of the reader, and of every minibatch.
  Storage storage = Storage::kDense;
  ElementType element = ElementType::kFloat;
  std::vector<std::size_t> shape;  ///< Of one sample, first dimension varying fastest.
  std::size_t sample_size = 0;     ///< Values of one sample: the product of `shape`.
  bool defines_mb_size = false;    ///< Minibatch sizes are measured in this stream's samples.
  /// The values are opaque bytes such as lattices, four of them a sample. In minibatches of whole sequences
  /// the bytes of each sequence are next to each other: see StreamMinibatch::IsSequenceMajor.
  bool is_binary = false;
};

using StreamDescriptions = std::vector<StreamDescription>;

namespace detail {

/// The stream with this name, or an error that names those that are there.
inline const StreamDescription& FindStream(const StreamDescriptions& streams, std::string_view name) {
  std::string names;
  for (const StreamDescription& stream : streams) {
    if (stream.name == name) return stream;
    names += (names.empty() ? " There are: '" : "', '") + stream.name;
  }
  if (!names.empty()) names += "'.";
  throw Error(ErrorKind::kInvalidArgument, "There is no stream '" + std::string(name) + "'." + names);
}

}  // namespace detail

}  // namespace reader
}  // namespace cntk

#endif  // CNTK_READER_STREAM_HPP
