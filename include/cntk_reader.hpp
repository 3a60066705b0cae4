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
// Users' formats, conversions. cntk_reader/custom.hpp and cntk_reader/convert.hpp, which this header includes
// as it does the other files of that folder.
//
// Threads. One thread at a time may use a Reader; Minibatches, their views and Errors do not change and may
// be shared. Fork. A Reader belongs to the process that opened it: in a child it throws an Error of kind
// kState.

#ifndef CNTK_READER_HPP
#define CNTK_READER_HPP

#if defined(__cplusplus) && __cplusplus < 201703L
#error "cntk_reader.hpp needs C++17: compile with -std=c++17."
#endif

#include <cntk_reader.h>

#include <cntk_reader/convert.hpp>
#include <cntk_reader/custom.hpp>
#include <cntk_reader/error.hpp>
#include <cntk_reader/minibatch.hpp>
#include <cntk_reader/stream.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cntk {
namespace reader {

enum class LogLevel {
  kError = CNTK_READER_LOG_LEVEL_ERROR,
  kWarning = CNTK_READER_LOG_LEVEL_WARNING,
  kInfo = CNTK_READER_LOG_LEVEL_INFO,
};

/// Epoch size in samples: no limit.
inline constexpr std::uint64_t kUnlimitedSamples = CNTK_READER_UNLIMITED_SAMPLES;
/// Epoch size in samples: one sweep, whatever its size.
inline constexpr std::uint64_t kOneSweep = CNTK_READER_ONE_SWEEP;
/// Epoch size in sweeps: no limit.
inline constexpr std::uint64_t kUnlimitedSweeps = CNTK_READER_UNLIMITED_SWEEPS;

/// Sizes, workers and flags of the minibatches to come.
struct ReaderConfiguration {
  /// Number of workers that share the data. Randomized data are shared by chunks: with fewer chunks than
  /// workers (see `chunkSizeInBytes`) some workers get nothing.
  std::uint64_t workers = 1;
  std::uint64_t rank = 0;            ///< Which of them this one is, from 0.
  std::uint64_t minibatch_size = 0;  ///< In samples of all workers together; has to be set.
  std::uint64_t truncation_length =
      0;  ///< Steps of a truncated minibatch; the configuration's wins in StartEpoch.
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

/// CNTK's checkpoint state: named numbers.
using State = std::map<std::string, std::uint64_t>;

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
    detail::Call(cntk_reader_buffer_get_bytes, buffer, &bytes, &size);
    bytes_ = {static_cast<const unsigned char*>(bytes), size};
  }

  struct Free {
    void operator()(cntk_reader_buffer* buffer) const noexcept { cntk_reader_buffer_free(buffer); }
  };

