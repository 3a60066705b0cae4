// Data that user-defined deserializers pass to the library: streams, lists of sequences, arrays,
// single sequences.
//
// Part of <cntk_reader.hpp>; include that.

#ifndef CNTK_READER_USER_DATA_HPP
#define CNTK_READER_USER_DATA_HPP

#include <cntk_reader.h>

#include <cntk_reader/error.hpp>
#include <cntk_reader/stream.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace cntk {
namespace reader {

namespace detail {
class UserTable;
}  // namespace detail

/// A stream of a user-defined deserializer. Its number is its position in the list.
struct UserStream {
  std::string name;
  std::vector<std::size_t> shape;  ///< Of a sample, first dimension fastest; empty for scalars.
  Storage storage = Storage::kDense;
  ElementType element = ElementType::kFloat;
  bool defines_mb_size = false;  ///< Minibatch sizes are measured in this stream's samples.
};

/// The sequences of a chunk.
struct UserSequences {
  std::size_t count = 0;               ///< Number of sequences; may be 0.
  std::vector<std::uint32_t> lengths;  ///< In samples. Empty: all have one sample.
  std::vector<std::uint64_t> keys;     ///< Keys as numbers, or empty.
  /// Keys as texts, or empty. Without `keys` and `key_texts`, a key is the sequence's ordinal in
  /// the whole data.
  std::vector<std::string> key_texts;
  /// If each sample of a sequence is a sequence of its own (frame mode), its sample number within
  /// the sequence of its key. Empty: 0 for all.
  std::vector<std::uint32_t> sample_indices;
};

/// A sequence of the reader's first deserializer.
struct SequenceInfo {
  std::uint32_t chunk = 0;    ///< Number of its chunk.
  std::uint32_t index = 0;    ///< Its position among the chunk's sequences.
  std::uint32_t samples = 0;  ///< Its length in samples.
  std::uint32_t sample = 0;   ///< Its sample number: see UserSequences::sample_indices.
  std::uint64_t key = 0;      ///< Its key as a number.
};

/// Place of a sequence: its chunk, its position among the chunk's sequences, and its length in
/// samples.
struct SequencePlace {
  std::uint32_t chunk = 0;
  std::uint32_t index = 0;
  std::uint32_t samples = 0;
};

/// An array of samples: a DenseArray or a SparseArray. Copies share the memory.
class UserArray {
 protected:
  UserArray() = default;

  /// Takes ownership of a list, and returns a view of it.
  template <typename T>
  Span<const T> Keep(std::vector<T> list) {
    auto kept = std::make_shared<const std::vector<T>>(std::move(list));
    const Span<const T> view(kept->data(), kept->size());
    owners_.push_back(std::move(kept));
    return view;
  }

  template <typename T>
  void SetValues(Span<const T> values) {
    element_ = detail::ElementOf<T>();
    values_ = values.data();
    values_size_ = values.size() * sizeof(T);
  }

  template <typename Index, typename Offset>
  void SetPlaces(Span<const Index> indices, Span<const Offset> offsets) {
    static_assert(std::is_integral_v<Index> && std::is_signed_v<Index> && sizeof(Index) >= 4,
                  "indices are std::int32_t or std::int64_t");
    static_assert(std::is_integral_v<Offset> && std::is_signed_v<Offset> && sizeof(Offset) >= 4,
                  "offsets are std::int32_t or std::int64_t");
    if (offsets.empty())
      throw std::invalid_argument("A sparse array has no offsets. Expected one more than samples.");
    indices_ = indices.data();
    index_count_ = indices.size();
    index_size_ = sizeof(Index);
    offsets_ = offsets.data();
    offset_size_ = sizeof(Offset);
    samples_ = offsets.size() - 1;
  }

