// cntk_reader.hpp: reads the training data of CNTK. C++17, header only, over cntk_reader.h.
//
//     #include <cntk_reader.hpp>
//     namespace cr = cntk::reader;
//
//     cr::Reader reader = cr::Reader::FromFile("digits.cntk");
//     cr::EpochConfiguration epoch;
//     epoch.minibatch_size = 32;
//     epoch.sweeps = 10;
//     reader.StartEpoch(epoch);
//     for (const cr::Minibatch& minibatch : reader.Minibatches()) {
//       cr::StreamMinibatch features = minibatch["features"];
//       cr::StreamMinibatch labels = minibatch["labels"];
//       for (std::size_t column = 0; column < features.Columns(); ++column)
//         model.Learn(features.Column<float>(column), labels.Column<float>(column));
//       model.Update(features.Samples());
//     }
//
// Names. Methods bear the names that CNTK's users know: GetMinibatch, StartEpoch, SetConfiguration, GetState,
// SetState, GetStreamDescriptions.
//
// Ownership. Reader, Minibatch and Checkpoint own what they stand for and can be moved; Minibatch can also be
// copied, which counts a reference and copies no data. StreamMinibatch, Sequence and Span are views: they
// live as long as the minibatch that they came from, and a minibatch may outlive its reader. A moved-from
// object may be destroyed or assigned to; any other use of it throws an Error of kind kInvalidArgument.
//
// Errors. Every failure is thrown as cntk::reader::Error, which is a std::runtime_error and knows the place.
// Views check what costs nothing a sample (stream names, element types) and leave columns and steps to the
// caller, as operator[] of std::vector does.
//
// Users' formats. Derive from UserDeserializer or ComposableUserDeserializer and open with Reader::FromUser.
//
// Threads. One thread at a time may use a Reader; Minibatches, their views and Errors do not change and may
// be shared. Fork. A Reader belongs to the process that opened it: in a child it throws an Error of kind
// kState.

#ifndef CNTK_READER_HPP
#define CNTK_READER_HPP

#include <cntk_reader.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace cntk {
namespace reader {

/// What went wrong, for programs.
enum class ErrorKind {
  kConfig = CNTK_READER_ERROR_CONFIG,
  kInvalidArgument = CNTK_READER_ERROR_INVALID_ARGUMENT,
  kIo = CNTK_READER_ERROR_IO,
  kData = CNTK_READER_ERROR_DATA,
  kCheckpoint = CNTK_READER_ERROR_CHECKPOINT,
  kState = CNTK_READER_ERROR_STATE,
  kUser = CNTK_READER_ERROR_USER,
  kInternal = CNTK_READER_ERROR_INTERNAL,
};

/// The exception that CNTK itself throws for an error.
enum class ExceptionClass {
  kRuntimeError = CNTK_READER_EXCEPTION_RUNTIME_ERROR,
  kLogicError = CNTK_READER_EXCEPTION_LOGIC_ERROR,
  kInvalidArgument = CNTK_READER_EXCEPTION_INVALID_ARGUMENT,
};

/// The one exception of this library. `what()` is the message with the place.
class Error : public std::runtime_error {
 public:
  /// Takes over an error object of the C interface; NULL gives an error that has its kind only.
  Error(cntk_reader_status status, cntk_reader_error* error)
      : Error(status, std::unique_ptr<cntk_reader_error, Free>(error)) {}

  /// An error that is found on this side of the C interface.
  Error(ErrorKind kind, const std::string& message)
      : std::runtime_error(message), details_(std::make_shared<Details>()) {
    details_->kind = kind;
    details_->exception_class = ExceptionClass::kInvalidArgument;
    details_->message = message;
  }

  ErrorKind Kind() const noexcept { return details_->kind; }
  ExceptionClass Class() const noexcept { return details_->exception_class; }
  /// The message without the place.
  const std::string& Message() const noexcept { return details_->message; }
  /// Path of the file, as the configuration wrote it.
  const std::optional<std::string>& File() const noexcept { return details_->file; }
  /// Line in the file, from 1.
  std::optional<std::uint64_t> Line() const noexcept { return details_->line; }
  /// Byte offset in the file.
  std::optional<std::uint64_t> Offset() const noexcept { return details_->offset; }
  /// Name of the stream.
  const std::optional<std::string>& Stream() const noexcept { return details_->stream; }
  /// Key of the sequence, as text.
  const std::optional<std::string>& Key() const noexcept { return details_->key; }

 private:
  struct Free {
    void operator()(cntk_reader_error* error) const noexcept { cntk_reader_error_free(error); }
  };

  struct Details {
    ErrorKind kind = ErrorKind::kInternal;
    ExceptionClass exception_class = ExceptionClass::kLogicError;
    std::string message;
    std::optional<std::string> file, stream, key;
    std::optional<std::uint64_t> line, offset;
  };

