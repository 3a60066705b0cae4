// Tables of callbacks through the C interface: refused tables, tables from a factory, and
// exceptions of other modules' code that pass through the engine.

#include <cntk_reader_host.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "../dropin/exception.hpp"

namespace {

struct Refusal : std::runtime_error {
  using std::runtime_error::runtime_error;
  int number = 42;
};

// Two chunks of three sequences: sequence k has k + 1 samples of the value 10 k, and a sparse label
// k at the first sample.
class Source {
 public:
  enum class Refuses { nothing, making, loading, preparing };

  explicit Source(Refuses refuses) : refuses_(refuses) {}

  static int32_t make(void* userdata, const cntk_reader_request* request, cntk_reader_user_deserializer* made,
                      cntk_reader_failure* failure) {
    return cntk_dropin::guarded(failure, [&] {
      Source& own = *static_cast<Source*>(userdata);
      own.refuse(Refuses::making);
      own.type_.assign(request->type_name, request->type_length);
      size_t count = 0;
      cntk_reader_section_list_entries(request->section, nullptr, 0, &count, nullptr);
      std::vector<cntk_reader_section_entry> entries(count);
      cntk_reader_section_list_entries(request->section, entries.data(), count, &count, nullptr);
      for (const auto& entry : entries)
        own.entries_[{entry.key, entry.key_length}] = {entry.text, entry.text_length};
      made->userdata = userdata;
      made->streams = own.streams_;
      made->stream_count = 2;
      made->chunk_sizes = own.chunks_;
      made->chunk_count = 2;
      made->list_sequences = list;
      made->load_chunk = load;
      made->release_chunk = release;
      made->fetch_sequence = fetch;
      made->prepare_sequence = prepare;
      made->release_sequence = release;
      made->finalizer = [](void* self) { ++static_cast<Source*>(self)->finalized_; };
    });
  }

  int held() const { return held_; }
  int finalized() const { return finalized_; }
  const std::string& type() const { return type_; }
  std::map<std::string, std::string>& entries() { return entries_; }

 private:
  struct Sequence {
    uint64_t number = 0;
    std::vector<float> values;
    std::vector<int32_t> counts;
    int32_t index = 0;
    float one = 1;
  };

  void refuse(Refuses what) const {
    if (refuses_ == what) throw Refusal("no");
  }

  static int32_t list(void* userdata, uint32_t chunk, cntk_reader_user_sequences* sequences,
                      cntk_reader_failure*) {
    Source& own = *static_cast<Source*>(userdata);
    own.lengths_.clear();
    own.keys_.clear();
    for (uint32_t i = 0; i < 3; ++i) {
      own.lengths_.push_back(chunk * 3 + i + 1);
      own.keys_.push_back(chunk * 3 + i);
    }
    sequences->count = 3;
    sequences->lengths = own.lengths_.data();
    sequences->keys = own.keys_.data();
    return 0;
  }

  static int32_t load(void* userdata, uint32_t chunk, cntk_reader_user_chunk* out,
                      cntk_reader_failure* failure) {
    return cntk_dropin::guarded(failure, [&] {
      static_cast<Source*>(userdata)->refuse(Refuses::loading);
      auto loaded = std::make_unique<Sequence>();
      loaded->number = chunk * 3;
      ++static_cast<Source*>(userdata)->held_;
      out->handle = loaded.release();
    });
  }

  static int32_t fetch(void* userdata, void* chunk, uint32_t index, cntk_reader_user_sequence* fetched,
                       cntk_reader_failure*) {
    auto sequence = std::make_unique<Sequence>();
    sequence->number = static_cast<Sequence*>(chunk)->number + index;
    ++static_cast<Source*>(userdata)->held_;
    fetched->handle = sequence.release();
    return 0;
  }

  static int32_t prepare(void* userdata, void* handle, uint32_t position,
                         cntk_reader_user_sequence_data* streams, cntk_reader_failure* failure) {
    return cntk_dropin::guarded(failure, [&] {
      if (position == 1) static_cast<Source*>(userdata)->refuse(Refuses::preparing);
      Sequence& own = *static_cast<Sequence*>(handle);
      own.values.assign(own.number + 1, 10.0f * static_cast<float>(own.number));
      own.counts.assign(own.number + 1, 0);
      own.counts[0] = 1;
      own.index = static_cast<int32_t>(own.number);
      streams[0].samples = streams[1].samples = own.values.size();
      streams[0].values = own.values.data();
      streams[0].value_count = own.values.size();
      streams[0].key = streams[1].key = own.number;
      streams[1].values = &own.one;
      streams[1].value_count = 1;
      streams[1].indices = &own.index;
      streams[1].sample_value_counts = own.counts.data();
    });
  }

