// The reader: opening, epochs, minibatches, checkpoints, and what can be asked of it.
//
// A part of <cntk_reader.hpp>, which is the one to include.

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
/// Epoch size in samples: one sweep, whatever its size.
inline constexpr std::uint64_t kOneSweep = CNTK_READER_ONE_SWEEP;
/// Epoch size in sweeps: no limit.
inline constexpr std::uint64_t kUnlimitedSweeps = CNTK_READER_UNLIMITED_SWEEPS;

/// Sizes, workers and flags of the minibatches to come.
struct ReaderConfiguration {
  /// Number of workers that share the data. Randomized data are shared out by chunks: with fewer chunks than
  /// workers some workers get nothing. See Reader::SuggestChunkSize.
  std::uint64_t workers = 1;
  /// Which of the workers this one is, from 0; has to be set if there are several.
  std::uint64_t rank = CNTK_READER_NO_RANK;
  /// Minibatch size in samples of all workers together; has to be set.
  std::uint64_t minibatch_size = 0;
  /// Steps of a truncated minibatch; 0 unless the configuration has `truncated = true`. An epoch starts with
  /// the configuration's `truncationLength` whatever stands here.
  std::uint64_t truncation_length = 0;
  /// Steps by which truncated minibatches overlap. An epoch starts with the configuration's `rightSplice`.
  std::uint64_t right_splice = 0;
  /// A minibatch may continue past the end of a sweep.
  bool cross_sweeps = true;
};

/// An epoch to start. In C++20: `reader.StartEpoch({.minibatch_size = 32, .sweeps = 1})`.
struct EpochConfiguration {
  /// As in ReaderConfiguration, here and below.
  std::uint64_t workers = 1;
  std::uint64_t rank = CNTK_READER_NO_RANK;
  std::uint64_t minibatch_size = 0;
  std::uint64_t truncation_length = 0;
  std::uint64_t right_splice = 0;
  bool cross_sweeps = true;
  /// Size in samples of all workers; ignored if sweeps are limited.
  std::uint64_t samples = kUnlimitedSamples;
  /// Size in sweeps, that is passes over the data.
  std::uint64_t sweeps = kUnlimitedSweeps;
  /// Which epoch, from 0.
  std::uint64_t index = 0;
};

/// How far an epoch has come.
enum class EpochState {
  /// It was started, and its end was not reported yet.
  kStarted = CNTK_READER_EPOCH_STARTED,
  /// A checkpoint from its middle was restored: StartNextEpoch goes on with the rest of it.
  kResumed = CNTK_READER_EPOCH_RESUMED,
  /// Its end was reported: NextStep gave nothing, or GetMinibatch a minibatch past the end.
  kOver = CNTK_READER_EPOCH_OVER,
};

/// The epoch in force.
struct CurrentEpoch {
  /// As it was started.
  EpochConfiguration configuration;
  EpochState state = EpochState::kStarted;
};

/// How much data there is; what is not known (yet) is empty.
struct Sizes {
  /// Samples of one sweep, in the unit of minibatch and epoch sizes.
  std::optional<std::uint64_t> samples;
  std::optional<std::uint64_t> sequences;
  std::optional<std::uint64_t> chunks;
};

/// One of a reader's deserializers.
struct Member {
  std::string name;  ///< Its file, or the name of a user's deserializer.
  std::string type;  ///< Its `type` in the configuration.
  /// Its data, whether or not other deserializers have the same sequences.
  Sizes sizes;
};

/// How far an epoch has come.
struct Progress {
  /// Samples up to the end of the minibatch read last, of all workers (those of this one, if every worker has
  /// an order of its own).
  std::uint64_t delivered = 0;
  /// Samples that the epoch has; empty if that is not known, or if the epoch has no end.
  std::optional<std::uint64_t> expected;
  /// The sweep, from 0, that the next sample belongs to.
  std::uint64_t sweep = 0;
};