  Error(cntk_reader_status status, const std::unique_ptr<cntk_reader_error, Free>& error)
      : std::runtime_error(cntk_reader_error_text(error.get())), details_(std::make_shared<Details>()) {
    details_->kind = static_cast<ErrorKind>(status);
    cntk_reader_error_info info = {};
    info.struct_size = sizeof info;
    if (cntk_reader_error_describe(error.get(), &info) != CNTK_READER_OK) return;
    const auto optional = [](const char* text) {
      return text ? std::optional<std::string>(text) : std::nullopt;
    };
    details_->exception_class = static_cast<ExceptionClass>(info.exception);
    details_->message = info.message;
    details_->file = optional(info.file);
    details_->stream = optional(info.stream);
    details_->key = optional(info.key);
    if (info.line != 0) details_->line = info.line;
    if (info.offset != CNTK_READER_UNKNOWN) details_->offset = info.offset;
  }

  std::shared_ptr<Details> details_;  // Shared, because copying an exception must not throw.
};

namespace detail {

/// Calls a function of the C interface, whose last parameter is the place for an error, and throws if it
/// fails.
template <typename Function, typename... Arguments>
void Call(Function function, Arguments... arguments) {
  cntk_reader_error* error = nullptr;
  const cntk_reader_status status = function(arguments..., &error);
  if (status != CNTK_READER_OK) throw Error(status, error);
}

/// A struct of the C interface with its size set.
template <typename Struct>
Struct Sized() {
  Struct value = {};
  value.struct_size = sizeof value;
  return value;
}

}  // namespace detail

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

enum class Storage { kDense = CNTK_READER_DENSE, kSparseCsc = CNTK_READER_SPARSE_CSC };
enum class ElementType { kFloat = CNTK_READER_FLOAT, kDouble = CNTK_READER_DOUBLE };
enum class LogLevel {
  kError = CNTK_READER_LOG_ERROR,
  kWarning = CNTK_READER_LOG_WARNING,
  kInfo = CNTK_READER_LOG_INFO,
};

/// Epoch size in samples: no limit.
inline constexpr std::uint64_t kUnlimitedSamples = CNTK_READER_UNLIMITED_SAMPLES;
/// Epoch size in samples: one sweep, whatever its size.
inline constexpr std::uint64_t kOneSweep = CNTK_READER_ONE_SWEEP;
/// Epoch size in sweeps: no limit.
inline constexpr std::uint64_t kUnlimitedSweeps = CNTK_READER_UNLIMITED_SWEEPS;

/// Sizes, workers and flags of the minibatches to come.
struct ReaderConfiguration {
  std::uint64_t workers = 1;         ///< Number of workers that share the data.
  std::uint64_t rank = 0;            ///< Which of them this one is, from 0.
  std::uint64_t minibatch_size = 0;  ///< In samples of all workers together; has to be set.
  std::uint64_t truncation = 0;  ///< Steps of a truncated minibatch; the configuration's wins in StartEpoch.
  std::uint64_t right_splice =
      0;                     ///< Overlap of truncated minibatches; the configuration's wins in StartEpoch.
  bool cross_sweeps = true;  ///< A minibatch may go on behind the end of a sweep.
};

/// An epoch to start.
struct EpochConfiguration : ReaderConfiguration {
  std::uint64_t samples =
      kUnlimitedSamples;  ///< Size in samples of all workers; ignored if sweeps are limited.
  std::uint64_t sweeps = kUnlimitedSweeps;  ///< Size in sweeps, that is passes over the data.
  std::uint64_t index = 0;                  ///< Which epoch, from 0.
};

/// Description of a stream.
struct StreamDescription {
  std::string name;
  std::size_t id = 0;  ///< Index among the streams of the reader, and of every minibatch.
  Storage storage = Storage::kDense;
  ElementType element = ElementType::kFloat;
  std::vector<std::size_t> shape;  ///< Of one sample, first dimension varying fastest.
  std::size_t sample_size = 0;     ///< Values of one sample: the product of `shape`.
  bool defines_mb_size = false;    ///< Minibatch sizes are measured in this stream's samples.
  bool is_binary = false;
};

using StreamDescriptions = std::vector<StreamDescription>;

/// CNTK's checkpoint state: named numbers.
using State = std::map<std::string, std::uint64_t>;

/// A run of steps of one parallel row that belongs to one sequence, or to none.
using Record = cntk_reader_record;

/// Whether a record marks columns without data.
inline bool IsGap(const Record& record) noexcept { return record.sequence == CNTK_READER_GAP; }

class StreamMinibatch;

/// The steps of one sequence within a minibatch. A view.
class Sequence {
 public:
  /// Number of the sequence within the minibatch, the same in all streams.
  std::size_t Number() const noexcept { return static_cast<std::size_t>(record_.sequence); }
  /// First step within the minibatch.
  std::size_t Begin() const noexcept { return begin_; }
  /// One behind the last step within the minibatch.
  std::size_t End() const noexcept { return end_; }
  /// Steps within the minibatch.
  std::size_t Steps() const noexcept { return end_ - begin_; }
  /// The sequence began in an earlier minibatch (truncated mode).
  bool IsContinued() const noexcept { return record_.begin < 0; }
  /// The column of a step, which counts from 0 at Begin().
  std::size_t Column(std::size_t step) const noexcept {
    return (begin_ + step) * rows_ + static_cast<std::size_t>(record_.row);
  }
  /// The record itself.
  const Record& GetRecord() const noexcept { return record_; }