  ElementType element_ = ElementType::kFloat;
  const void* values_ = nullptr;
  std::size_t values_size_ = 0;
  std::size_t byte_offset_ = 0;
  std::optional<std::size_t> samples_;
  std::vector<std::size_t> shape_;
  std::vector<std::ptrdiff_t> strides_;  // In bytes.
  const void* indices_ = nullptr;
  std::size_t index_count_ = 0;
  std::uint32_t index_size_ = 0;
  const void* offsets_ = nullptr;
  std::uint32_t offset_size_ = 0;
  std::vector<std::shared_ptr<const void>> owners_;
  detail::MovedFrom moved_;  // The pointers refer to memory of the owners.

 private:
  friend class detail::UserTable;
};

/// A dense array of samples: by default contiguous, sample by sample.
template <typename T>
class DenseArray : public UserArray {
 public:
  /// Creates an array that owns its values.
  explicit DenseArray(std::vector<T> values) { SetValues(Keep(std::move(values))); }
  /// Creates an array that refers to other memory, which the chunk's owner must keep alive.
  explicit DenseArray(Span<const T> values) { SetValues(values); }

  /// Sets the number of samples; by default as many as the values fill.
  DenseArray& SetSamples(std::size_t samples) {
    moved_.Check("DenseArray");
    samples_ = samples;
    return *this;
  }

  /// Sets the shape of a sample, which is then checked against the stream's.
  DenseArray& SetShape(std::vector<std::size_t> shape) {
    moved_.Check("DenseArray");
    shape_ = std::move(shape);
    return *this;
  }

  /// Makes the array strided: `samples` samples, starting at the value with the number `first`.
  /// `strides` are in values, for each dimension of a sample and then for the samples; they may be
  /// negative or 0.
  DenseArray& SetStrides(std::size_t samples, std::size_t first, std::vector<std::ptrdiff_t> strides) {
    moved_.Check("DenseArray");
    samples_ = samples;
    byte_offset_ = first * sizeof(T);
    strides_ = std::move(strides);
    for (std::ptrdiff_t& stride : strides_) stride *= static_cast<std::ptrdiff_t>(sizeof(T));
    return *this;
  }
};

/// A sparse array of samples: sample s has the entries from offsets[s] up to, but not including,
/// offsets[s + 1], each with its index within the sample. There is one more offset than samples.
template <typename T, typename Index, typename Offset>
class SparseArray : public UserArray {
 public:
  /// Creates an array that owns its lists.
  SparseArray(std::vector<T> values, std::vector<Index> indices, std::vector<Offset> offsets) {
    SetValues(Keep(std::move(values)));
    const Span<const Index> kept = Keep(std::move(indices));
    SetPlaces(kept, Keep(std::move(offsets)));
  }
  /// Creates an array that refers to other memory, which the chunk's owner must keep alive.
  SparseArray(Span<const T> values, Span<const Index> indices, Span<const Offset> offsets) {
    SetValues(values);
    SetPlaces(indices, offsets);
  }
};

/// One stream's data in a chunk, grouped into sequences.
class UserStreamData {
 public:
  /// Each sample of the array is a sequence.
  static UserStreamData Samples(UserArray array) {
    return UserStreamData(CNTK_READER_GROUPING_SAMPLES, {std::move(array)}, {});
  }
  /// The array has the samples of all sequences, one sequence after another; `lengths` has the
  /// number of samples of each.
  static UserStreamData Sequences(UserArray array, std::vector<std::uint32_t> lengths) {
    return UserStreamData(CNTK_READER_GROUPING_SEQUENCES, {std::move(array)}, std::move(lengths));
  }
  /// Each array is a sequence.
  static UserStreamData Arrays(std::vector<UserArray> arrays) {
    return UserStreamData(CNTK_READER_GROUPING_ARRAYS, std::move(arrays), {});
  }

 private:
  friend class detail::UserTable;
  UserStreamData(int grouping, std::vector<UserArray> arrays, std::vector<std::uint32_t> lengths)
      : grouping_(grouping), arrays_(std::move(arrays)), lengths_(std::move(lengths)) {}

  int grouping_;
  std::vector<UserArray> arrays_;
  std::vector<std::uint32_t> lengths_;
  detail::MovedFrom moved_;
};

/// One sequence in all streams, to be filled in by a FetchedChunk. Initially empty; its memory is
/// recycled.
class UserSequence {
 public:
  UserSequence(const UserSequence&) = delete;
  UserSequence& operator=(const UserSequence&) = delete;