/// The outcome of waiting for the next step.
enum class Outcome {
  kMinibatch = CNTK_READER_OUTCOME_MINIBATCH,      ///< There is a minibatch.
  kEndOfEpoch = CNTK_READER_OUTCOME_END_OF_EPOCH,  ///< There is none, and there will be none.
  kPending = CNTK_READER_OUTCOME_PENDING,          ///< The time is over. A later call gives the minibatch.
};

/// Memory that a reader holds, in bytes.
struct Memory {
  std::uint64_t window = 0;   ///< Chunks.
  std::uint64_t buffers = 0;  ///< Minibatches.
  std::uint64_t index = 0;    ///< Tables of chunks, sequences and keys.

  std::uint64_t Total() const noexcept { return window + buffers + index; }
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
    const std::uint8_t* bytes = nullptr;
    std::size_t size = 0;
    detail::Call(cntk_reader_buffer_get_bytes, buffer, &bytes, &size);
    bytes_ = {bytes, size};
  }

  struct Free {
    void operator()(cntk_reader_buffer* buffer) const noexcept { cntk_reader_buffer_free(buffer); }
  };

  std::unique_ptr<cntk_reader_buffer, Free> buffer_;
  Span<const unsigned char> bytes_;
};

namespace detail {

/// Refuses a negative number that was converted.
inline void CheckNumber(std::string_view what, std::uint64_t number) {
  if (number > std::uint64_t{INT64_MAX})
    throw Error(ErrorKind::kInvalidArgument,
                std::string(what) + " is " + std::to_string(number) +
                    ". Expected a number below 2^63; a negative number becomes a great one here.");
}

/// A text's start, which the C interface wants even of an empty text.
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

  /// Opens a reader from a configuration file. `users` are formats of the user's own, `transforms` transforms
  /// of images, each by the names that the configuration has as `type`. `canceller` ends opening and the
  /// reader's calls. `reader` chooses one of several readers of the configuration by the keys that lead to
  /// it, "train.reader".
  static Reader FromFile(std::string_view path, const UserDeserializers& users = {},
                         const Transforms& transforms = {}, const Canceller* canceller = nullptr,
                         std::string_view reader = {}) {
    cntk_reader_source source = CNTK_READER_SOURCE_INIT;
    source.file = detail::NotNull(path);
    source.file_length = path.size();
    return Reader(Choose(source, reader), users, transforms, canceller);
  }

  /// Opens a reader from the text of a configuration, otherwise as FromFile. If there is only one user's
  /// format, the text need not have `deserializers`, and may be empty.
  static Reader FromText(std::string_view text, const UserDeserializers& users = {},
                         const Transforms& transforms = {}, const Canceller* canceller = nullptr,
                         std::string_view reader = {}) {
    cntk_reader_source source = CNTK_READER_SOURCE_INIT;
    source.text = detail::NotNull(text);
    source.text_length = text.size();
    return Reader(Choose(source, reader), users, transforms, canceller);
  }

  /// The readers that a configuration file has in its sections, by the names that FromFile takes.
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

  /// Opens a reader of a format of the user's own. The configuration's text has the reader's keys
  /// (`randomize`, `randomizationWindow`, `frameMode` ...) and may be empty.
  static Reader FromUser(std::shared_ptr<UserDeserializer> deserializer, std::string_view text = "",
                         const Canceller* canceller = nullptr) {
    return FromText(text, {{"User", std::move(deserializer)}}, {}, canceller);
  }

  /// Opens a reader from options and deserializers. The first deserializer gives the order of the data; the
  /// others are joined to it by sequence key. `canceller` ends opening and the reader's calls.
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

  /// Opens a reader of deserializers, with the default options.
  static Reader Open(const std::vector<Deserializer>& deserializers) { return Open({}, deserializers); }