 private:
  friend class StreamMinibatch;
  Sequence(const Record& record, std::size_t steps, std::size_t rows) noexcept
      : record_(record),
        begin_(record.begin < 0 ? 0 : static_cast<std::size_t>(record.begin)),
        end_(record.end < steps ? static_cast<std::size_t>(record.end) : steps),
        rows_(rows) {}

  Record record_;
  std::size_t begin_, end_, rows_;
};

/// One stream's part of a minibatch. A view.
///
/// The data are Columns() = Steps() * Rows() columns of SampleSize() values; step t of row s is column t *
/// Rows() + s.
class StreamMinibatch {
 public:
  std::size_t Steps() const noexcept { return parts_.steps; }
  std::size_t Rows() const noexcept { return parts_.rows; }
  std::size_t Columns() const noexcept { return parts_.columns; }
  /// Columns with data.
  std::size_t Samples() const noexcept { return parts_.samples; }
  /// Sequences with data.
  std::size_t SequenceCount() const noexcept { return parts_.sequences; }
  /// Values of one sample.
  std::size_t SampleSize() const noexcept { return parts_.sample_size; }
  std::uint64_t RightSplice() const noexcept { return parts_.right_splice; }
  bool IsSparse() const noexcept { return parts_.storage == CNTK_READER_SPARSE_CSC; }
  ElementType Element() const noexcept { return static_cast<ElementType>(parts_.element); }

  /// Which columns belong to which sequence, gaps included.
  Span<const Record> Records() const noexcept { return {parts_.records, parts_.record_count}; }

  /// The sequences with data, in the order of the records.
  std::vector<Sequence> Sequences() const {
    std::vector<Sequence> sequences;
    sequences.reserve(parts_.sequences);
    for (const Record& record : Records())
      if (!IsGap(record)) sequences.push_back(Sequence(record, parts_.steps, parts_.rows));
    return sequences;
  }

  /// All values (dense), or the stored ones (sparse). T is the stream's element type, float or double.
  template <typename T>
  Span<const T> Values() const {
    static_assert(std::is_same_v<T, float> || std::is_same_v<T, double>, "values are float or double");
    if ((parts_.element == CNTK_READER_FLOAT) != std::is_same_v<T, float>)
      throw Error(ErrorKind::kInvalidArgument,
                  "The values of this stream are of the other floating-point type.");
    return {static_cast<const T*>(parts_.values), parts_.value_count};
  }

  /// The values of one column of a dense stream.
  template <typename T>
  Span<const T> Column(std::size_t column) const {
    if (IsSparse())
      throw Error(ErrorKind::kInvalidArgument, "Columns of a sparse stream are not stored whole.");
    return Values<T>().subspan(column * parts_.sample_size, parts_.sample_size);
  }

  /// Calls `visit(row, value)` for each stored value of a column of a sparse stream, or for each value of a
  /// dense one.
  template <typename T, typename Visit>
  void ForEachValue(std::size_t column, Visit&& visit) const {
    const Span<const T> values = Values<T>();
    if (IsSparse()) {
      const auto end = static_cast<std::size_t>(parts_.column_starts[column + 1]);
      for (auto i = static_cast<std::size_t>(parts_.column_starts[column]); i < end; ++i)
        visit(static_cast<std::size_t>(parts_.row_indices[i]), values[i]);
    } else {
      const std::size_t start = column * parts_.sample_size;
      for (std::size_t row = 0; row < parts_.sample_size; ++row) visit(row, values[start + row]);
    }
  }

  /// Sparse: the row of each stored value, in the input's order. Dense: empty.
  Span<const std::int32_t> RowIndices() const noexcept {
    return {parts_.row_indices, parts_.row_indices ? parts_.value_count : 0};
  }

  /// Sparse: where each column's values start, and one more number for the end. Dense: empty.
  Span<const std::int32_t> ColumnStarts() const noexcept {
    return {parts_.column_starts, parts_.column_starts ? parts_.columns + 1 : 0};
  }

  /// The whole block as CNTK lays it out, for copying to a device in one piece.
  Span<const unsigned char> Block() const noexcept {
    return {static_cast<const unsigned char*>(parts_.block), parts_.block_size};
  }

  /// The struct of the C interface.
  const cntk_reader_stream_minibatch& Raw() const noexcept { return parts_; }

 private:
  friend class Minibatch;
  explicit StreamMinibatch(const cntk_reader_stream_minibatch& parts) noexcept : parts_(parts) {}

  cntk_reader_stream_minibatch parts_;
};

/// What a read delivers: the streams' data, the keys of the sequences, and flags. Copies share the data.
class Minibatch {
 public:
  Minibatch() noexcept = default;

  /// Whether there is data: false behind the end of the epoch.
  explicit operator bool() const noexcept { return content_.info.stream_count != 0; }
  /// It reaches or crosses the end of a sweep.
  bool EndOfSweep() const noexcept { return content_.info.end_of_sweep != 0; }
  /// It is the last of the epoch, or comes after the last.
  bool EndOfEpoch() const noexcept { return content_.info.end_of_epoch != 0; }

