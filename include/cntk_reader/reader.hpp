// The reader: opening, epochs, minibatches, checkpoints and queries.
//
// Part of <cntk_reader.hpp>; include that.

#ifndef CNTK_READER_READER_HPP
#define CNTK_READER_READER_HPP

#include <cntk_reader.h>

#include <algorithm>
#include <chrono>
#include <cntk_reader/canceller.hpp>
#include <cntk_reader/configuration.hpp>
#include <cntk_reader/error.hpp>
#include <cntk_reader/minibatch.hpp>
#include <cntk_reader/stream.hpp>
#include <cntk_reader/transform.hpp>
#include <cntk_reader/user.hpp>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace cntk {
namespace reader {

/// Epoch size in samples: no limit.
inline constexpr std::uint64_t kUnlimitedSamples = CNTK_READER_UNLIMITED_SAMPLES;
/// Epoch size in samples: one sweep, regardless of its size.
inline constexpr std::uint64_t kOneSweep = CNTK_READER_ONE_SWEEP;
/// Epoch size in sweeps: no limit.
inline constexpr std::uint64_t kUnlimitedSweeps = CNTK_READER_UNLIMITED_SWEEPS;

/// Sizes, workers and flags of the minibatches that follow.
struct ReaderConfiguration {
  /// Number of workers that share the data. Randomized data are distributed by chunks: with fewer
  /// chunks than workers, some workers get nothing. See Reader::SuggestChunkSize.
  std::uint64_t workers = 1;
  /// Rank of this worker, from 0. Must be set if there are several workers.
  std::uint64_t rank = CNTK_READER_NO_RANK;
  /// Global minibatch size: samples of all workers together. Must be set.
  std::uint64_t minibatch_size = 0;
  /// Steps of a truncated minibatch; 0 unless the configuration has `truncated = true`. Starting an
  /// epoch ignores this and uses the configuration's `truncationLength`.
  std::uint64_t truncation_length = 0;
  /// Overlap of truncated minibatches in steps. Starting an epoch ignores this and uses the
  /// configuration's `rightSplice`.
  std::uint64_t right_splice = 0;
  /// Minibatches may continue past the end of a sweep.
  bool cross_sweeps = true;
};

/// Parameters of an epoch. In C++20: `reader.StartEpoch({.minibatch_size = 32, .sweeps = 1})`.
struct EpochConfiguration {
  /// This and the following members are as in ReaderConfiguration.
  std::uint64_t workers = 1;
  std::uint64_t rank = CNTK_READER_NO_RANK;
  std::uint64_t minibatch_size = 0;
  std::uint64_t truncation_length = 0;
  std::uint64_t right_splice = 0;
  bool cross_sweeps = true;
  /// Size in samples of all workers; ignored if sweeps are limited.
  std::uint64_t samples = kUnlimitedSamples;
  /// Size in sweeps, which are passes over the data.
  std::uint64_t sweeps = kUnlimitedSweeps;
  /// Number of the epoch, from 0.
  std::uint64_t index = 0;
};

/// State of an epoch.
enum class EpochState {
  /// The epoch was started, and its end was not reported yet.
  kStarted = CNTK_READER_EPOCH_STARTED,
  /// A checkpoint from the middle of the epoch was restored: StartNextEpoch continues with the rest
  /// of it.
  kResumed = CNTK_READER_EPOCH_RESUMED,
  /// The end of the epoch was reported: NextStep returned no minibatch, or GetMinibatch one past
  /// the end.
  kOver = CNTK_READER_EPOCH_OVER,
};

/// The current epoch.
struct CurrentEpoch {
  /// The parameters that it was started with.
  EpochConfiguration configuration;
  EpochState state = EpochState::kStarted;
};

/// Sizes of data; unknown ones are empty.
struct Sizes {
  /// Samples in one sweep, in the unit of minibatch and epoch sizes.
  std::optional<std::uint64_t> samples;
  std::optional<std::uint64_t> sequences;
  std::optional<std::uint64_t> chunks;
};

/// One of a reader's deserializers.
struct Member {
  std::string name;  ///< Its file, or the name of a user-defined deserializer.
  std::string type;  ///< Its `type` in the configuration.
  /// Sizes of its data, whether or not other deserializers have the same sequences.
  Sizes sizes;
};

/// Progress of an epoch.
struct Progress {
  /// Samples up to the end of the most recently read minibatch, of all workers; if each worker has
  /// its own order, of this worker.
  std::uint64_t delivered = 0;
  /// Samples in the epoch; empty if unknown, or if the epoch has no end.
  std::optional<std::uint64_t> expected;
  /// The sweep of the next sample, from 0.
  std::uint64_t sweep = 0;
};

/// Outcome of waiting for the next step.
enum class Outcome {
  kMinibatch = CNTK_READER_OUTCOME_MINIBATCH,      ///< A minibatch was read.
  kEndOfEpoch = CNTK_READER_OUTCOME_END_OF_EPOCH,  ///< The epoch is over.
  kPending = CNTK_READER_OUTCOME_PENDING,          ///< The timeout expired; try again.
};

/// Memory held by a reader, in bytes.
struct Memory {
  std::uint64_t window = 0;   ///< Chunks.
  std::uint64_t buffers = 0;  ///< Minibatches.
  std::uint64_t index = 0;    ///< Tables of chunks, sequences and keys.