  /// Opens a reader of a single deserializer, such as a CtfDeserializer.
  template <typename One, typename = std::enable_if_t<std::is_convertible_v<const One&, Deserializer>>>
  static Reader Open(const ReaderOptions& options, const One& deserializer,
                     const Canceller* canceller = nullptr) {
    return Open(options, std::vector<Deserializer>{deserializer}, canceller);
  }

  /// Opens a reader of a single deserializer, with the default options.
  template <typename One, typename = std::enable_if_t<std::is_convertible_v<const One&, Deserializer>>>
  static Reader Open(const One& deserializer) {
    return Open({}, std::vector<Deserializer>{deserializer});
  }

  /// The streams, by number. GetMinibatch fills in a shape that is unknown until there are data, such as that
  /// of images without a scale.
  const StreamDescriptions& GetStreamDescriptions() const noexcept { return *streams_; }

  /// The stream with this name.
  const StreamDescription& GetStreamDescription(std::string_view name) const {
    return detail::FindStream(*streams_, name);
  }

  /// Whether sequence keys are numbers in the data.
  bool HasNumericKeys() const { return Info().numeric_keys != 0; }

  /// How much data there is: of several deserializers the sequences that all of them have.
  Sizes GetSizes() const {
    const cntk_reader_info info = Info();
    return detail::ToSizes(info);
  }

  /// The deserializers, in the order of the configuration.
  std::vector<Member> GetMembers() const {
    std::vector<Member> members;
    for (std::size_t i = 0, count = Info().member_count; i < count; ++i) {
      auto info = detail::Sized<cntk_reader_member_info>();
      detail::Call(cntk_reader_member_describe, handle_.get(), i, &info);
      members.push_back({info.name, info.type_name, detail::ToSizes(info)});
    }
    return members;
  }

  /// How far the epoch has come with the minibatch read last, however much is read ahead.
  Progress GetProgress() const {
    auto progress = detail::Sized<cntk_reader_progress>();
    detail::Call(cntk_reader_progress_get, handle_.get(), &progress);
    return {progress.delivered, detail::Known(progress.expected), progress.sweep};
  }

  /// The memory that the reader holds now.
  Memory GetMemory() const {
    auto memory = detail::Sized<cntk_reader_memory>();
    detail::Call(cntk_reader_memory_get, handle_.get(), &memory);
    return {memory.window, memory.buffers, memory.index};
  }

  /// A `chunkSizeInBytes` with which this many workers share the data evenly.
  std::uint64_t SuggestChunkSize(std::uint64_t workers) const {
    std::uint64_t bytes = 0;
    detail::Call(cntk_reader_chunk_size_suggest, handle_.get(), workers, &bytes);
    return bytes;
  }

  /// Starts an epoch. Needed before the first minibatch, except after RestoreCheckpoint.
  void StartEpoch(const EpochConfiguration& epoch) {
    const cntk_reader_epoch raw = Raw(epoch);
    detail::Call(cntk_reader_epoch_start, handle_.get(), &raw);
  }

  /// Starts the epoch after the one in force and returns its number, from 0: for training loops that read one
  /// epoch after the other. `epoch.index` is ignored. After RestoreCheckpoint the first call goes on with the
  /// rest of the checkpoint's epoch, unless its end was reported before. Throws if the epoch in force has
  /// another size: then StartEpoch sets the number.
  std::uint64_t StartNextEpoch(const EpochConfiguration& epoch) {
    const cntk_reader_epoch raw = Raw(epoch);
    std::uint64_t index = 0;
    detail::Call(cntk_reader_epoch_start_next, handle_.get(), &raw, &index);
    return index;
  }