  /// Number of streams: all of the reader's, or none.
  std::size_t size() const noexcept { return content_.info.stream_count; }

  /// A stream by number.
  StreamMinibatch operator[](std::size_t id) const {
    auto parts = detail::Sized<cntk_reader_stream_minibatch>();
    detail::Call(cntk_reader_minibatch_stream, content_.handle, id, &parts);
    return StreamMinibatch(parts);
  }

  /// A stream by name.
  StreamMinibatch operator[](std::string_view name) const {
    for (std::size_t id = 0; streams_ && id < streams_->size(); ++id)
      if ((*streams_)[id].name == name) return (*this)[id];
    throw Error(ErrorKind::kInvalidArgument, "There is no stream '" + std::string(name) + "'.");
  }

  /// The key of each sequence as a number, by the sequence's number. In the data of numeric corpora it stands
  /// so; in others it stands for a text, the same one as long as the reader lives.
  Span<const std::uint64_t> Keys() const noexcept { return {content_.info.keys, content_.info.key_count}; }

  /// The key of a sequence as text.
  std::string Key(std::size_t sequence) const {
    std::string text(32, '\0');
    for (std::size_t length = 0;;) {
      detail::Call(cntk_reader_minibatch_key_text, content_.handle, sequence, text.data(), text.size() + 1,
                   &length);
      const bool complete = length <= text.size();
      text.resize(length);
      if (complete) return text;
    }
  }

  /// The descriptions of the streams, in their order.
  const StreamDescriptions& GetStreamDescriptions() const noexcept {
    static const StreamDescriptions none;
    return streams_ ? *streams_ : none;
  }

 private:
  friend class Reader;
  Minibatch(const cntk_reader_minibatch* handle, std::shared_ptr<const StreamDescriptions> streams)
      : content_(handle), streams_(std::move(streams)) {
    detail::Call(cntk_reader_describe_minibatch, handle, &content_.info);
  }

  /// Counts references to the handle; empty after a move.
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
        sizeof(cntk_reader_minibatch_info), 0, 0, 0, nullptr, 0};

    const cntk_reader_minibatch* handle = nullptr;
    cntk_reader_minibatch_info info = kNothing;
  };

  Content content_;
  std::shared_ptr<const StreamDescriptions> streams_;
};

/// A saved position of a reader: opaque bytes.
class Checkpoint {
 public:
  const unsigned char* data() const noexcept { return bytes_.data(); }
  std::size_t size() const noexcept { return bytes_.size(); }

 private:
  friend class Reader;
  explicit Checkpoint(cntk_reader_buffer* buffer) : buffer_(buffer) {
    const void* bytes = nullptr;
    std::size_t size = 0;
    detail::Call(cntk_reader_buffer_bytes, buffer, &bytes, &size);
    bytes_ = {static_cast<const unsigned char*>(bytes), size};
  }

  struct Free {
    void operator()(cntk_reader_buffer* buffer) const noexcept { cntk_reader_buffer_free(buffer); }
  };

  std::unique_ptr<cntk_reader_buffer, Free> buffer_;
  Span<const unsigned char> bytes_;
};

/// A stream of a user's deserializer. Its number is its place in the list.
struct UserStream {
  std::string name;
  std::vector<std::size_t> shape;  ///< Of one sample, first dimension varying fastest; empty for scalars.
  Storage storage = Storage::kDense;
  ElementType element = ElementType::kFloat;
  bool defines_mb_size = false;
};

/// The sequences of a chunk, as a composable deserializer tells them beforehand.
struct UserSequences {
  std::size_t count = 0;
  std::vector<std::uint32_t> lengths;  ///< Empty: all are one sample long.
  std::vector<std::uint64_t> keys;     ///< Empty: see `key_texts`.
  /// Empty, as `keys`: the running number in the whole data.
  std::vector<std::string> key_texts;
};

/// The data of a chunk. The memory of the arrays stays where it is until `owner` and this object are gone.
struct UserChunk {
  /// One stream's arrays.
  struct Stream {
    cntk_reader_grouping grouping = CNTK_READER_SAMPLES;
    std::vector<cntk_reader_array> arrays;
    std::vector<std::uint32_t> lengths;  ///< For CNTK_READER_SEQUENCES.
  };

  std::vector<Stream> streams;      ///< All streams, by number.
  std::vector<std::uint64_t> keys;  ///< Empty: the library makes some.
  std::shared_ptr<void> owner;  ///< Keeps the memory of the arrays, and whatever else has to live as long.
};

namespace detail {

template <typename T>
constexpr std::uint32_t kElement = std::is_same_v<T, double> ? CNTK_READER_DOUBLE : CNTK_READER_FLOAT;

}  // namespace detail