  static void release(void* userdata, void* handle) {
    --static_cast<Source*>(userdata)->held_;
    delete static_cast<Sequence*>(handle);
  }

  const Refuses refuses_;
  const size_t one_ = 1, six_ = 6;
  const cntk_reader_user_stream streams_[2] = {
      {"x", 1, &one_, 1, CNTK_READER_STORAGE_DENSE, CNTK_READER_ELEMENT_FLOAT, 0, 0},
      {"y", 1, &six_, 1, CNTK_READER_STORAGE_SPARSE_CSC, CNTK_READER_ELEMENT_FLOAT, 0, 0}};
  const cntk_reader_chunk_size chunks_[2] = {{6, 3}, {15, 3}};
  std::vector<uint32_t> lengths_;
  std::vector<uint64_t> keys_;
  std::map<std::string, std::string> entries_;
  std::string type_;
  int held_ = 0, finalized_ = 0;
};

// Opens a reader of one source; throws the engine's error.
class Reader {
 public:
  explicit Reader(Source& source) {
    const std::string deserializers = "( [ type = \"Made\" ; module = \"Elsewhere\" ; depth = 3 ] )";
    const cntk_reader_section_entry entries[] = {
        {"deserializers", 13, deserializers.data(), deserializers.size(), 0, 0},
        {"randomize", 9, "false", 5, 0, 0}};
    cntk_reader_section* section = nullptr;
    cntk_reader_section_create("global", CNTK_READER_NUL_TERMINATED, entries, 2, nullptr, &section, nullptr);
    cntk_reader_error* error = nullptr;
    cntk_reader_host_source from = CNTK_READER_HOST_SOURCE_INIT;
    from.section = section;
    from.section_kind = CNTK_READER_SECTION_KIND_COMPOSITE;
    from.make = Source::make;
    from.userdata = &source;
    cntk_reader_host_open(&from, &reader_, &error);
    cntk_reader_section_free(section);
    check(error);
    cntk_reader_epoch epoch = CNTK_READER_EPOCH_INIT;
    epoch.minibatch_size = 6;
    epoch.sweeps = 1;
    cntk_reader_epoch_start(reader_, &epoch, &error);
    check(error);
  }
  ~Reader() { cntk_reader_free(reader_); }

  // Returns the minibatch's first stream.
  std::vector<float> read() {
    const cntk_reader_minibatch* minibatch = nullptr;
    cntk_reader_error* error = nullptr;
    cntk_reader_minibatch_read(reader_, &minibatch, &error);
    check(error);
    cntk_reader_minibatch_stream stream = {};
    stream.struct_size = sizeof stream;
    cntk_reader_minibatch_stream_describe(minibatch, 0, &stream, &error);
    const auto* values = static_cast<const float*>(stream.values);
    std::vector<float> copy(values, values + stream.value_count);
    cntk_reader_minibatch_release(minibatch);
    return copy;
  }

 private:
  static void check(cntk_reader_error* error) {
    if (error == nullptr) return;
    const std::unique_ptr<cntk_reader_error, void (*)(cntk_reader_error*)> owner(error,
                                                                                 cntk_reader_error_free);
    cntk_dropin::throw_kept(error);
    throw std::logic_error(cntk_reader_error_get_text(error));
  }