  /// Returns the values of a dense stream, to be filled in sample by sample.
  template <typename T>
  std::vector<T>& Dense(std::size_t stream) {
    return List<T>(stream, Storage::kDense);
  }

  /// Adds a sample to a sparse stream: its values, and their indices within the sample.
  template <typename T>
  void PushSparse(std::size_t stream, Span<const T> values, Span<const std::int32_t> indices) {
    if (values.size() != indices.size())
      throw std::invalid_argument("A sparse sample has " + std::to_string(values.size()) + " values, but " +
                                  std::to_string(indices.size()) + " indices.");
    std::vector<T>& list = List<T>(stream, Storage::kSparseCsc);
    std::size_t size = 1;
    for (const std::size_t dimension : (*described_)[stream].shape) size *= dimension;
    for (const std::int32_t index : indices)
      if (index < 0 || static_cast<std::size_t>(index) >= size)
        throw std::invalid_argument("A value has the index " + std::to_string(index) + ", but a sample has " +
                                    std::to_string(size) + " values.");
    list.insert(list.end(), values.begin(), values.end());
    streams_[stream].indices.insert(streams_[stream].indices.end(), indices.begin(), indices.end());
    streams_[stream].counts.push_back(static_cast<std::int32_t>(values.size()));
  }

  /// Sets the key that minibatches report; by default the listed one.
  void SetKey(std::uint64_t key) noexcept { key_ = key; }
  /// Sets the shape of the samples in a stream whose description leaves it open.
  void SetShape(std::size_t stream, std::vector<std::size_t> shape) {
    streams_.at(stream).shape = std::move(shape);
  }
  /// Marks the sequence as unusable: it is left out and counted against the reader's `maxErrors`.
  void SetInvalid() noexcept { is_invalid_ = true; }

 private:
  friend class detail::UserTable;

  struct StreamValues {
    std::variant<std::vector<float>, std::vector<double>, std::vector<Float16>, std::vector<std::int16_t>,
                 std::vector<std::uint8_t>, std::vector<std::int32_t>, std::vector<std::int64_t>,
                 std::vector<BFloat16>, std::vector<Bool>>
        values;
    std::vector<std::int32_t> indices;
    std::vector<std::int32_t> counts;
    std::vector<std::size_t> shape;

    const void* Values() const {
      return std::visit([](const auto& list) { return static_cast<const void*>(list.data()); }, values);
    }
    std::size_t ValueCount() const {
      return std::visit([](const auto& list) { return list.size(); }, values);
    }
  };

  explicit UserSequence(std::shared_ptr<const std::vector<UserStream>> described)
      : described_(std::move(described)), streams_(described_->size()) {
    for (std::size_t i = 0; i < streams_.size(); ++i) SetType(streams_[i], (*described_)[i].element);
  }

  static void SetType(StreamValues& data, ElementType element) {
    switch (element) {
      case ElementType::kFloat:
        data.values = std::vector<float>();
        break;
      case ElementType::kDouble:
        data.values = std::vector<double>();
        break;
      case ElementType::kFloat16:
        data.values = std::vector<Float16>();
        break;
      case ElementType::kInt16:
        data.values = std::vector<std::int16_t>();
        break;
      case ElementType::kUInt8:
        data.values = std::vector<std::uint8_t>();
        break;
      case ElementType::kInt32:
        data.values = std::vector<std::int32_t>();
        break;
      case ElementType::kInt64:
        data.values = std::vector<std::int64_t>();
        break;
      case ElementType::kBFloat16:
        data.values = std::vector<BFloat16>();
        break;
      case ElementType::kBool:
        data.values = std::vector<Bool>();
        break;
    }
  }

  void Clear() {
    for (StreamValues& data : streams_) {
      std::visit([](auto& list) { list.clear(); }, data.values);
      data.indices.clear();
      data.counts.clear();
      data.shape.clear();
    }
    key_.reset();
    is_invalid_ = false;
  }