  std::uint64_t Total() const noexcept { return window + buffers + index; }
};

/// CNTK's checkpoint state: named numbers.
using State = std::map<std::string, std::uint64_t>;

/// A checkpoint of a reader: opaque bytes.
class Checkpoint {
 public:
  const unsigned char* data() const { return Bytes().data(); }
  std::size_t size() const { return Bytes().size(); }

 private:
  friend class Reader;
  explicit Checkpoint(cntk_reader_buffer* buffer) : buffer_(buffer) {
    const std::uint8_t* bytes = nullptr;
    std::size_t size = 0;
    detail::Call(cntk_reader_buffer_get_bytes, buffer, &bytes, &size);
    bytes_ = {bytes, size};
  }

  Span<const unsigned char> Bytes() const {
    if (!buffer_) detail::MovedFrom::Refuse("Checkpoint");
    return bytes_;
  }

  struct Free {
    void operator()(cntk_reader_buffer* buffer) const noexcept { cntk_reader_buffer_free(buffer); }
  };

  std::unique_ptr<cntk_reader_buffer, Free> buffer_;
  Span<const unsigned char> bytes_;  // Of the buffer: dangling after a move.
};

namespace detail {

/// Rejects negative numbers that were converted to unsigned ones.
inline void CheckNumber(std::string_view what, std::uint64_t number) {
  if (number > std::uint64_t{INT64_MAX})
    throw Error(ErrorKind::kInvalidArgument,
                std::string(what) + " is " + std::to_string(number) +
                    ". Expected a number below 2^63; a negative number wraps around to a large one.");
}

/// Returns a non-null pointer, which the C interface requires even for an empty text.
inline const char* NotNull(std::string_view text) noexcept { return text.data() ? text.data() : ""; }

inline std::optional<std::uint64_t> Known(std::uint64_t number) noexcept {
  return number == CNTK_READER_UNKNOWN ? std::nullopt : std::optional<std::uint64_t>(number);
}

template <typename Info>
Sizes ToSizes(const Info& info) noexcept {
  return {Known(info.samples), Known(info.sequences), Known(info.chunks)};
}

}  // namespace detail

/// Reads minibatches.
class Reader {
 public:
  class MinibatchRange;

