// Minibatches: streams, sequences, columns and keys.
//
// Part of <cntk_reader.hpp>; include that.

#ifndef CNTK_READER_MINIBATCH_HPP
#define CNTK_READER_MINIBATCH_HPP

#include <cntk_reader.h>

#include <cntk_reader/error.hpp>
#include <cntk_reader/stream.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace cntk {
namespace reader {

/// A run of steps in one lane (a parallel sequence) that belongs to one sequence, or to none (a
/// gap).
struct Record {
  std::uint64_t sequence;  ///< Number of the sequence in the minibatch, the same in all streams.
  std::uint64_t lane;      ///< From 0.
  std::int64_t begin;      ///< First step; negative if the sequence began in an earlier minibatch.
  std::uint64_t end;       ///< The step after the last one; it may be beyond the minibatch.
};

/// Returns whether a record marks columns without data.
inline bool IsGap(const Record& record) noexcept { return record.sequence == CNTK_READER_GAP; }

// Views of records reinterpret the C structs.
static_assert(sizeof(Record) == sizeof(cntk_reader_record) &&
              offsetof(Record, lane) == offsetof(cntk_reader_record, lane) &&
              offsetof(Record, begin) == offsetof(cntk_reader_record, begin) &&
              offsetof(Record, end) == offsetof(cntk_reader_record, end));

/// Sequences padded to one length.
template <typename T>
struct PaddedSequences {
  /// sequences * length samples of SampleSize() values, or of one index, each.
  std::vector<T> values;
  std::vector<std::uint8_t> mask;  ///< sequences * length numbers: 1 for a sample, 0 for padding.
  std::size_t sequences;           ///< Number of sequences.
  std::size_t length;              ///< Samples per sequence, including padding.
};

/// Sequences one after another, without padding.
template <typename T>
struct PackedSequences {
  std::vector<T> values;              ///< Samples of SampleSize() values, or of one index, each.
  std::vector<std::int32_t> offsets;  ///< Sequence i is samples offsets[i] to offsets[i + 1] - 1.
  std::size_t longest;                ///< Samples of the longest sequence.
};

/// The values of a sparse stream in compressed columns, with ascending, unique indices in each
/// column.
template <typename T>
struct CanonicalColumns {
  std::vector<T> values;              ///< The stored values, column by column.
  std::vector<std::int32_t> indices;  ///< The index of each value within its column.
  std::vector<std::int32_t> offsets;  ///< Column c is values offsets[c] to offsets[c + 1] - 1.
};

/// Samples of several weighted indices each, sequence by sequence, in the form that embedding bags
/// take.
template <typename T, typename I = std::int32_t>
struct BagsOfIndices {
  std::vector<I> indices;                      ///< The index of each entry.
  std::vector<T> weights;                      ///< The value of each entry. Empty if all are 1.
  std::vector<std::int32_t> offsets;           ///< Sample s has the entries from offsets[s] on.
  std::vector<std::int32_t> sequence_offsets;  ///< Number of each sequence's first sample.
};

class StreamMinibatch;

/// The steps of one sequence within a minibatch. A view.
class Sequence {
 public:
  /// Number of the sequence within the minibatch, the same in all streams.
  std::size_t Number() const noexcept { return static_cast<std::size_t>(record_.sequence); }
  /// First step within the minibatch.
  std::size_t Begin() const noexcept { return begin_; }
  /// The step after the last one within the minibatch.
  std::size_t End() const noexcept { return end_; }
  /// Number of steps within the minibatch.
  std::size_t Steps() const noexcept { return end_ - begin_; }
  /// Whether the sequence began in an earlier minibatch (truncated mode).
  bool IsContinued() const noexcept { return record_.begin < 0; }
  /// The column of a step, counted from Begin().
  std::size_t Column(std::size_t step) const noexcept { return first_ + (begin_ + step) * stride_; }
  /// The record itself.
  const Record& GetRecord() const noexcept { return record_; }

