// User-defined deserializers: derive from UserDeserializer, and open with Reader::FromUser.
//
// Part of <cntk_reader.hpp>; include that.

#ifndef CNTK_READER_USER_HPP
#define CNTK_READER_USER_HPP

#include <cntk_reader.h>

#include <cntk_reader/callback.hpp>
#include <cntk_reader/error.hpp>
#include <cntk_reader/stream.hpp>
#include <cntk_reader/user_data.hpp>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace cntk {
namespace reader {

/// Matches sequences of a deserializer to those of the reader's first one by a rule other than
/// equal keys.
class SequenceMatcher {
 public:
  SequenceMatcher() = default;
  SequenceMatcher(const SequenceMatcher&) = delete;
  SequenceMatcher& operator=(const SequenceMatcher&) = delete;
  virtual ~SequenceMatcher() = default;

  /// Returns the place of the sequence that belongs to `of`, a sequence of the reader's first
  /// deserializer; std::nullopt leaves `of` out. Called on the thread that opens the reader.
  virtual std::optional<SequencePlace> FindSequence(const SequenceInfo& of) = 0;
};

/// A user-defined deserializer. Chunks are loaded on the library's threads, one at a time unless
/// IsThreadSafe. An exception is reported by the call that needs the data, as an Error of kind
/// kUser whose message is the exception's text, followed by the method or the chunk that failed.
/// Exceptions of methods that are not called for a chunk are reported while the reader is opened;
/// they are also nested in the Error (std::rethrow_if_nested).
///
/// Three methods are required. The others determine the features:
/// - GetSequences: sequences are known in advance, which enables the full randomizer, one timeline
///   for all workers, and joining with other deserializers by key. Without it, chunks list their
///   sequences when they are loaded, and the data are read as CNTK reads user-defined
///   deserializers.
/// - FetchesSequences: chunks return one sequence at a time instead of arrays.
/// - GetMatcher: sequences are matched otherwise than by key.
class UserDeserializer {
 public:
  UserDeserializer() = default;
  UserDeserializer(const UserDeserializer&) = delete;
  UserDeserializer& operator=(const UserDeserializer&) = delete;
  virtual ~UserDeserializer() = default;

  /// Returns the streams, at least one. Called once for each reader.
  virtual std::vector<UserStream> GetStreams() = 0;
  /// Returns the number of chunks, at least 1. Called once for each reader.
  virtual std::uint32_t GetChunkCount() = 0;
  /// Loads a chunk. Loading it again must return the same sequences.
  virtual UserChunk GetChunk(std::uint32_t chunk) = 0;