  /// Opens a reader from a configuration file. `users` and `transforms` are user-defined
  /// deserializers and transforms with their names, which are `type` in the configuration.
  /// `canceller` cancels the opening and the reader's calls. `reader` selects one of several
  /// readers in the configuration by the keys that lead to it, such as "train.reader".
  static Reader FromFile(std::string_view path, const UserDeserializers& users = {},
                         const Transforms& transforms = {}, const Canceller* canceller = nullptr,
                         std::string_view reader = {}) {
    cntk_reader_source source = CNTK_READER_SOURCE_INIT;
    source.file = detail::NotNull(path);
    source.file_length = path.size();
    return Reader(Choose(source, reader), users, transforms, canceller);
  }

  /// Opens a reader from the text of a configuration, otherwise like FromFile. With a single
  /// user-defined deserializer, the text may omit `deserializers`, and may be empty.
  static Reader FromText(std::string_view text, const UserDeserializers& users = {},
                         const Transforms& transforms = {}, const Canceller* canceller = nullptr,
                         std::string_view reader = {}) {
    cntk_reader_source source = CNTK_READER_SOURCE_INIT;
    source.text = detail::NotNull(text);
    source.text_length = text.size();
    return Reader(Choose(source, reader), users, transforms, canceller);
  }

  /// Returns the names of the readers in a configuration file, as FromFile takes them.
  static std::vector<std::string> ListReaders(std::string_view path) {
    cntk_reader_source source = CNTK_READER_SOURCE_INIT;
    source.file = detail::NotNull(path);
    source.file_length = path.size();
    std::size_t length = 0;
    char* const no_text = nullptr;
    detail::Call(cntk_reader_source_list_readers, &source, no_text, std::size_t{0}, &length);
    std::string text(length + 1, '\0');
    detail::Call(cntk_reader_source_list_readers, &source, &text[0], text.size(), &length);
    text.resize(std::min(length, text.size() - 1));
    std::vector<std::string> names;
    for (std::size_t start = 0; start < text.size();) {
      const std::size_t end = std::min(text.find('\n', start), text.size());
      names.push_back(text.substr(start, end - start));
      start = end + 1;
    }
    return names;
  }

  /// Opens a reader of a user-defined deserializer. The configuration's text has the reader's keys
  /// (`randomize`, `randomizationWindow`, `frameMode` ...) and may be empty.
  static Reader FromUser(std::shared_ptr<UserDeserializer> deserializer, std::string_view text = "",
                         const Canceller* canceller = nullptr) {
    return FromText(text, {{"User", std::move(deserializer)}}, {}, canceller);
  }

  /// Opens a reader from options and deserializers. The first deserializer determines the order of
  /// the data; the others are joined to it by sequence key. `canceller` cancels the opening and the
  /// reader's calls.
  static Reader Open(const ReaderOptions& options, const std::vector<Deserializer>& deserializers,
                     const Canceller* canceller = nullptr) {
    detail::Options all = options.All();
    UserDeserializers users;
    Transforms transforms;
    for (const Deserializer& deserializer : deserializers) {
      all.AddSection("deserializers", deserializer.options_);
      if (!deserializer.name_.empty() || deserializer.user_)
        users.emplace_back(deserializer.name_, deserializer.user_);
      transforms.insert(transforms.end(), deserializer.transforms_.begin(), deserializer.transforms_.end());
    }
    cntk_reader_source source = CNTK_READER_SOURCE_INIT;
    source.options = all.get();
    return Reader(source, users, transforms, canceller);
  }

  /// Opens a reader of several deserializers with the default options.
  static Reader Open(const std::vector<Deserializer>& deserializers) { return Open({}, deserializers); }

  /// Opens a reader of a single deserializer, such as a CtfDeserializer.
  template <typename One, typename = std::enable_if_t<std::is_convertible_v<const One&, Deserializer>>>
  static Reader Open(const ReaderOptions& options, const One& deserializer,
                     const Canceller* canceller = nullptr) {
    return Open(options, std::vector<Deserializer>{deserializer}, canceller);
  }

