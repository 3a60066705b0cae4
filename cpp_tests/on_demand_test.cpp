// Deserializers that a factory makes, whose sequences are fetched one by one, through the C interface; and
// how exceptions of foreign code pass through the engine.

#include <cntk_reader.h>
#include <gtest/gtest.h>

#include <cstdint>
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

// Two chunks of three sequences: sequence k has k + 1 samples of the value 10 k, and a sparse label k at the
// first sample.
class Source {
 public:
  enum class Refuses { nothing, making, loading, preparing };

  explicit Source(Refuses refuses) : refuses_(refuses) {}

  static int32_t make(void* userdata, const cntk_reader_request* request, cntk_reader_on_demand* made,
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
      made->chunks = own.chunks_;
      made->chunk_count = 2;
      made->list = list;
      made->load = load;
      made->release_chunk = release;
      made->fetch = fetch;
      made->prepare = prepare;
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
    int32_t row = 0;
    float one = 1;
  };

  void refuse(Refuses what) const {
    if (refuses_ == what) throw Refusal("no");
  }

  static int32_t list(void* userdata, uint32_t chunk, const cntk_reader_sequence_info** sequences,
                      size_t* count, cntk_reader_failure*) {
    Source& own = *static_cast<Source*>(userdata);
    own.listed_.clear();
    for (uint32_t i = 0; i < 3; ++i) own.listed_.push_back({chunk, i, chunk * 3 + i + 1, 0, chunk * 3 + i});
    *sequences = own.listed_.data();
    *count = own.listed_.size();
    return 0;
  }

  static int32_t load(void* userdata, uint32_t chunk, void** handle, cntk_reader_failure* failure) {
    return cntk_dropin::guarded(failure, [&] {
      static_cast<Source*>(userdata)->refuse(Refuses::loading);
      auto loaded = std::make_unique<Sequence>();
      loaded->number = chunk * 3;
      ++static_cast<Source*>(userdata)->held_;
      *handle = loaded.release();
    });
  }

  static int32_t fetch(void* userdata, void* chunk, uint32_t index, cntk_reader_fetched* fetched,
                       cntk_reader_failure*) {
    auto sequence = std::make_unique<Sequence>();
    sequence->number = static_cast<Sequence*>(chunk)->number + index;
    ++static_cast<Source*>(userdata)->held_;
    fetched->is_valid = 1;
    fetched->handle = sequence.release();
    return 0;
  }

  static int32_t prepare(void* userdata, void* handle, uint32_t position, cntk_reader_fetched_stream* streams,
                         cntk_reader_failure* failure) {
    return cntk_dropin::guarded(failure, [&] {
      if (position == 1) static_cast<Source*>(userdata)->refuse(Refuses::preparing);
      Sequence& own = *static_cast<Sequence*>(handle);
      own.values.assign(own.number + 1, 10.0f * static_cast<float>(own.number));
      own.counts.assign(own.number + 1, 0);
      own.counts[0] = 1;
      own.row = static_cast<int32_t>(own.number);
      streams[0].samples = streams[1].samples = own.values.size();
      streams[0].values = own.values.data();
      streams[0].value_count = own.values.size();
      streams[0].key = streams[1].key = own.number;
      streams[1].values = &own.one;
      streams[1].value_count = 1;
      streams[1].indices = &own.row;
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
  const cntk_reader_chunk_info chunks_[2] = {{sizeof(cntk_reader_chunk_info), 6, 3},
                                             {sizeof(cntk_reader_chunk_info), 15, 3}};
  std::vector<cntk_reader_sequence_info> listed_;
  std::map<std::string, std::string> entries_;
  std::string type_;
  int held_ = 0, finalized_ = 0;
};

// A reader of one source; throws what the engine fails with.
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
    cntk_reader_source from = CNTK_READER_SOURCE_INIT;
    from.section = section;
    from.section_kind = CNTK_READER_SECTION_KIND_COMPOSITE;
    from.make = Source::make;
    from.userdata = &source;
    cntk_reader_open(&from, &reader_, &error);
    cntk_reader_section_free(section);
    check(error);
    cntk_reader_epoch epoch = CNTK_READER_EPOCH_INIT;
    epoch.minibatch_size = 6;
    epoch.sweeps = 1;
    cntk_reader_epoch_start(reader_, &epoch, &error);
    check(error);
  }
  ~Reader() { cntk_reader_free(reader_); }

  // The minibatch's first stream.
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

TEST(OnDemand, IsMadeFetchedAndReleased) {
  Source source(Source::Refuses::nothing);
  {
    Reader reader(source);
    EXPECT_EQ(source.type(), "Made");
    EXPECT_EQ(source.entries()["depth"], "3");
    EXPECT_EQ(source.entries()["frameMode"], "false");
    // Three steps of two rows: sequences 0 and 1 share one.
    EXPECT_EQ(reader.read(), (std::vector<float>{0, 20, 10, 20, 10, 20}));
    EXPECT_EQ(reader.read().size(), 4u);
    EXPECT_GT(source.held(), 0);
    EXPECT_EQ(source.finalized(), 0);
  }
  EXPECT_EQ(source.held(), 0);
  EXPECT_EQ(source.finalized(), 1);
}

TEST(OnDemand, ExceptionsComeOutAsTheyWentIn) {
  using Refuses = Source::Refuses;
  for (const Refuses refuses : {Refuses::making, Refuses::loading, Refuses::preparing}) {
    Source source(refuses);
    try {
      Reader reader(source);
      reader.read();
      FAIL() << "nothing was thrown";
    } catch (const Refusal& refusal) {
      EXPECT_STREQ(refusal.what(), "no");
      EXPECT_EQ(refusal.number, 42);
    }
    EXPECT_EQ(source.held(), 0);
    EXPECT_EQ(source.finalized(), refuses == Refuses::making ? 0 : 1);
  }
}

}  // namespace