 private:
  friend class StreamMinibatch;
  Sequence(const Record& record, const cntk_reader_minibatch_stream& parts) noexcept
      : record_(record),
        begin_(record.begin < 0 ? 0 : static_cast<std::size_t>(record.begin)),
        end_(record.end < parts.steps ? static_cast<std::size_t>(record.end) : parts.steps),
        first_(static_cast<std::size_t>(record.lane) * (parts.sequence_major ? parts.steps : 1)),
        stride_(parts.sequence_major ? 1 : parts.lanes) {}

  Record record_;
  // `first_` is the column of the lane's first step, `stride_` the distance of two steps in
  // columns.
  std::size_t begin_, end_, first_, stride_;
};

/// One stream of a minibatch. A view.
///
/// The data are Columns() = Steps() * Lanes() columns of SampleSize() values; step t of lane s is
/// column t * Lanes() + s, or s * Steps() + t if the stream is sequence-major.
class StreamMinibatch {
 public:
  std::size_t Steps() const noexcept { return parts_.steps; }
  std::size_t Lanes() const noexcept { return parts_.lanes; }
  std::size_t Columns() const noexcept { return parts_.columns; }
  /// Number of columns with data.
  std::size_t Samples() const noexcept { return parts_.samples; }
  /// Number of sequences with data.
  std::size_t SequenceCount() const noexcept { return parts_.sequences; }
  /// Values per sample.
  std::size_t SampleSize() const noexcept { return parts_.sample_size; }
  std::uint64_t RightSplice() const noexcept { return parts_.right_splice; }
  /// Whether the data are ordered by lanes instead of steps, as in binary streams of whole
  /// sequences. Each sequence then has its own lane; its samples are adjacent, and followed by
  /// zeros without a record.
  bool IsSequenceMajor() const noexcept { return parts_.sequence_major != 0; }
  bool IsSparse() const noexcept { return parts_.storage == CNTK_READER_STORAGE_SPARSE_CSC; }
  ElementType Element() const noexcept { return static_cast<ElementType>(parts_.element); }

  /// The columns of each sequence and the gaps.
  Span<const Record> Records() const noexcept {
    return {reinterpret_cast<const Record*>(parts_.records), parts_.record_count};
  }

  /// The sequences with data, in the order of the records.
  std::vector<Sequence> Sequences() const {
    std::vector<Sequence> sequences;
    sequences.reserve(parts_.sequences);
    for (const Record& record : Records())
      if (!IsGap(record)) sequences.push_back(Sequence(record, parts_));
    return sequences;
  }

  /// All values (dense), or the stored values (sparse). T must match the stream's element type: see
  /// ElementType.
  template <typename T>
  Span<const T> Values() const {
    constexpr ElementType wanted = detail::ElementOf<T>();
    if (Element() != wanted)
      throw Error(ErrorKind::kInvalidArgument, std::string("The values of this stream are ") +
                                                   detail::NameOf(Element()) + ", not " +
                                                   detail::NameOf(wanted) + ".");
    return {static_cast<const T*>(parts_.values), parts_.value_count};
  }

  /// The values of one column of a dense stream.
  template <typename T>
  Span<const T> Column(std::size_t column) const {
    if (IsSparse())
      throw Error(ErrorKind::kInvalidArgument, "Columns of a sparse stream are not stored whole.");
    return Values<T>().subspan(column * parts_.sample_size, parts_.sample_size);
  }

  /// Calls `visit(index, value)` for each stored value of a column of a sparse stream, or for each
  /// value of a dense one.
  template <typename T, typename Visit>
  void ForEachValue(std::size_t column, Visit&& visit) const {
    const Span<const T> values = Values<T>();
    if (IsSparse()) {
      const auto end = static_cast<std::size_t>(parts_.column_offsets[column + 1]);
      for (auto i = static_cast<std::size_t>(parts_.column_offsets[column]); i < end; ++i)
        visit(static_cast<std::size_t>(parts_.indices[i]), values[i]);
    } else {
      const std::size_t start = column * parts_.sample_size;
      for (std::size_t index = 0; index < parts_.sample_size; ++index) visit(index, values[start + index]);
    }
  }