  /// Opens a reader of a single deserializer with the default options.
  template <typename One, typename = std::enable_if_t<std::is_convertible_v<const One&, Deserializer>>>
  static Reader Open(const One& deserializer) {
    return Open({}, std::vector<Deserializer>{deserializer});
  }

  /// Returns the streams, by number. A shape that depends on the data, such as that of images
  /// without a Scale, is filled in by GetMinibatch.
  const StreamDescriptions& GetStreamDescriptions() const {
    static_cast<void>(Handle());
    return *streams_;
  }

  /// Returns the stream with this name.
  const StreamDescription& GetStreamDescription(std::string_view name) const {
    return detail::FindStream(GetStreamDescriptions(), name);
  }

  /// Returns whether sequence keys are numbers in the data.
  bool HasNumericKeys() const { return Info().numeric_keys != 0; }

  /// Returns the sizes of the data; with several deserializers, of the sequences that all of them
  /// have.
  Sizes GetSizes() const {
    const cntk_reader_info info = Info();
    return detail::ToSizes(info);
  }

  /// Returns the deserializers in the order of the configuration.
  std::vector<Member> GetMembers() const {
    std::vector<Member> members;
    for (std::size_t i = 0, count = Info().member_count; i < count; ++i) {
      auto info = detail::Sized<cntk_reader_member_info>();
      detail::Call(cntk_reader_member_describe, Handle(), i, &info);
      members.push_back({info.name, info.type_name, detail::ToSizes(info)});
    }
    return members;
  }

  /// Returns the progress of the epoch up to the most recently read minibatch, regardless of
  /// prefetching.
  Progress GetProgress() const {
    auto progress = detail::Sized<cntk_reader_progress>();
    detail::Call(cntk_reader_progress_get, Handle(), &progress);
    return {progress.delivered, detail::Known(progress.expected), progress.sweep};
  }

  /// Returns the memory that the reader holds now.
  Memory GetMemory() const {
    auto memory = detail::Sized<cntk_reader_memory>();
    detail::Call(cntk_reader_memory_get, Handle(), &memory);
    return {memory.window, memory.buffers, memory.index};
  }

  /// Suggests a `chunkSizeInBytes` with which this many workers share the data evenly.
  std::uint64_t SuggestChunkSize(std::uint64_t workers) const {
    std::uint64_t bytes = 0;
    detail::Call(cntk_reader_chunk_size_suggest, Handle(), workers, &bytes);
    return bytes;
  }

  /// Starts an epoch, at its first sample. Required before the first minibatch, except after
  /// RestoreCheckpoint. It drops a position that RestoreCheckpoint or SetState has restored.
  void StartEpoch(const EpochConfiguration& epoch) {
    const cntk_reader_epoch raw = Raw(epoch);
    detail::Call(cntk_reader_epoch_start, Handle(), &raw);
  }

  /// Starts the epoch after the current one and returns its number, counted from 0. For training
  /// loops that read one epoch after another. `epoch.index` is ignored. After RestoreCheckpoint the
  /// first call continues with the rest of the checkpoint's epoch, unless its end was already
  /// reported. Throws if the current epoch has a different size: use StartEpoch then.
  std::uint64_t StartNextEpoch(const EpochConfiguration& epoch) {
    const cntk_reader_epoch raw = Raw(epoch);
    std::uint64_t index = 0;
    detail::Call(cntk_reader_epoch_start_next, Handle(), &raw, &index);
    return index;
  }

  /// Returns the current epoch, or that of a restored checkpoint; empty before the first one.
  std::optional<CurrentEpoch> GetEpoch() const {
    cntk_reader_epoch raw = CNTK_READER_EPOCH_INIT;
    cntk_reader_epoch_state state = CNTK_READER_EPOCH_NONE;
    detail::Call(cntk_reader_epoch_get, Handle(), &raw, &state);
    if (state == CNTK_READER_EPOCH_NONE) return std::nullopt;
    return CurrentEpoch{{raw.workers, raw.rank, raw.minibatch_size, raw.truncation_length, raw.right_splice,
                         raw.cross_sweeps != 0, raw.samples, raw.sweeps, raw.index},
                        static_cast<EpochState>(state)};
  }