  cntk_reader* reader_ = nullptr;
};

TEST(UserTable, IsMadeFetchedAndReleased) {
  Source source(Source::Refuses::nothing);
  {
    Reader reader(source);
    EXPECT_EQ(source.type(), "Made");
    EXPECT_EQ(source.entries()["depth"], "3");
    EXPECT_EQ(source.entries()["frameMode"], "false");
    // Three steps of two lanes: sequences 0 and 1 share one.
    EXPECT_EQ(reader.read(), (std::vector<float>{0, 20, 10, 20, 10, 20}));
    EXPECT_EQ(reader.read().size(), 4u);
    EXPECT_GT(source.held(), 0);
    EXPECT_EQ(source.finalized(), 0);
  }
  EXPECT_EQ(source.held(), 0);
  EXPECT_EQ(source.finalized(), 1);
}

TEST(UserTable, ExceptionsPassThroughUnchanged) {
  using Refuses = Source::Refuses;
  for (const Refuses refuses : {Refuses::making, Refuses::loading, Refuses::preparing}) {
    Source source(refuses);
    try {
      Reader reader(source);
      reader.read();
      FAIL() << "no exception";
    } catch (const Refusal& refusal) {
      EXPECT_STREQ(refusal.what(), "no");
      EXPECT_EQ(refusal.number, 42);
    }
    EXPECT_EQ(source.held(), 0);
    EXPECT_EQ(source.finalized(), refuses == Refuses::making ? 0 : 1);
  }
}

// A valid table for tests to damage: one stream, one chunk of two samples.
class Table {
 public:
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;
  Table() {
    table_.struct_size = sizeof table_;
    table_.userdata = this;
    table_.name = "t";
    table_.name_length = 1;
    table_.streams = &stream_;
    table_.stream_count = 1;
    table_.chunk_count = 1;
    table_.load_chunk = load;
    stream_.name = "x";
    stream_.name_length = 1;
    stream_.shape = &one_;
    stream_.shape_rank = 1;
    stream_.element = CNTK_READER_ELEMENT_FLOAT;
    array_.values = values_;
    array_.values_size = sizeof values_;
    array_.samples = 2;
    array_.element = CNTK_READER_ELEMENT_FLOAT;
    data_.arrays = &array_;
    data_.array_count = 1;
    chunk_.streams = &data_;
    chunk_.stream_count = 1;
  }

  cntk_reader_user_deserializer& operator*() { return table_; }
  cntk_reader_user_deserializer* operator->() { return &table_; }
  cntk_reader_user_chunk& chunk() { return chunk_; }
  cntk_reader_user_stream& stream() { return stream_; }

  // Opens a reader and reads a minibatch. Returns the error message, or "".
  std::string failure(const char* text = "randomize = false") {
    cntk_reader* reader = nullptr;
    cntk_reader_error* error = nullptr;
    const cntk_reader_user_deserializer* const tables[] = {&table_};
    cntk_reader_source source = CNTK_READER_SOURCE_INIT;
    source.text = text;
    source.deserializers = tables;
    source.deserializer_count = 1;
    status_ = cntk_reader_open(&source, &reader, &error);
    if (status_ == CNTK_READER_STATUS_OK) {
      cntk_reader_epoch epoch = CNTK_READER_EPOCH_INIT;
      epoch.minibatch_size = 2;
      cntk_reader_epoch_start(reader, &epoch, nullptr);
      const cntk_reader_minibatch* minibatch = nullptr;
      status_ = cntk_reader_minibatch_read(reader, &minibatch, &error);
      if (status_ == CNTK_READER_STATUS_OK) cntk_reader_minibatch_release(minibatch);
      cntk_reader_free(reader);
    }
    const std::string message = error != nullptr ? cntk_reader_error_get_text(error) : "";
    cntk_reader_error_free(error);
    return message;
  }
  cntk_reader_status status() const { return status_; }

 private:
  static int32_t load(void* self, uint32_t, cntk_reader_user_chunk* out, cntk_reader_failure*) {
    const Table& own = *static_cast<Table*>(self);
    EXPECT_EQ(out->sequence_count, CNTK_READER_UNKNOWN);
    const size_t size = out->struct_size;
    *out = own.chunk_;
    out->struct_size = size;
    if (own.chunk_.sequence_count == 0) out->sequence_count = CNTK_READER_UNKNOWN;
    return own.chunk_.stream_count == 9 ? 7 : 0;
  }