  /// Sparse: the index of each stored value within its column, in the input's order. Dense: empty.
  Span<const std::int32_t> Indices() const noexcept {
    return {parts_.indices, parts_.indices ? parts_.value_count : 0};
  }

  /// Sparse: the offset of each column's first value, then the number of values. Dense: empty.
  Span<const std::int32_t> ColumnOffsets() const noexcept {
    return {parts_.column_offsets, parts_.column_offsets ? parts_.columns + 1 : 0};
  }

  /// Samples of the longest sequence; in truncated mode, of the part in this minibatch.
  std::size_t Longest() const noexcept { return parts_.longest; }
  /// Whether the first Samples() columns are the sequences one after another without gaps.
  bool IsPacked() const noexcept { return parts_.is_packed != 0; }
  /// Shape of one sample, first dimension varying fastest (column-major).
  Span<const std::size_t> Shape() const noexcept { return {parts_.shape, parts_.shape_rank}; }

  /// Returns the sequences in the order of their numbers, padded with `value` to the length of the
  /// longest, or to `length`, which must be at least that. Samples of a sparse stream become dense.
  /// T must match the stream's element type, and `value` must be representable in it.
  template <typename T>
  PaddedSequences<T> Padded(double value = 0, std::size_t length = 0) const {
    Values<T>();  // Checks the type.
    PaddedSequences<T> padded = Room<T>(length, parts_.sample_size);
    detail::Call(cntk_reader_minibatch_stream_pad, minibatch_, id_, padded.length, value,
                 padded.values.data(), padded.values.size(), padded.mask.data(), padded.mask.size());
    return padded;
  }

  /// Returns the sequences one after another, in the order of their numbers. Samples of a sparse
  /// stream become dense. T must match the stream's element type.
  template <typename T>
  PackedSequences<T> Packed() const {
    Values<T>();  // Checks the type.
    PackedSequences<T> packed{std::vector<T>(parts_.samples * parts_.sample_size),
                              std::vector<std::int32_t>(parts_.sequences + 1), parts_.longest};
    detail::Call(cntk_reader_minibatch_stream_pack, minibatch_, id_, packed.values.data(),
                 packed.values.size(), packed.offsets.data(), packed.offsets.size());
    return packed;
  }

  /// Returns the class index of each sample of a one-hot stream, in the form of Padded(). Samples
  /// that are not one-hot are an error. T is std::int32_t or std::int64_t.
  template <typename T = std::int32_t>
  PaddedSequences<T> PaddedIndices(T value = 0, std::size_t length = 0) const {
    static_assert(detail::kIsOneOf<T, std::int32_t, std::int64_t>,
                  "indices are std::int32_t or std::int64_t");
    PaddedSequences<T> padded = Room<T>(length, 1);
    detail::Call(cntk_reader_minibatch_stream_pad_indices, minibatch_, id_, padded.length,
                 static_cast<std::uint32_t>(detail::ElementOf<T>()), value, padded.values.data(),
                 padded.values.size(), padded.mask.data(), padded.mask.size());
    return padded;
  }

  /// Returns the class index of each sample of a one-hot stream, in the form of Packed(). Samples
  /// that are not one-hot are an error. T is std::int32_t or std::int64_t.
  template <typename T = std::int32_t>
  PackedSequences<T> PackedIndices() const {
    static_assert(detail::kIsOneOf<T, std::int32_t, std::int64_t>,
                  "indices are std::int32_t or std::int64_t");
    PackedSequences<T> packed{std::vector<T>(parts_.samples), std::vector<std::int32_t>(parts_.sequences + 1),
                              parts_.longest};
    detail::Call(cntk_reader_minibatch_stream_pack_indices, minibatch_, id_,
                 static_cast<std::uint32_t>(detail::ElementOf<T>()), packed.values.data(),
                 packed.values.size(), packed.offsets.data(), packed.offsets.size());
    return packed;
  }