  std::unique_ptr<cntk_reader_buffer, Free> buffer_;
  Span<const unsigned char> bytes_;
};

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
    std::vector<const cntk_reader_user_deserializer*> raw;
    for (const auto& [name, deserializer] : deserializers) {
      tables.push_back(std::make_unique<detail::UserTable>(name, deserializer));
      raw.push_back(tables.back()->Table());
    }
    const auto open = [&](const char* source, std::size_t length, cntk_reader** reader,
                          cntk_reader_error** error) {
      const cntk_reader_status status =
          cntk_reader_open_custom(source, length, raw.data(), raw.size(), reader, error);
      // From now on the reader owns them.
      if (status == CNTK_READER_STATUS_OK)
        for (auto& table : tables) static_cast<void>(table.release());
      return status;
    };
    return Reader(open, text);
  }

  /// The streams, by number.
  const StreamDescriptions& GetStreamDescriptions() const noexcept { return *streams_; }

  /// The stream with this name.
  const StreamDescription& GetStreamDescription(std::string_view name) const {
    return detail::FindStream(*streams_, name);
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
        sizeof raw,         epoch.workers,      epoch.rank,    epoch.minibatch_size, epoch.truncation_length,
        epoch.right_splice, epoch.cross_sweeps, epoch.samples, epoch.sweeps,         epoch.index};
    detail::Call(cntk_reader_epoch_start, handle_.get(), &raw);
  }

  /// Changes sizes, workers and flags between two minibatches; the position stays.
  void SetConfiguration(const ReaderConfiguration& configuration) {
    const cntk_reader_configuration raw = {sizeof raw,
                                           configuration.workers,
                                           configuration.rank,
                                           configuration.minibatch_size,
                                           configuration.truncation_length,
                                           configuration.right_splice,
                                           configuration.cross_sweeps};
    detail::Call(cntk_reader_configuration_set, handle_.get(), &raw);
  }

  /// The sizes, workers and flags in force, those of a restored checkpoint too.
  ReaderConfiguration GetConfiguration() const {
    cntk_reader_configuration raw = CNTK_READER_CONFIGURATION_INIT;
    detail::Call(cntk_reader_configuration_get, handle_.get(), &raw);
    return {raw.workers,           raw.rank,         raw.minibatch_size,
            raw.truncation_length, raw.right_splice, raw.cross_sweeps != 0};
  }

  /// Reads the next minibatch. Behind the end of the epoch: one without data, again and again. Workers that
  /// keep step with others should call this until EndOfEpoch(), since one of them may get no data while
  /// others do.
  Minibatch GetMinibatch() {
    const cntk_reader_minibatch* minibatch = nullptr;
    detail::Call(cntk_reader_minibatch_read, handle_.get(), &minibatch);
    return Minibatch(minibatch, streams_);
  }

  /// The minibatches with data from here to the end of the epoch, for a range-based for.
  MinibatchRange Minibatches() &;

  /// CNTK's checkpoint state, that of the minibatch read last.
  State GetState() const {
    cntk_reader_state_entry entries[8];
    std::size_t count = 0;
    detail::Call(cntk_reader_state_get, handle_.get(), entries, std::size(entries), &count);
    State state;
    for (std::size_t i = 0; i < count && i < std::size(entries); ++i)
      state.emplace(std::string(entries[i].key, entries[i].key_length), entries[i].value);
    return state;
  }

  /// Restores CNTK's checkpoint state, after StartEpoch.
  void SetState(const State& state) {
    std::vector<cntk_reader_state_entry> entries;
    for (const auto& [key, value] : state) entries.push_back({key.data(), key.size(), value});
    detail::Call(cntk_reader_state_set, handle_.get(), entries.data(), entries.size());
  }

  /// Saves the position behind the minibatch read last, so that every mode continues exactly.
  Checkpoint SaveCheckpoint() const {
    cntk_reader_buffer* buffer = nullptr;
    detail::Call(cntk_reader_checkpoint_save, handle_.get(), &buffer);
    return Checkpoint(buffer);
  }

  /// Goes on where a checkpoint was saved, in the epoch of that time.
  void RestoreCheckpoint(const void* bytes, std::size_t size) {
    detail::Call(cntk_reader_checkpoint_restore, handle_.get(), bytes, size);
  }
  void RestoreCheckpoint(const Checkpoint& checkpoint) {
    RestoreCheckpoint(checkpoint.data(), checkpoint.size());
  }

 private:
  struct Destroy {
    void operator()(cntk_reader* reader) const noexcept { cntk_reader_free(reader); }
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
    detail::Call(cntk_reader_stream_describe, reader, id, &info);
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
inline void SetThreads(std::size_t threads) { detail::Call(cntk_reader_threads_set, threads); }

/// The number of loading threads that a reader opened now would use.
inline std::size_t GetThreads() {
  std::size_t threads = 0;
  detail::Call(cntk_reader_threads_get, &threads);
  return threads;
}

/// Receives log lines, from any thread and from several at once. An exception that it throws is dropped.
using LogCallback = std::function<void(LogLevel level, std::string_view line)>;

/// Sends the log lines of all readers to a callback; an empty one brings standard error back.
inline void SetLogCallback(LogCallback callback) {
  if (!callback) return detail::Call(cntk_reader_log_set_callback, nullptr, nullptr, nullptr);
  auto owned = std::make_unique<LogCallback>(std::move(callback));
  detail::Call(
      cntk_reader_log_set_callback, static_cast<void*>(owned.get()),
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
inline const char* Version() noexcept { return cntk_reader_version_get_text(); }

}  // namespace reader
}  // namespace cntk

#endif  // CNTK_READER_HPP