  /// Changes sizes, workers and flags between two minibatches. The position in the data is kept.
  void SetConfiguration(const ReaderConfiguration& configuration) {
    CheckShare(configuration);
    const cntk_reader_configuration raw = {sizeof raw,
                                           configuration.workers,
                                           configuration.rank,
                                           configuration.minibatch_size,
                                           configuration.truncation_length,
                                           configuration.right_splice,
                                           configuration.cross_sweeps};
    detail::Call(cntk_reader_configuration_set, Handle(), &raw);
  }

  /// Returns the sizes, workers and flags in force, including those of a restored checkpoint.
  ReaderConfiguration GetConfiguration() const {
    cntk_reader_configuration raw = CNTK_READER_CONFIGURATION_INIT;
    detail::Call(cntk_reader_configuration_get, Handle(), &raw);
    return {raw.workers,           raw.rank,         raw.minibatch_size,
            raw.truncation_length, raw.right_splice, raw.cross_sweeps != 0};
  }

  /// Reads the next minibatch like CNTK's GetMinibatch. Past the end of the epoch, every call
  /// returns one without data. One of several workers may also get one without data earlier;
  /// Minibatch::IsStep distinguishes these. NextStep and Minibatches are easier to use.
  Minibatch GetMinibatch() {
    const cntk_reader_minibatch* minibatch = nullptr;
    detail::Call(cntk_reader_minibatch_read, Handle(), &minibatch);
    return Read(minibatch);
  }

  /// Reads the next step of the epoch: a minibatch with data or, in lockstep, one that all workers
  /// take part in. Empty at the end of the epoch.
  std::optional<Minibatch> NextStep() {
    std::optional<Minibatch> step;
    static_cast<void>(Next(CNTK_READER_NO_TIMEOUT, step));
    return step;
  }

  /// Like NextStep, but waits for at most `patience`. Nothing is lost when it times out: a thread
  /// of the reader goes on reading, and a later call returns the minibatch. The wait may be longer
  /// after a call that failed or was cancelled, because its effects are undone first.
  Outcome NextStep(std::chrono::milliseconds patience, std::optional<Minibatch>& step) {
    return Next(Milliseconds(patience), step);
  }

  /// Waits until the next minibatch is available without waiting, but at most `patience`, as
  /// NextStep does. Returns whether it is. Nothing is consumed.
  bool Wait(std::chrono::milliseconds patience) {
    std::uint32_t is_ready = 0;
    detail::Call(cntk_reader_minibatch_wait, Handle(), Milliseconds(patience), &is_ready);
    return is_ready != 0;
  }

  /// Returns whether workers read in lockstep (ReaderOptions::lockstep).
  bool IsInLockstep() const { return Info().lockstep != 0; }

  /// Returns the rest of the epoch's minibatches for a range-based for loop: those with data, and
  /// in lockstep all, so that all workers get the same number.
  MinibatchRange Minibatches() &;

  /// Returns CNTK's checkpoint state after the most recently read minibatch.
  State GetState() const {
    cntk_reader_state_entry entries[8];
    std::size_t count = 0;
    detail::Call(cntk_reader_state_get, Handle(), entries, std::size(entries), &count);
    State state;
    for (std::size_t i = 0; i < count && i < std::size(entries); ++i)
      state.emplace(std::string(entries[i].key, entries[i].key_length), entries[i].value);
    return state;
  }

  /// Restores CNTK's checkpoint state. Call it after StartEpoch, which would drop the position of
  /// an earlier call, as in CNTK. The state does not record the number of workers: with
  /// `localTimeline = true`, another number of workers loses and repeats sequences, as in CNTK 2.7.
  /// RestoreCheckpoint checks the number.
  void SetState(const State& state) {
    std::vector<cntk_reader_state_entry> entries;
    for (const auto& [key, value] : state) {
      detail::CheckNumber(key, value);
      entries.push_back({key.data(), key.size(), value});
    }
    detail::Call(cntk_reader_state_set, Handle(), entries.data(), entries.size());
  }