/// A dense array without gaps of samples: values of the first sample, of the second, and so on.
template <typename T>
cntk_reader_array DenseArray(const T* values, std::size_t count, std::size_t samples) {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double>, "values are float or double");
  cntk_reader_array array = {};
  array.values = values;
  array.values_size = count * sizeof(T);
  array.samples = samples;
  array.element = detail::kElement<T>;
  return array;
}

/// A sparse array: sample s owns the entries from starts[s] to before starts[s + 1].
template <typename T, typename Index, typename Start>
cntk_reader_array SparseArray(const T* values, const Index* indices, std::size_t entries, const Start* starts,
                              std::size_t samples) {
  static_assert(std::is_signed_v<Index> && std::is_signed_v<Start>, "indices and starts are signed integers");
  cntk_reader_array array = DenseArray(values, entries, samples);
  array.indices = indices;
  array.index_count = entries;
  array.index_size = sizeof(Index);
  array.starts = starts;
  array.start_size = sizeof(Start);
  return array;
}

/// A format of the user's own. Chunks are loaded on a thread of the library's, one at a time unless
/// IsThreadSafe. Exceptions are carried to the call that needs the data, as Errors of kind kUser with their
/// text.
///
/// This kind tells the sequences of a chunk when it loads it, and is read as CNTK reads user-defined
/// deserializers. See ComposableUserDeserializer for the other kind.
class UserDeserializer {
 public:
  UserDeserializer() = default;
  UserDeserializer(const UserDeserializer&) = delete;
  UserDeserializer& operator=(const UserDeserializer&) = delete;
  virtual ~UserDeserializer() = default;

  /// The streams, at least one.
  virtual std::vector<UserStream> GetStreams() = 0;
  /// Number of chunks, at least 1.
  virtual std::uint32_t GetChunkCount() = 0;
  /// Loads a chunk.
  virtual UserChunk GetChunk(std::uint32_t chunk) = 0;
  /// Whether GetChunk may be called from several threads at once.
  virtual bool IsThreadSafe() const { return false; }
};

/// A format of the user's own that knows its sequences before it loads them: it gets the full randomizer.
class ComposableUserDeserializer : public UserDeserializer {
 public:
  /// The sequences of a chunk. Called for each chunk when a reader is opened.
  virtual UserSequences GetSequences(std::uint32_t chunk) = 0;
};

/// Users' deserializers with the names that the configuration has for them.
using UserDeserializers = std::vector<std::pair<std::string, std::shared_ptr<UserDeserializer>>>;

namespace detail {

/// What a reader has of a user's deserializer: the table of callbacks, and all that it points to.
class UserTable {
 public:
  UserTable(const std::string& name, std::shared_ptr<UserDeserializer> user)
      : name_(name), user_(std::move(user)) {
    if (!user_) throw Error(ErrorKind::kInvalidArgument, "There is no deserializer '" + name_ + "'.");
    described_ = user_->GetStreams();
    for (const UserStream& stream : described_)
      streams_.push_back({stream.name.data(), stream.name.size(), stream.shape.data(), stream.shape.size(),
                          static_cast<std::uint32_t>(stream.storage),
                          static_cast<std::uint32_t>(stream.element), stream.defines_mb_size ? 1u : 0u, 0});
    table_ = Sized<cntk_reader_deserializer>();
    table_.userdata = this;
    table_.name = name_.data();
    table_.name_length = name_.size();
    table_.streams = streams_.data();
    table_.stream_count = streams_.size();
    table_.chunk_count = user_->GetChunkCount();
    table_.thread_safe = user_->IsThreadSafe() ? 1 : 0;
    table_.get_chunk = GetChunk;
    table_.release = [](void*, void* handle) { delete static_cast<Chunk*>(handle); };
    composable_ = dynamic_cast<ComposableUserDeserializer*>(user_.get());
    if (composable_) table_.sequences = GetSequences;
    table_.finalizer = [](void* userdata) { delete static_cast<UserTable*>(userdata); };
  }
  UserTable(const UserTable&) = delete;
  UserTable& operator=(const UserTable&) = delete;

  const cntk_reader_deserializer* Table() const noexcept { return &table_; }

 private:
  /// A chunk as C takes it.
  struct Chunk {
    UserChunk data;
    std::vector<cntk_reader_stream_data> streams;
  };

  /// Runs a callback's body; an exception becomes the callback's failure.
  template <typename Body>
  static int Guard(cntk_reader_failure* failure, Body&& body) noexcept {
    try {
      body();
      return 0;
    } catch (const std::exception& error) {
      cntk_reader_fail(failure, error.what(), CNTK_READER_NUL_TERMINATED);
    } catch (...) {
      cntk_reader_fail(failure, "The deserializer has thrown something that is no std::exception.",
                       CNTK_READER_NUL_TERMINATED);
    }
    return 1;
  }