  /// Returns the columns of a sparse stream in canonical form: ascending, unique indices in each
  /// column. Values with the same index are added up. T is the stream's element type, float or
  /// double.
  template <typename T>
  CanonicalColumns<T> Canonical() const {
    Values<T>();  // Checks the type.
    CanonicalColumns<T> made{std::vector<T>(parts_.value_count),
                             std::vector<std::int32_t>(parts_.value_count),
                             std::vector<std::int32_t>(parts_.columns + 1)};
    std::size_t count = 0;
    detail::Call(cntk_reader_minibatch_stream_canonical, minibatch_, id_, made.values.data(),
                 made.indices.data(), made.values.size(), made.offsets.data(), made.offsets.size(), &count);
    made.values.resize(count);
    made.indices.resize(count);
    return made;
  }

  /// Returns the entries of a sparse stream's samples, sequence by sequence without gaps, in the
  /// data's order. T is the stream's element type, float or double; I is std::int32_t or
  /// std::int64_t. A dense stream is an error.
  template <typename T, typename I = std::int32_t>
  BagsOfIndices<T, I> Bags() const {
    static_assert(detail::kIsOneOf<I, std::int32_t, std::int64_t>,
                  "indices are std::int32_t or std::int64_t");
    const std::size_t count = Values<T>().size();  // Checks the type.
    BagsOfIndices<T, I> bags{std::vector<I>(count), std::vector<T>(count),
                             std::vector<std::int32_t>(parts_.samples + 1),
                             std::vector<std::int32_t>(parts_.sequences + 1)};
    std::uint8_t are_ones = 0;
    detail::Call(cntk_reader_minibatch_stream_bags, minibatch_, id_,
                 static_cast<std::uint32_t>(detail::ElementOf<I>()), bags.indices.data(), bags.weights.data(),
                 count, bags.offsets.data(), bags.offsets.size(), &are_ones);
    detail::Call(cntk_reader_minibatch_stream_pack, minibatch_, id_, nullptr, std::size_t{0},
                 bags.sequence_offsets.data(), bags.sequence_offsets.size());
    if (are_ones != 0) bags.weights.clear();
    return bags;
  }

  /// The whole block in CNTK's layout, for copying to a device in one piece.
  Span<const unsigned char> Block() const noexcept {
    return {static_cast<const unsigned char*>(parts_.block), parts_.block_size};
  }

 private:
  friend class Minibatch;
  StreamMinibatch(const cntk_reader_minibatch* minibatch, std::size_t id) : minibatch_(minibatch), id_(id) {
    detail::Call(cntk_reader_minibatch_stream_describe, minibatch, id, &parts_);
  }

  /// Allocates a padded form with `width` values per sample; a `length` of 0 means that of the
  /// longest sequence.
  template <typename T>
  PaddedSequences<T> Room(std::size_t length, std::size_t width) const {
    if (length == 0) length = parts_.longest;
    const std::size_t samples = parts_.sequences * length;
    // Allocation failures are reported here; the library reports a length that is too short.
    const bool fits = length >= parts_.longest;
    return {std::vector<T>(fits ? samples * width : 0), std::vector<std::uint8_t>(fits ? samples : 0),
            parts_.sequences, length};
  }

  const cntk_reader_minibatch* minibatch_;
  std::size_t id_;
  cntk_reader_minibatch_stream parts_ = detail::Sized<cntk_reader_minibatch_stream>();
};

/// A minibatch: the streams' data, the keys of the sequences, and flags. Copies share the data.
class Minibatch {
 public:
  Minibatch() noexcept = default;

  /// Whether the minibatch has data: false past the end of the epoch.
  explicit operator bool() const { return Info().stream_count != 0; }
  /// Whether it reaches or crosses the end of a sweep.
  bool EndOfSweep() const { return Info().end_of_sweep != 0; }
  /// Whether it is a training step: it has data, or workers in lockstep take part in it, some of
  /// them without data.
  bool IsStep() const { return Info().is_step != 0; }
  /// Whether it is the last minibatch of the epoch or comes after the last.
  bool EndOfEpoch() const { return Info().end_of_epoch != 0; }