  template <typename T>
  std::vector<T>& List(std::size_t stream, Storage storage) {
    constexpr ElementType element = detail::ElementOf<T>();
    if (stream >= streams_.size())
      throw std::invalid_argument("There is no stream " + std::to_string(stream) + ".");
    const UserStream& described = (*described_)[stream];
    if (described.storage != storage)
      throw std::invalid_argument(
          "Stream '" + described.name +
          "': " + (storage == Storage::kDense ? "it is sparse: use PushSparse." : "it is dense: use Dense."));
    auto* list = std::get_if<std::vector<T>>(&streams_[stream].values);
    if (list == nullptr)
      throw std::invalid_argument("Stream '" + described.name + "' has values of the type " +
                                  detail::NameOf(described.element) + ", not " + detail::NameOf(element) +
                                  ".");
    return *list;
  }

  /// Returns the number of samples filled in.
  std::size_t Samples(std::size_t stream) const {
    const UserStream& described = (*described_)[stream];
    const StreamValues& data = streams_[stream];
    if (described.storage == Storage::kSparseCsc) return data.counts.size();
    std::size_t size = 1;
    for (const std::size_t dimension : data.shape.empty() ? described.shape : data.shape) size *= dimension;
    const std::size_t count = data.ValueCount();
    if (size == 0 || count % size != 0)
      throw std::invalid_argument("Stream '" + described.name + "': " + std::to_string(count) +
                                  " values are not a whole number of samples of " + std::to_string(size) +
                                  ".");
    return count / size;
  }

  std::shared_ptr<const std::vector<UserStream>> described_;
  std::vector<StreamValues> streams_;
  std::optional<std::uint64_t> key_;
  bool is_invalid_ = false;
};

/// A loaded chunk that returns one sequence at a time, for example images that have to be decoded,
/// or frames with their neighbours.
class FetchedChunk {
 public:
  FetchedChunk() = default;
  FetchedChunk(const FetchedChunk&) = delete;
  FetchedChunk& operator=(const FetchedChunk&) = delete;
  virtual ~FetchedChunk() = default;

  /// Fills in a sequence; `index` is its position among the chunk's sequences. Called on the thread
  /// that reads, or on several at once if the configuration sets `multiThreadedDeserialization`.
  virtual void FetchSequence(std::uint32_t index, UserSequence& sequence) = 0;
  /// Returns the chunk's sequences, if UserDeserializer::GetSequences does not list them in
  /// advance.
  virtual std::optional<UserSequences> GetSequences() { return std::nullopt; }
};

/// The data of a chunk: arrays of all streams, or an object that returns one sequence at a time.
class UserChunk {
 public:
  UserChunk() = default;
  /// Creates a chunk from the arrays of each stream, by stream number, all with the same number of
  /// sequences. `owner` keeps alive the memory of arrays that do not own theirs, and anything else
  /// that the chunk needs.
  explicit UserChunk(std::vector<UserStreamData> streams, std::shared_ptr<const void> owner = nullptr)
      : streams_(std::move(streams)), owner_(std::move(owner)) {}
  /// Creates a chunk whose sequences are fetched; UserDeserializer::FetchesSequences must return
  /// true.
  static UserChunk Fetched(std::unique_ptr<FetchedChunk> fetched) {
    if (fetched == nullptr) throw std::invalid_argument("The FetchedChunk is null.");
    UserChunk chunk;
    chunk.fetched_ = std::move(fetched);
    return chunk;
  }

  /// Keys of the sequences of a chunk of arrays, if they are not listed in advance. Empty: chunk *
  /// 2^32 + index.
  std::vector<std::uint64_t> keys;

 private:
  friend class detail::UserTable;
  std::vector<UserStreamData> streams_;
  std::unique_ptr<FetchedChunk> fetched_;
  std::shared_ptr<const void> owner_;
  detail::MovedFrom moved_;
};

}  // namespace reader
}  // namespace cntk

#endif  // CNTK_READER_USER_DATA_HPP