  /// Saves a checkpoint of the position after the most recently read minibatch. It continues
  /// exactly in every mode.
  Checkpoint SaveCheckpoint() const {
    cntk_reader_buffer* buffer = nullptr;
    detail::Call(cntk_reader_checkpoint_save, Handle(), &buffer);
    return Checkpoint(buffer);
  }

  /// Restores a checkpoint, and continues in the epoch in which it was saved: do not call
  /// StartEpoch afterwards, which would drop the position. A new reader becomes the worker that
  /// saved it; SetConfiguration may change that. A reader whose number of workers and rank were
  /// set, by StartEpoch or SetConfiguration, keeps them, and refuses a checkpoint that these
  /// workers cannot continue exactly.
  void RestoreCheckpoint(const void* bytes, std::size_t size) {
    detail::Call(cntk_reader_checkpoint_restore, Handle(), static_cast<const std::uint8_t*>(bytes), size);
  }
  void RestoreCheckpoint(const Checkpoint& checkpoint) {
    RestoreCheckpoint(checkpoint.data(), checkpoint.size());
  }

  /// Restores a checkpoint like RestoreCheckpoint, but allows values of the data to have changed
  /// since it was saved. The sequences must have the same keys and lengths.
  void RestoreCheckpointOverChangedValues(const void* bytes, std::size_t size) {
    detail::Call(cntk_reader_checkpoint_restore_over_changed_values, Handle(),
                 static_cast<const std::uint8_t*>(bytes), size);
  }
  void RestoreCheckpointOverChangedValues(const Checkpoint& checkpoint) {
    RestoreCheckpointOverChangedValues(checkpoint.data(), checkpoint.size());
  }

 private:
  struct Free {
    void operator()(cntk_reader* reader) const noexcept { cntk_reader_free(reader); }
  };

  /// Converts a duration; a negative one becomes 0.
  static std::uint64_t Milliseconds(std::chrono::milliseconds time) {
    return time.count() < 0 ? 0 : static_cast<std::uint64_t>(time.count());
  }

  Minibatch Read(const cntk_reader_minibatch* minibatch) {
    Minibatch result(minibatch, streams_);
    if (result) CompleteShapes();
    return result;
  }

  Outcome Next(std::uint64_t milliseconds, std::optional<Minibatch>& step) {
    step.reset();  // Recycles its memory.
    const cntk_reader_minibatch* minibatch = nullptr;
    cntk_reader_outcome outcome = CNTK_READER_OUTCOME_PENDING;
    detail::Call(cntk_reader_minibatch_next, Handle(), milliseconds, &minibatch, &outcome);
    if (minibatch) step = Read(minibatch);
    return static_cast<Outcome>(outcome);
  }

  static cntk_reader_epoch Raw(const EpochConfiguration& epoch) {
    CheckShare(epoch);
    detail::CheckNumber("The number of the epoch", epoch.index);
    if (epoch.sweeps == 0)
      throw Error(ErrorKind::kInvalidArgument,
                  "Epoch size in sweeps cannot be 0. Leave it out for no limit, or set it to at least 1.");
    return {sizeof(cntk_reader_epoch),
            epoch.workers,
            epoch.rank,
            epoch.minibatch_size,
            epoch.truncation_length,
            epoch.right_splice,
            epoch.cross_sweeps,
            epoch.samples,
            epoch.sweeps,
            epoch.index};
  }

  /// Rejects negative numbers.
  template <typename Configuration>
  static void CheckShare(const Configuration& configuration) {
    detail::CheckNumber("The number of workers", configuration.workers);
    detail::CheckNumber("The minibatch size", configuration.minibatch_size);
    detail::CheckNumber("The truncation length", configuration.truncation_length);
    detail::CheckNumber("The right splice", configuration.right_splice);
  }