  /// The epoch in force, that of a restored checkpoint too; empty before the first one.
  std::optional<CurrentEpoch> GetEpoch() const {
    cntk_reader_epoch raw = CNTK_READER_EPOCH_INIT;
    cntk_reader_epoch_state state = CNTK_READER_EPOCH_NONE;
    detail::Call(cntk_reader_epoch_get, handle_.get(), &raw, &state);
    if (state == CNTK_READER_EPOCH_NONE) return std::nullopt;
    return CurrentEpoch{{raw.workers, raw.rank, raw.minibatch_size, raw.truncation_length, raw.right_splice,
                         raw.cross_sweeps != 0, raw.samples, raw.sweeps, raw.index},
                        static_cast<EpochState>(state)};
  }

  /// Changes sizes, workers and flags between two minibatches; the position stays.
  void SetConfiguration(const ReaderConfiguration& configuration) {
    CheckShare(configuration);
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

  /// Reads the next minibatch, as CNTK's GetMinibatch does. Past the end of the epoch every read gives one
  /// without data. One of several workers may also get one without data earlier: Minibatch::IsStep tells
  /// these apart. NextStep and Minibatches are easier to use.
  Minibatch GetMinibatch() {
    const cntk_reader_minibatch* minibatch = nullptr;
    detail::Call(cntk_reader_minibatch_read, handle_.get(), &minibatch);
    return Read(minibatch);
  }

  /// Reads the next step of the epoch: a minibatch with data or, in lockstep, one that all workers take part
  /// in. Empty at the end of the epoch.
  std::optional<Minibatch> NextStep() {
    std::optional<Minibatch> step;
    static_cast<void>(Next(CNTK_READER_NO_TIMEOUT, step));
    return step;
  }

  /// NextStep, which waits no longer than `patience`. Nothing is lost by giving up: a thread of the reader's
  /// reads on meanwhile, and a later call gives the minibatch. It may wait longer after a call that failed or
  /// was cancelled, whose effects are undone first.
  Outcome NextStep(std::chrono::milliseconds patience, std::optional<Minibatch>& step) {
    return Next(Milliseconds(patience), step);
  }

  /// Waits until the next minibatch can be had without waiting, but no longer than `patience`, as NextStep
  /// does. Returns whether it can. Nothing is delivered.
  bool Wait(std::chrono::milliseconds patience) {
    std::uint32_t is_ready = 0;
    detail::Call(cntk_reader_minibatch_wait, handle_.get(), Milliseconds(patience), &is_ready);
    return is_ready != 0;
  }

  /// Whether workers read in lockstep (ReaderOptions::lockstep).
  bool IsInLockstep() const { return Info().lockstep != 0; }

  /// The minibatches from here to the end of the epoch, for a range-based for: those with data, and in
  /// lockstep all, so that each worker gets as many.
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

  /// Restores CNTK's checkpoint state, after StartEpoch. A state does not say how many workers saved it: with
  /// localTimeline = true other workers lose and repeat sequences, as in CNTK 2.7. RestoreCheckpoint compares
  /// them.
  void SetState(const State& state) {
    std::vector<cntk_reader_state_entry> entries;
    for (const auto& [key, value] : state) {
      detail::CheckNumber(key, value);
      entries.push_back({key.data(), key.size(), value});
    }
    detail::Call(cntk_reader_state_set, handle_.get(), entries.data(), entries.size());
  }

  /// Saves the position after the minibatch read last, so that every mode continues exactly.
  Checkpoint SaveCheckpoint() const {
    cntk_reader_buffer* buffer = nullptr;
    detail::Call(cntk_reader_checkpoint_save, handle_.get(), &buffer);
    return Checkpoint(buffer);
  }

  /// Continues where a checkpoint was saved, in the epoch of that time. A new reader becomes the worker
  /// that saved it; SetConfiguration may change that. A reader whose number of workers and rank were
  /// set, by StartEpoch or SetConfiguration, keeps them, and refuses a checkpoint that these workers
  /// cannot continue exactly.
  void RestoreCheckpoint(const void* bytes, std::size_t size) {
    detail::Call(cntk_reader_checkpoint_restore, handle_.get(), static_cast<const std::uint8_t*>(bytes),
                 size);
  }
  void RestoreCheckpoint(const Checkpoint& checkpoint) {
    RestoreCheckpoint(checkpoint.data(), checkpoint.size());
  }

  /// RestoreCheckpoint where the values of the data were changed on purpose since the checkpoint was saved:
  /// the sequences must be the same, in their keys and lengths.
  void RestoreCheckpointOverChangedValues(const void* bytes, std::size_t size) {
    detail::Call(cntk_reader_checkpoint_restore_over_changed_values, handle_.get(),
                 static_cast<const std::uint8_t*>(bytes), size);
  }
  void RestoreCheckpointOverChangedValues(const Checkpoint& checkpoint) {
    RestoreCheckpointOverChangedValues(checkpoint.data(), checkpoint.size());
  }

 private:
  struct Free {
    void operator()(cntk_reader* reader) const noexcept { cntk_reader_free(reader); }
  };

  /// None if the time is negative.
  static std::uint64_t Milliseconds(std::chrono::milliseconds time) {
    return time.count() < 0 ? 0 : static_cast<std::uint64_t>(time.count());
  }

  Minibatch Read(const cntk_reader_minibatch* minibatch) {
    Minibatch result(minibatch, streams_);
    if (result) CompleteShapes();
    return result;
  }

  Outcome Next(std::uint64_t milliseconds, std::optional<Minibatch>& step) {
    step.reset();  // Its memory serves for the next one.
    const cntk_reader_minibatch* minibatch = nullptr;
    cntk_reader_outcome outcome = CNTK_READER_OUTCOME_PENDING;
    detail::Call(cntk_reader_minibatch_next, handle_.get(), milliseconds, &minibatch, &outcome);
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

  /// Refuses negative numbers.
  template <typename Configuration>
  static void CheckShare(const Configuration& configuration) {
    detail::CheckNumber("The number of workers", configuration.workers);
    detail::CheckNumber("The minibatch size", configuration.minibatch_size);
    detail::CheckNumber("The truncation length", configuration.truncation_length);
    detail::CheckNumber("The right splice", configuration.right_splice);
  }

  /// The source with one of its readers chosen, if there is a name.
  static cntk_reader_source& Choose(cntk_reader_source& source, std::string_view reader) {
    if (!reader.empty()) {
      source.reader = reader.data();
      source.reader_length = reader.size();
    }
    return source;
  }

  Reader(cntk_reader_source& source, const UserDeserializers& users, const Transforms& transforms,
         const Canceller* canceller) {
    if (canceller) source.canceller = canceller->handle_.get();
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
    // From now on the reader owns them.
    for (auto& table : tables) static_cast<void>(table.release());
    for (auto& table : transform_tables) static_cast<void>(table.release());
    auto streams = std::make_shared<StreamDescriptions>();
    for (std::size_t id = 0, count = Info().stream_count; id < count; ++id)
      streams->push_back(Describe(reader, id));
    streams_ = std::move(streams);
  }

  cntk_reader_info Info() const {
    auto info = detail::Sized<cntk_reader_info>();
    detail::Call(cntk_reader_describe, handle_.get(), &info);
    return info;
  }

  // Shapes that come with the data. Minibatches share the descriptions, so they are changed in place.
  void CompleteShapes() {
    for (StreamDescription& stream : *streams_) {
      if (stream.shape.size() != 1 || stream.shape[0] != CNTK_READER_UNKNOWN_DIMENSION) continue;
      StreamDescription known = Describe(handle_.get(), stream.id);
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

  std::unique_ptr<cntk_reader, Free> handle_;
  std::shared_ptr<StreamDescriptions> streams_;  // Shared with the minibatches, which look names up in it.
};

/// The minibatches of the rest of an epoch, each read when the loop gets to it. Valid as long as the reader.
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
      minibatch_.reset();  // Its memory serves for the next one.
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