  static std::int32_t GetChunk(void* userdata, std::uint32_t number, cntk_reader_chunk* out,
                               cntk_reader_failure* failure) {
    return Guard(failure, [&] {
      auto chunk = std::make_unique<Chunk>();
      chunk->data = static_cast<UserTable*>(userdata)->user_->GetChunk(number);
      for (const UserChunk::Stream& stream : chunk->data.streams)
        chunk->streams.push_back({static_cast<std::uint32_t>(stream.grouping), 0, stream.arrays.data(),
                                  stream.arrays.size(), stream.lengths.data(), stream.lengths.size()});
      out->streams = chunk->streams.data();
      out->stream_count = chunk->streams.size();
      out->keys = chunk->data.keys.empty() ? nullptr : chunk->data.keys.data();
      out->key_count = chunk->data.keys.size();
      out->handle = chunk.release();
    });
  }

  static std::int32_t GetSequences(void* userdata, std::uint32_t number, cntk_reader_sequences* out,
                                   cntk_reader_failure* failure) {
    return Guard(failure, [&] {
      auto* table = static_cast<UserTable*>(userdata);
      UserSequences& listed = table->listed_;
      listed = table->composable_->GetSequences(number);
      const auto check = [&](std::size_t size) {
        if (size != 0 && size != listed.count)
          throw std::invalid_argument("The lists of sequences are not equally long.");
      };
      check(listed.lengths.size());
      check(listed.keys.size());
      check(listed.key_texts.size());
      table->key_texts_.clear();
      for (const std::string& text : listed.key_texts) table->key_texts_.push_back(text.c_str());
      out->count = listed.count;
      out->lengths = listed.lengths.empty() ? nullptr : listed.lengths.data();
      out->keys = listed.keys.empty() ? nullptr : listed.keys.data();
      out->key_texts = table->key_texts_.empty() ? nullptr : table->key_texts_.data();
    });
  }

  std::string name_;
  std::shared_ptr<UserDeserializer> user_;
  ComposableUserDeserializer* composable_ = nullptr;
  std::vector<UserStream> described_;
  std::vector<cntk_reader_user_stream> streams_;
  UserSequences listed_;  // Of the last callback; the library has copied it when the next one comes.
  std::vector<const char*> key_texts_;
  cntk_reader_deserializer table_;
};

}  // namespace detail

/// Reads minibatches.
class Reader {
 public:
  class MinibatchRange;

  /// Opens a reader from a configuration file.
  static Reader FromFile(std::string_view path) { return Reader(cntk_reader_open_file, path); }

  /// Opens a reader from the text of a configuration.
  static Reader FromText(std::string_view text) { return Reader(cntk_reader_open_text, text); }

  /// Opens a reader of a user's deserializer. The configuration's text has the reader's keys (`randomize`,
  /// `randomizationWindow`, `frameMode` ...) and may be empty.
  static Reader FromUser(std::shared_ptr<UserDeserializer> deserializer, std::string_view text = "") {
    return FromUsers({{"User", std::move(deserializer)}}, text);
  }

  /// Opens a reader of several users' deserializers: `deserializers` in the configuration's text names them
  /// as types.
  static Reader FromUsers(const UserDeserializers& deserializers, std::string_view text) {
    std::vector<std::unique_ptr<detail::UserTable>> tables;
    std::vector<const cntk_reader_deserializer*> raw;
    for (const auto& [name, deserializer] : deserializers) {
      tables.push_back(std::make_unique<detail::UserTable>(name, deserializer));
      raw.push_back(tables.back()->Table());
    }
    const auto open = [&](const char* source, std::size_t length, cntk_reader** reader,
                          cntk_reader_error** error) {
      const cntk_reader_status status =
          cntk_reader_open_custom(source, length, raw.data(), raw.size(), reader, error);
      // From now on the reader owns them.
      if (status == CNTK_READER_OK)
        for (auto& table : tables) static_cast<void>(table.release());
      return status;
    };
    return Reader(open, text);
  }

  /// The streams, by number.
  const StreamDescriptions& GetStreamDescriptions() const noexcept { return *streams_; }

  /// The number of the stream with this name.
  const StreamDescription& GetStreamDescription(std::string_view name) const {
    for (const StreamDescription& stream : *streams_)
      if (stream.name == name) return stream;
    throw Error(ErrorKind::kInvalidArgument, "There is no stream '" + std::string(name) + "'.");
  }

  /// Whether sequence keys are numbers in the data.
  bool HasNumericKeys() const {
    std::uint32_t numeric = 0;
    detail::Call(cntk_reader_has_numeric_keys, handle_.get(), &numeric);
    return numeric != 0;
  }

  /// Starts an epoch. Needed before the first minibatch, except after RestoreCheckpoint.
  void StartEpoch(const EpochConfiguration& epoch) {
    const cntk_reader_epoch raw = {
        sizeof raw,         epoch.workers,      epoch.rank,    epoch.minibatch_size, epoch.truncation,
        epoch.right_splice, epoch.cross_sweeps, epoch.samples, epoch.sweeps,         epoch.index};
    detail::Call(cntk_reader_start_epoch, handle_.get(), &raw);
  }

  /// Changes sizes, workers and flags between two minibatches; the position stays.
  void SetConfiguration(const ReaderConfiguration& configuration) {
    const cntk_reader_configuration raw = {sizeof raw,
                                           configuration.workers,
                                           configuration.rank,
                                           configuration.minibatch_size,
                                           configuration.truncation,
                                           configuration.right_splice,
                                           configuration.cross_sweeps};
    detail::Call(cntk_reader_set_configuration, handle_.get(), &raw);
  }