  /// Returns the sequences of a chunk if they are known before it is loaded, for all chunks or for
  /// none. Called once for each chunk, on the thread that opens the reader.
  virtual std::optional<UserSequences> GetSequences(std::uint32_t chunk) {
    static_cast<void>(chunk);
    return std::nullopt;
  }
  /// Returns whether chunks return one sequence at a time (UserChunk::Fetched).
  virtual bool FetchesSequences() const { return false; }
  /// Returns a matcher for use as a deserializer that is not the reader's first; null: sequences
  /// are matched by key.
  virtual SequenceMatcher* GetMatcher() { return nullptr; }
  /// Returns whether several threads may load and release chunks at once.
  virtual bool IsThreadSafe() const { return false; }
};

/// User-defined deserializers with their names in the configuration.
using UserDeserializers = std::vector<std::pair<std::string, std::shared_ptr<UserDeserializer>>>;

namespace detail {

/// The table of callbacks of a UserDeserializer, with everything that it points to.
class UserTable {
 public:
  UserTable(const std::string& name, std::shared_ptr<UserDeserializer> user)
      : name_(name), user_(std::move(user)) {
    if (!user_) throw Error(ErrorKind::kInvalidArgument, "The deserializer '" + name_ + "' is null.");
    const auto ask = [&](const char* method, auto&& body) { return CallUser(method, name_, body); };
    described_ = std::make_shared<const std::vector<UserStream>>(
        ask("UserDeserializer::GetStreams", [&] { return user_->GetStreams(); }));
    for (const UserStream& stream : *described_)
      streams_.push_back({stream.name.data(), stream.name.size(), stream.shape.data(), stream.shape.size(),
                          static_cast<std::uint32_t>(stream.storage),
                          static_cast<std::uint32_t>(stream.element), stream.defines_mb_size ? 1u : 0u, 0});
    table_ = Sized<cntk_reader_user_deserializer>();
    table_.userdata = this;
    table_.name = name_.data();
    table_.name_length = name_.size();
    table_.streams = streams_.data();
    table_.stream_count = streams_.size();
    table_.chunk_count = ask("UserDeserializer::GetChunkCount", [&] { return user_->GetChunkCount(); });
    table_.thread_safe = ask("UserDeserializer::IsThreadSafe", [&] { return user_->IsThreadSafe(); }) ? 1 : 0;
    table_.load_chunk = Callback(LoadChunk);
    table_.release_chunk = Callback(DeleteHandle<Chunk>);
    table_.finalizer = Callback(Delete<UserTable>);
    matcher_ = ask("UserDeserializer::GetMatcher", [&] { return user_->GetMatcher(); });
    if (matcher_ != nullptr) table_.find_sequence = Callback(FindSequence);
    if (ask("UserDeserializer::FetchesSequences", [&] { return user_->FetchesSequences(); })) {
      table_.fetch_sequence = Callback(FetchSequence);
      table_.prepare_sequence = Callback(PrepareSequence);
      table_.release_sequence = Callback(ReleaseSequence);
    }
    // The first chunk shows whether there are lists.
    if (table_.chunk_count > 0)
      first_ = ask("UserDeserializer::GetSequences(0)", [&] { return user_->GetSequences(0); });
    if (first_) table_.list_sequences = Callback(ListSequences);
  }
  UserTable(const UserTable&) = delete;
  UserTable& operator=(const UserTable&) = delete;

  const cntk_reader_user_deserializer* Table() const noexcept { return &table_; }

 private:
  /// A chunk in the form of the C interface.
  struct Chunk {
    UserChunk data;
    std::vector<std::vector<cntk_reader_user_array>> arrays;
    std::vector<cntk_reader_user_stream_data> streams;
    std::optional<UserSequences> listed;
  };

  static UserTable& Of(void* userdata) { return *static_cast<UserTable*>(userdata); }

  static std::int32_t LoadChunk(void* userdata, std::uint32_t number, cntk_reader_user_chunk* out,
                                cntk_reader_failure* failure) noexcept {
    return RunCallback(failure, "The deserializer", [&] {
      UserTable& table = Of(userdata);
      auto chunk = std::make_unique<Chunk>();
      chunk->data = table.user_->GetChunk(number);
      chunk->data.moved_.Check("UserChunk");
      if (chunk->data.fetched_ != nullptr) {
        if (!table.user_->FetchesSequences())
          throw std::logic_error(
              "GetChunk returned a UserChunk::Fetched, but FetchesSequences returned false; it must return "
              "true.");
        table.List(*chunk, *out);
      } else {
        if (table.user_->FetchesSequences())
          throw std::logic_error(
              "GetChunk returned arrays, but FetchesSequences returned true: return a UserChunk::Fetched.");
        table.Describe(*chunk, *out);
      }
      out->handle = chunk.release();
    });
  }

  /// Writes the sequences of a chunk that lists them itself.
  void List(Chunk& chunk, cntk_reader_user_chunk& out) const {
    std::optional<UserSequences> listed = chunk.data.fetched_->GetSequences();
    if (!listed) {
      if (table_.list_sequences != nullptr) return;
      throw std::logic_error(
          "Neither UserDeserializer::GetSequences nor FetchedChunk::GetSequences returned a list: one of "
          "them must.");
    }
    CheckEqual(*listed);
    if (!listed->key_texts.empty())
      throw std::invalid_argument(
          "Keys as texts (`key_texts`) are for sequences that UserDeserializer::GetSequences lists.");
    chunk.listed = std::move(listed);
    out.sequence_count = chunk.listed->count;
    out.lengths = chunk.listed->lengths.empty() ? nullptr : chunk.listed->lengths.data();
    out.keys = chunk.listed->keys.empty() ? nullptr : chunk.listed->keys.data();
  }

