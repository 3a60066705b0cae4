// Formats that users write themselves: derive from UserDeserializer or ComposableUserDeserializer, and open
// with Reader::FromUser.
//
// A part of <cntk_reader.hpp>, which is the one to include.

#ifndef CNTK_READER_CUSTOM_HPP
#define CNTK_READER_CUSTOM_HPP

#include <cntk_reader.h>

#include <cntk_reader/error.hpp>
#include <cntk_reader/stream.hpp>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace cntk {
namespace reader {

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
    cntk_reader_grouping grouping = CNTK_READER_GROUPING_SAMPLES;
    std::vector<cntk_reader_array> arrays;
    std::vector<std::uint32_t> lengths;  ///< For CNTK_READER_GROUPING_SEQUENCES.
  };

  std::vector<Stream> streams;      ///< All streams, by number.
  std::vector<std::uint64_t> keys;  ///< Empty: the library makes some.
  std::shared_ptr<void> owner;  ///< Keeps the memory of the arrays, and whatever else has to live as long.
};

namespace detail {

template <typename T>
constexpr std::uint32_t kElement =
    std::is_same_v<T, double> ? CNTK_READER_ELEMENT_DOUBLE : CNTK_READER_ELEMENT_FLOAT;

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

/// A sparse array: sample s owns the entries from offsets[s] to before offsets[s + 1].
template <typename T, typename Index, typename Offset>
cntk_reader_array SparseArray(const T* values, const Index* indices, std::size_t entries,
                              const Offset* offsets, std::size_t samples) {
  static_assert(std::is_signed_v<Index> && std::is_signed_v<Offset>,
                "indices and offsets are signed integers");
  cntk_reader_array array = DenseArray(values, entries, samples);
  array.indices = indices;
  array.index_count = entries;
  array.index_size = sizeof(Index);
  array.offsets = offsets;
  array.offset_size = sizeof(Offset);
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
    table_ = Sized<cntk_reader_user_deserializer>();
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

  const cntk_reader_user_deserializer* Table() const noexcept { return &table_; }

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
      cntk_reader_failure_set_message(failure, error.what(), CNTK_READER_NUL_TERMINATED);
    } catch (...) {
      cntk_reader_failure_set_message(failure,
                                      "The deserializer has thrown something that is no std::exception.",
                                      CNTK_READER_NUL_TERMINATED);
    }
    return 1;
  }

  static std::int32_t GetChunk(void* userdata, std::uint32_t number, cntk_reader_user_chunk* out,
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
  cntk_reader_user_deserializer table_;
};

}  // namespace detail

}  // namespace reader
}  // namespace cntk

#endif  // CNTK_READER_CUSTOM_HPP