  /// The sizes, workers and flags in force, those of a restored checkpoint too.
  ReaderConfiguration GetConfiguration() const {
    cntk_reader_configuration raw = CNTK_READER_CONFIGURATION_INIT;
    detail::Call(cntk_reader_get_configuration, handle_.get(), &raw);
    return {raw.workers, raw.rank, raw.minibatch, raw.truncation, raw.right_splice, raw.cross_sweeps != 0};
  }

  /// Reads the next minibatch. Behind the end of the epoch: one without data, again and again. Workers that
  /// keep step with others should call this until EndOfEpoch(), since one of them may get no data while
  /// others do.
  Minibatch GetMinibatch() {
    const cntk_reader_minibatch* minibatch = nullptr;
    detail::Call(cntk_reader_read_minibatch, handle_.get(), &minibatch);
    return Minibatch(minibatch, streams_);
  }

  /// The minibatches with data from here to the end of the epoch, for a range-based for.
  MinibatchRange Minibatches() &;

  /// CNTK's checkpoint state, that of the minibatch read last.
  State GetState() const {
    cntk_reader_state_entry entries[8];
    std::size_t count = 0;
    detail::Call(cntk_reader_get_state, handle_.get(), entries, std::size(entries), &count);
    State state;
    for (std::size_t i = 0; i < count && i < std::size(entries); ++i)
      state.emplace(std::string(entries[i].key, entries[i].key_length), entries[i].value);
    return state;
  }

  /// Restores CNTK's checkpoint state, after StartEpoch.
  void SetState(const State& state) {
    std::vector<cntk_reader_state_entry> entries;
    for (const auto& [key, value] : state) entries.push_back({key.data(), key.size(), value});
    detail::Call(cntk_reader_set_state, handle_.get(), entries.data(), entries.size());
  }

  /// Saves the position behind the minibatch read last, so that every mode continues exactly.
  Checkpoint SaveCheckpoint() const {
    cntk_reader_buffer* buffer = nullptr;
    detail::Call(cntk_reader_save_checkpoint, handle_.get(), &buffer);
    return Checkpoint(buffer);
  }

  /// Goes on where a checkpoint was saved, in the epoch of that time.
  void RestoreCheckpoint(const void* bytes, std::size_t size) {
    detail::Call(cntk_reader_restore_checkpoint, handle_.get(), bytes, size);
  }
  void RestoreCheckpoint(const Checkpoint& checkpoint) {
    RestoreCheckpoint(checkpoint.data(), checkpoint.size());
  }

 private:
  struct Destroy {
    void operator()(cntk_reader* reader) const noexcept { cntk_reader_destroy(reader); }
  };

  template <typename Open>
  Reader(Open open, std::string_view source) {
    cntk_reader* reader = nullptr;
    detail::Call(open, source.data() ? source.data() : "", source.size(), &reader);
    handle_.reset(reader);
    std::size_t count = 0;
    detail::Call(cntk_reader_stream_count, reader, &count);
    auto streams = std::make_shared<StreamDescriptions>();
    for (std::size_t id = 0; id < count; ++id) streams->push_back(Describe(reader, id));
    streams_ = std::move(streams);
  }

  static StreamDescription Describe(const cntk_reader* reader, std::size_t id) {
    auto info = detail::Sized<cntk_reader_stream_info>();
    detail::Call(cntk_reader_describe_stream, reader, id, &info);
    StreamDescription stream;
    stream.name.assign(info.name, info.name_length);
    stream.id = info.id;
    stream.storage = static_cast<Storage>(info.storage);
    stream.element = static_cast<ElementType>(info.element);
    stream.shape.assign(info.shape, info.shape + info.shape_rank);
    stream.sample_size = info.sample_size;
    stream.defines_mb_size = info.defines_mb_size != 0;
    stream.is_binary = info.is_binary != 0;
    return stream;
  }

  std::unique_ptr<cntk_reader, Destroy> handle_;
  std::shared_ptr<const StreamDescriptions>
      streams_;  // Shared with the minibatches, which look names up in it.
};

/// The minibatches of the rest of an epoch, read one by one as the loop goes on. Lives as long as the reader.
class Reader::MinibatchRange {
 public:
  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Minibatch;
    using difference_type = std::ptrdiff_t;
    using pointer = const Minibatch*;
    using reference = const Minibatch&;

    Iterator() noexcept = default;
    reference operator*() const noexcept { return minibatch_; }
    pointer operator->() const noexcept { return &minibatch_; }
    Iterator& operator++() {
      Advance();
      return *this;
    }
    void operator++(int) { Advance(); }
    friend bool operator==(const Iterator& a, const Iterator& b) noexcept { return a.reader_ == b.reader_; }
    friend bool operator!=(const Iterator& a, const Iterator& b) noexcept { return !(a == b); }

   private:
    friend class MinibatchRange;
    explicit Iterator(Reader* reader) : reader_(reader) { Advance(); }