  /// Number of streams: that of the reader, or 0.
  std::size_t size() const { return Info().stream_count; }

  /// Returns a stream by number. Keep the minibatch in a variable: a view of a temporary would
  /// dangle, and does not compile.
  StreamMinibatch operator[](std::size_t id) const& {
    CheckData();
    return StreamMinibatch(content_.handle, id);
  }
  StreamMinibatch operator[](std::size_t id) const&& = delete;

  /// Returns a stream by name.
  StreamMinibatch operator[](std::string_view name) const& {
    CheckData();
    return (*this)[detail::FindStream(GetStreamDescriptions(), name).id];
  }
  StreamMinibatch operator[](std::string_view name) const&& = delete;

  /// The key of each sequence as a number, by the sequence's number: the number in the data or, if
  /// keys are texts, a number that stands for the text as long as the reader exists.
  Span<const std::uint64_t> Keys() const& { return {Info().keys, Info().key_count}; }
  Span<const std::uint64_t> Keys() const&& = delete;

  /// Returns the key of a sequence as text.
  std::string Key(std::size_t sequence) const {
    CheckData();
    std::string text(32, '\0');
    for (std::size_t length = 0;;) {
      detail::Call(cntk_reader_minibatch_get_key_text, content_.handle, sequence, text.data(),
                   text.size() + 1, &length);
      const bool complete = length <= text.size();
      text.resize(length);
      if (complete) return text;
    }
  }

  /// The descriptions of the streams, in order.
  const StreamDescriptions& GetStreamDescriptions() const& {
    moved_.Check("Minibatch");
    static const StreamDescriptions none;
    return streams_ ? *streams_ : none;
  }
  const StreamDescriptions& GetStreamDescriptions() const&& = delete;

 private:
  friend class Reader;
  Minibatch(const cntk_reader_minibatch* handle, std::shared_ptr<const StreamDescriptions> streams)
      : content_(handle), streams_(std::move(streams)) {
    detail::Call(cntk_reader_minibatch_describe, handle, &content_.info);
  }

  const cntk_reader_minibatch_info& Info() const {
    moved_.Check("Minibatch");
    return content_.info;
  }

  /// Throws if there are no streams and sequences to look into.
  void CheckData() const {
    if (*this) return;
    const char* why = "nothing was read into it";
    if (content_.handle)
      why = EndOfEpoch() ? "the epoch has ended" : "this worker's share of it has no sequence";
    throw Error(ErrorKind::kInvalidArgument, std::string("The minibatch has no data, because ") + why +
                                                 ". Test it first, as in `if (minibatch)`.");
  }

  /// A counted reference to the handle; empty after a move.
  struct Content {
    Content() noexcept = default;
    explicit Content(const cntk_reader_minibatch* minibatch) noexcept : handle(minibatch) {}
    Content(const Content& other) noexcept : handle(other.handle), info(other.info) {
      cntk_reader_minibatch_retain(handle);
    }
    Content(Content&& other) noexcept
        : handle(std::exchange(other.handle, nullptr)), info(std::exchange(other.info, kNothing)) {}
    Content& operator=(Content other) noexcept {
      std::swap(handle, other.handle);
      std::swap(info, other.info);
      return *this;
    }
    ~Content() { cntk_reader_minibatch_release(handle); }

    static constexpr cntk_reader_minibatch_info kNothing = {
        sizeof(cntk_reader_minibatch_info), 0, 0, 0, nullptr, 0, 0, 0};

    const cntk_reader_minibatch* handle = nullptr;
    cntk_reader_minibatch_info info = kNothing;
  };

  Content content_;
  std::shared_ptr<const StreamDescriptions> streams_;
  detail::MovedFrom moved_;
};

}  // namespace reader
}  // namespace cntk

#endif  // CNTK_READER_MINIBATCH_HPP