  /// Selects a reader in the source if a name is given.
  static cntk_reader_source& Choose(cntk_reader_source& source, std::string_view reader) {
    if (!reader.empty()) {
      source.reader = reader.data();
      source.reader_length = reader.size();
    }
    return source;
  }

  Reader(cntk_reader_source& source, const UserDeserializers& users, const Transforms& transforms,
         const Canceller* canceller) {
    if (canceller) source.canceller = canceller->Handle();
    std::vector<std::unique_ptr<detail::UserTable>> tables;
    std::vector<const cntk_reader_user_deserializer*> raw;
    for (const auto& [name, user] : users) {
      tables.push_back(std::make_unique<detail::UserTable>(name, user));
      raw.push_back(tables.back()->Table());
    }
    source.deserializers = raw.data();
    source.deserializer_count = raw.size();
    std::vector<std::unique_ptr<detail::TransformTable>> transform_tables;
    std::vector<const cntk_reader_user_transform*> raw_transforms;
    for (const auto& [name, transform] : transforms) {
      transform_tables.push_back(std::make_unique<detail::TransformTable>(name, transform));
      raw_transforms.push_back(transform_tables.back()->Table());
    }
    source.transforms = raw_transforms.data();
    source.transform_count = raw_transforms.size();
    cntk_reader* reader = nullptr;
    detail::Call(cntk_reader_open, &source, &reader);
    handle_.reset(reader);
    // From now on the reader owns the tables.
    for (auto& table : tables) static_cast<void>(table.release());
    for (auto& table : transform_tables) static_cast<void>(table.release());
    auto streams = std::make_shared<StreamDescriptions>();
    for (std::size_t id = 0, count = Info().stream_count; id < count; ++id)
      streams->push_back(Describe(reader, id));
    streams_ = std::move(streams);
  }

  cntk_reader_info Info() const {
    auto info = detail::Sized<cntk_reader_info>();
    detail::Call(cntk_reader_describe, Handle(), &info);
    return info;
  }

  // Fills in shapes that depend on the data, in place because minibatches share the descriptions.
  void CompleteShapes() {
    for (StreamDescription& stream : *streams_) {
      if (stream.shape.size() != 1 || stream.shape[0] != CNTK_READER_UNKNOWN_DIMENSION) continue;
      StreamDescription known = Describe(Handle(), stream.id);
      stream.shape = std::move(known.shape);
      stream.sample_size = known.sample_size;
    }
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
    stream.classes = info.classes;
    return stream;
  }

  /// Returns the handle, which a reader loses when it is moved from.
  cntk_reader* Handle() const {
    if (!handle_) detail::MovedFrom::Refuse("Reader");
    return handle_.get();
  }

  std::unique_ptr<cntk_reader, Free> handle_;
  std::shared_ptr<StreamDescriptions> streams_;  // Shared with minibatches.
};

/// The minibatches of the rest of an epoch, each read when the loop reaches it. Valid as long as
/// the reader.
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
    reference operator*() const noexcept { return *minibatch_; }
    pointer operator->() const noexcept { return &*minibatch_; }
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
      minibatch_.reset();  // Recycles its memory.
      minibatch_ = reader_->NextStep();
      if (!minibatch_) reader_ = nullptr;
    }

    Reader* reader_ = nullptr;
    std::optional<Minibatch> minibatch_;
  };

  Iterator begin() const { return Iterator(reader_); }
  Iterator end() const noexcept { return Iterator(); }

 private:
  friend class Reader;
  explicit MinibatchRange(Reader* reader) noexcept : reader_(reader) {}

  Reader* reader_;
};

inline Reader::MinibatchRange Reader::Minibatches() & { return MinibatchRange(this); }

}  // namespace reader
}  // namespace cntk

#endif  // CNTK_READER_READER_HPP