    void Advance() {
      do {
        if (minibatch_.EndOfEpoch()) {
          reader_ = nullptr;
          minibatch_ = Minibatch();
          return;
        }
        minibatch_ = Minibatch();  // Its memory serves for the next one.
        minibatch_ = reader_->GetMinibatch();
      } while (!minibatch_);
    }

    Reader* reader_ = nullptr;
    Minibatch minibatch_;
  };

  Iterator begin() const { return Iterator(reader_); }
  Iterator end() const noexcept { return Iterator(); }

 private:
  friend class Reader;
  explicit MinibatchRange(Reader* reader) noexcept : reader_(reader) {}

  Reader* reader_;
};

inline Reader::MinibatchRange Reader::Minibatches() & { return MinibatchRange(this); }

/// Sets the number of loading threads of readers that are opened from now on; 0 restores the default.
inline void SetThreads(std::size_t threads) { detail::Call(cntk_reader_set_threads, threads); }

/// The number of loading threads that a reader opened now would use.
inline std::size_t GetThreads() {
  std::size_t threads = 0;
  detail::Call(cntk_reader_get_threads, &threads);
  return threads;
}

/// How far a conversion has come: bytes of the input done, all of them, sequences written. Returns false to
/// stop.
using ProgressCallback =
    std::function<bool(std::uint64_t bytes, std::uint64_t total, std::uint64_t sequences)>;

/// How ConvertTextToBinary writes.
struct ConversionOptions {
  std::uint64_t chunk_size = 32 << 20;  ///< Bytes of a chunk; 0 makes every sequence a chunk.
  bool double_precision = false;        ///< Values are doubles.
  bool chunks_of_script = false;  ///< Cut chunks as ctf2bin.py does, one sequence to each behind the first.
};

namespace detail {

template <typename Function>
void Convert(Function function, const std::string& input, const std::string& output,
             const std::string* streams, const ConversionOptions& options, const ProgressCallback& progress) {
  struct State {
    const ProgressCallback& progress;
    std::exception_ptr thrown;
  } state{progress, nullptr};
  cntk_reader_conversion conversion = CNTK_READER_CONVERSION_INIT;
  conversion.input = input.c_str();
  conversion.output = output.c_str();
  conversion.streams = streams ? streams->c_str() : nullptr;
  conversion.chunk_size = options.chunk_size;
  conversion.double_precision = options.double_precision;
  conversion.chunks_of_script = options.chunks_of_script;
  conversion.userdata = &state;
  if (progress) {
    conversion.progress = [](void* userdata, std::uint64_t bytes, std::uint64_t total,
                             std::uint64_t sequences) -> std::uint32_t {
      auto* state = static_cast<State*>(userdata);
      try {
        return state->progress(bytes, total, sequences) ? 0 : 1;
      } catch (...) {
        state->thrown = std::current_exception();
        return 1;
      }
    };
  }
  try {
    Call(function, &conversion);
  } catch (...) {
    if (state.thrown) std::rethrow_exception(state.thrown);
    throw;
  }
}

}  // namespace detail

/// Converts a text file (CTF) to a binary one (CBF); `streams` has a line `name alias dense|sparse dimension`
/// for each stream. The output appears when it is complete. An exception of `progress` stops the conversion
/// and comes through.
inline void ConvertTextToBinary(const std::string& input, const std::string& output,
                                const std::string& streams, const ConversionOptions& options = {},
                                const ProgressCallback& progress = {}) {
  detail::Convert(cntk_reader_convert_text_to_binary, input, output, &streams, options, progress);
}

/// Converts a binary file to a text one that reads back to the same bits. Otherwise as ConvertTextToBinary.
inline void ConvertBinaryToText(const std::string& input, const std::string& output,
                                const ProgressCallback& progress = {}) {
  detail::Convert(cntk_reader_convert_binary_to_text, input, output, nullptr, {}, progress);
}

/// Receives log lines, from any thread and from several at once. An exception that it throws is dropped.
using LogCallback = std::function<void(LogLevel level, std::string_view line)>;

/// Sends the log lines of all readers to a callback; an empty one brings standard error back.
inline void SetLogCallback(LogCallback callback) {
  if (!callback) return detail::Call(cntk_reader_set_log_callback, nullptr, nullptr, nullptr);
  auto owned = std::make_unique<LogCallback>(std::move(callback));
  detail::Call(
      cntk_reader_set_log_callback, static_cast<void*>(owned.get()),
      [](void* userdata, cntk_reader_log_level level, const char* line, std::size_t length) {
        try {
          (*static_cast<LogCallback*>(userdata))(static_cast<LogLevel>(level),
                                                 std::string_view(line, length));
        } catch (...) {
          // There is nobody to tell: the line belongs to a thread of the library.
        }
      },
      [](void* userdata) { delete static_cast<LogCallback*>(userdata); });
  owned.release();
}

/// The version of the library that the program runs with, "0.1.0".
inline const char* Version() noexcept { return cntk_reader_version_text(); }

}  // namespace reader
}  // namespace cntk

#endif  // CNTK_READER_HPP