  /// Writes the arrays of a chunk.
  void Describe(Chunk& chunk, cntk_reader_user_chunk& out) const {
    const std::vector<UserStreamData>& given = chunk.data.streams_;
    if (given.size() != described_->size())
      throw std::invalid_argument("A chunk has arrays of " + std::to_string(given.size()) +
                                  " streams instead of " + std::to_string(described_->size()) + ".");
    for (std::size_t i = 0; i < given.size(); ++i) {
      given[i].moved_.Check("UserStreamData");
      std::vector<cntk_reader_user_array>& arrays = chunk.arrays.emplace_back();
      for (const UserArray& array : given[i].arrays_) arrays.push_back(Raw(array, (*described_)[i]));
    }
    for (std::size_t i = 0; i < given.size(); ++i)
      chunk.streams.push_back({static_cast<std::uint32_t>(given[i].grouping_), 0, chunk.arrays[i].data(),
                               chunk.arrays[i].size(), given[i].lengths_.data(), given[i].lengths_.size()});
    out.streams = chunk.streams.data();
    out.stream_count = chunk.streams.size();
    if (chunk.data.keys.empty()) return;
    out.sequence_count = chunk.data.keys.size();
    out.keys = chunk.data.keys.data();
  }

  static cntk_reader_user_array Raw(const UserArray& array, const UserStream& stream) {
    array.moved_.Check("array");
    cntk_reader_user_array raw = {};
    raw.element = static_cast<std::uint32_t>(array.element_);
    raw.values = array.values_;
    raw.values_size = array.values_size_;
    raw.byte_offset = array.byte_offset_;
    raw.samples = array.samples_ ? *array.samples_ : Samples(array, stream);
    if (!array.shape_.empty()) {
      raw.shape = array.shape_.data();
      raw.shape_rank = array.shape_.size();
    }
    if (!array.strides_.empty()) {
      raw.strides = array.strides_.data();
      raw.stride_count = array.strides_.size();
    }
    raw.indices = array.indices_;
    raw.index_count = array.index_count_;
    raw.index_size = array.index_size_;
    raw.offsets = array.offsets_;
    raw.offset_size = array.offset_size_;
    return raw;
  }

  /// Returns the number of samples of a contiguous dense array.
  static std::size_t Samples(const UserArray& array, const UserStream& stream) {
    const std::size_t value_size = detail::SizeOf(array.element_);
    std::size_t size = value_size;
    for (const std::size_t dimension : stream.shape) size *= dimension;
    if (size == 0 || array.values_size_ % size != 0)
      throw std::invalid_argument(
          "Stream '" + stream.name + "': " + std::to_string(array.values_size_ / value_size) +
          " values are not a whole number of samples of " + std::to_string(size / value_size) + ".");
    return array.values_size_ / size;
  }

  static void CheckEqual(const UserSequences& listed) {
    const auto check = [&](std::size_t size) {
      if (size != 0 && size != listed.count)
        throw std::invalid_argument("The lists of sequences have different lengths.");
    };
    check(listed.lengths.size());
    check(listed.keys.size());
    check(listed.key_texts.size());
    check(listed.sample_indices.size());
  }

  static std::int32_t ListSequences(void* userdata, std::uint32_t number, cntk_reader_user_sequences* out,
                                    cntk_reader_failure* failure) noexcept {
    return RunCallback(failure, "The deserializer", [&] {
      UserTable& table = Of(userdata);
      std::optional<UserSequences> given;
      if (number == 0 && table.first_)
        given.swap(table.first_);
      else
        given = table.user_->GetSequences(number);
      if (!given)
        throw std::logic_error("GetSequences returned a list for chunk 0, but none for chunk " +
                               std::to_string(number) + ": it must list all chunks or none.");
      CheckEqual(*given);
      table.listed_ = std::move(*given);
      const UserSequences& listed = table.listed_;
      table.key_texts_.clear();
      table.key_text_lengths_.clear();
      for (const std::string& text : listed.key_texts) {
        table.key_texts_.push_back(text.c_str());
        table.key_text_lengths_.push_back(text.size());
      }
      out->count = listed.count;
      out->lengths = listed.lengths.empty() ? nullptr : listed.lengths.data();
      out->keys = listed.keys.empty() ? nullptr : listed.keys.data();
      out->key_texts = table.key_texts_.empty() ? nullptr : table.key_texts_.data();
      out->key_text_lengths = table.key_texts_.empty() ? nullptr : table.key_text_lengths_.data();
      out->sample_indices = listed.sample_indices.empty() ? nullptr : listed.sample_indices.data();
    });
  }