  const float values_[2] = {1, 2};
  const size_t one_ = 1;
  cntk_reader_user_stream stream_ = {};
  cntk_reader_user_array array_ = {};
  cntk_reader_user_stream_data data_ = {};
  cntk_reader_user_chunk chunk_ = {};
  cntk_reader_user_deserializer table_ = {};
  cntk_reader_status status_ = CNTK_READER_STATUS_OK;
};

int32_t fetch(void*, void*, uint32_t, cntk_reader_user_sequence*, cntk_reader_failure*) { return 0; }

int32_t prepare(void*, void*, uint32_t, cntk_reader_user_sequence_data* streams, cntk_reader_failure*) {
  static const float value = 5;
  EXPECT_EQ(streams->key, CNTK_READER_UNKNOWN);
  streams->samples = streams->value_count = 1;
  streams->values = &value;
  return 0;
}

// Expects a table to be refused after `change`, with a message that contains `part`.
void refused(const std::function<void(Table&)>& change, cntk_reader_status status, const std::string& part,
             const char* text = "randomize = false") {
  Table table;
  change(table);
  const std::string message = table.failure(text);
  EXPECT_EQ(table.status(), status) << message;
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

void accepted(const std::function<void(Table&)>& change) {
  Table table;
  change(table);
  EXPECT_EQ(table.failure(), "");
}

// Makes the table's sequences fetched.
void fetches(Table& table) {
  table->fetch_sequence = fetch;
  table->prepare_sequence = prepare;
  table.chunk().streams = nullptr;
}

int32_t list_one(void*, uint32_t, cntk_reader_user_sequences* out, cntk_reader_failure*) {
  out->count = 1;
  return 0;
}

int32_t find_none(void*, const cntk_reader_sequence_info*, cntk_reader_sequence_info*, uint32_t*,
                  cntk_reader_failure*) {
  return 0;
}

constexpr auto kArgument = CNTK_READER_STATUS_INVALID_ARGUMENT;
constexpr auto kUser = CNTK_READER_STATUS_USER;

TEST(UserTable, MembersAreChecked) {
  accepted([](Table&) {});
  accepted([](Table& table) { table.chunk().sequence_count = 2; });
  refused([](Table& table) { table->struct_size = 0; }, kArgument,
          "struct_size of cntk_reader_user_deserializer is 0");
  refused([](Table& table) { table->load_chunk = nullptr; }, kArgument, "load_chunk must not be NULL");
  refused([](Table& table) { table->stream_count = 0; }, kUser, "at least one stream");
  refused([](Table& table) { table->chunk_count = 0; }, kUser, "at least one chunk");
  refused([](Table& table) { table.stream().name = nullptr; }, kArgument, "'name' must not be NULL");
  refused([](Table& table) { table.stream().element = 7; }, kUser, "7 is not a cntk_reader_element");
  refused([](Table& table) { table.stream().storage = 2; }, kUser, "2 is not a cntk_reader_storage");
  refused([](Table& table) { table.chunk().stream_count = 9; }, kUser,
          "load_chunk of chunk 0 failed with status 7 and set no message");
  refused([](Table& table) { table.chunk().sequence_count = 3; }, kUser,
          "its arrays have 2 sequences instead of 3");
}

TEST(UserTable, ContradictionsNameBothCallbacks) {
  refused([](Table& table) { table->fetch_sequence = fetch; }, kArgument,
          "fetch_sequence is set but prepare_sequence is not");
  refused([](Table& table) { table->prepare_sequence = prepare; }, kArgument,
          "prepare_sequence is set but fetch_sequence is not");
  refused([](Table& table) { table->release_sequence = [](void*, void*) {}; }, kArgument,
          "release_sequence is set but fetch_sequence is not");
  refused(
      [](Table& table) {
        fetches(table);
        table->find_sequence = find_none;
      },
      kArgument, "list_sequences is not set, but find_sequence is");
}

TEST(UserTable, ChunksHaveWhatCallbacksNeed) {
  refused([](Table& table) { table.chunk().streams = nullptr; }, kUser,
          "load_chunk returned no arrays, and fetch_sequence is not set");
  refused(
      [](Table& table) {
        table->fetch_sequence = fetch;
        table->prepare_sequence = prepare;
        table->list_sequences = list_one;
      },
      kUser, "load_chunk returned arrays, but fetch_sequence is set");
  refused(fetches, kUser, "list_sequences is not set, and load_chunk has not set `sequence_count`");
  const auto lists = [](Table& table) {
    fetches(table);
    table->list_sequences = list_one;
  };
  accepted(lists);
  refused(lists, kUser, "`composable = false`, so list_sequences is not used",
          "randomize = false ; deserializers = ( [ type = \"t\" ; composable = false ] )");
  accepted([](Table& table) {
    fetches(table);
    table.chunk().sequence_count = 1;
  });
  static const uint64_t keys[2] = {5, 6};
  static const uint32_t lengths[2] = {1, 1};
  refused([](Table& table) { table.chunk().keys = keys; }, kUser, "`sequence_count` does not say how many");
  accepted([](Table& table) {
    table.chunk().keys = keys;
    table.chunk().sequence_count = 2;
  });
  refused(
      [](Table& table) {
        table.chunk().lengths = lengths;
        table.chunk().sequence_count = 2;
      },
      kUser, "load_chunk set `lengths`, but arrays have their own lengths");
}

}  // namespace