  static std::int32_t FindSequence(void* userdata, const cntk_reader_sequence_info* of,
                                   cntk_reader_sequence_info* sequence, std::uint32_t* found,
                                   cntk_reader_failure* failure) noexcept {
    return RunCallback(failure, "The deserializer", [&] {
      const std::optional<SequencePlace> place =
          Of(userdata).matcher_->FindSequence({of->chunk, of->index, of->samples, of->sample, of->key});
      *found = place ? 1 : 0;
      if (!place) return;
      sequence->chunk = place->chunk;
      sequence->index = place->index;
      sequence->samples = place->samples;
    });
  }

  static std::int32_t FetchSequence(void* userdata, void* handle, std::uint32_t index,
                                    cntk_reader_user_sequence* out, cntk_reader_failure* failure) noexcept {
    return RunCallback(failure, "The deserializer", [&] {
      UserTable& table = Of(userdata);
      const Chunk& chunk = *static_cast<const Chunk*>(handle);
      std::unique_ptr<UserSequence> sequence = table.TakeIdle();
      chunk.data.fetched_->FetchSequence(index, *sequence);
      out->is_invalid = sequence->is_invalid_ ? 1 : 0;
      out->handle = sequence.release();
    });
  }

  static std::int32_t PrepareSequence(void*, void* handle, std::uint32_t,
                                      cntk_reader_user_sequence_data* streams,
                                      cntk_reader_failure* failure) noexcept {
    return RunCallback(failure, "The deserializer", [&] {
      UserSequence& sequence = *static_cast<UserSequence*>(handle);
      for (std::size_t i = 0; i < sequence.streams_.size(); ++i) {
        const UserSequence::StreamValues& data = sequence.streams_[i];
        streams[i].samples = sequence.Samples(i);
        streams[i].values = data.Values();
        streams[i].value_count = data.ValueCount();
        streams[i].indices = data.indices.data();
        streams[i].sample_value_counts = data.counts.data();
        if (!data.shape.empty()) {
          streams[i].shape = data.shape.data();
          streams[i].shape_rank = data.shape.size();
        }
        if (sequence.key_) streams[i].key = *sequence.key_;
      }
    });
  }

  static void ReleaseSequence(void* userdata, void* handle) noexcept {
    RunQuietly([&] {
      std::unique_ptr<UserSequence> sequence(static_cast<UserSequence*>(handle));
      UserTable& table = Of(userdata);
      const std::lock_guard<std::mutex> lock(table.idle_lock_);
      // If the list cannot grow, the sequence is freed instead of recycled.
      if (table.idle_.size() < kMostIdle) table.idle_.push_back(std::move(sequence));
    });
  }

  /// Returns an empty sequence, recycled if possible.
  std::unique_ptr<UserSequence> TakeIdle() {
    std::unique_ptr<UserSequence> sequence;
    {
      const std::lock_guard<std::mutex> lock(idle_lock_);
      if (!idle_.empty()) {
        sequence = std::move(idle_.back());
        idle_.pop_back();
      }
    }
    if (sequence == nullptr) return std::unique_ptr<UserSequence>(new UserSequence(described_));
    sequence->Clear();
    return sequence;
  }

  /// Maximum number of recycled sequences: as many as a large minibatch has.
  static constexpr std::size_t kMostIdle = 4096;

  std::string name_;
  std::shared_ptr<UserDeserializer> user_;
  SequenceMatcher* matcher_ = nullptr;
  std::shared_ptr<const std::vector<UserStream>> described_;
  std::vector<cntk_reader_user_stream> streams_;
  std::optional<UserSequences> first_;  // For chunk 0, until the library asks for it.
  UserSequences listed_;                // From the last callback; copied before the next one.
  std::vector<const char*> key_texts_;
  std::vector<std::size_t> key_text_lengths_;
  std::mutex idle_lock_;
  std::vector<std::unique_ptr<UserSequence>> idle_;
  cntk_reader_user_deserializer table_;
};

}  // namespace detail

}  // namespace reader
}  // namespace cntk

#endif  // CNTK_READER_USER_HPP
