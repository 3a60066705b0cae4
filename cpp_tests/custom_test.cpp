// Users' deserializers through the C++ header.

#include <gtest/gtest.h>

#include <atomic>
#include <cntk_reader.hpp>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace cr = cntk::reader;

namespace {

struct Counts {
  std::atomic<int> loads{0};
  std::atomic<int> releases{0};
  std::atomic<int> destructions{0};
  std::atomic<int> inside{0};
  std::atomic<int> overlaps{0};
};

// What a chunk owns: the arrays, and a count of releases.
struct Memory {
  explicit Memory(Counts& counts) : counts(counts) {}
  ~Memory() {
    if (++counts.inside > 1) ++counts.overlaps;
    ++counts.releases;
    --counts.inside;
  }
  Counts& counts;
  std::vector<float> x, s;
  std::vector<std::int32_t> indices;
  std::vector<std::int64_t> starts;
};

// Chunks of `size` sequences of one sample: x = (n, -n), s has n at row n modulo 5.
template <typename Base>
class Numbers : public Base {
 public:
  Numbers(Counts& counts, std::uint32_t chunks, std::size_t size)
      : counts_(counts), chunks_(chunks), size_(size) {}
  ~Numbers() override { ++counts_.destructions; }

  std::vector<cr::UserStream> GetStreams() override {
    return {{"x", {2}, cr::Storage::kDense, cr::ElementType::kFloat, false},
            {"s", {5}, cr::Storage::kSparseCsc, cr::ElementType::kFloat, false}};
  }

  std::uint32_t GetChunkCount() override { return chunks_; }

  cr::UserChunk GetChunk(std::uint32_t chunk) override {
    if (++counts_.inside > 1) ++counts_.overlaps;
    const struct Leave {
      ~Leave() { --inside; }
      std::atomic<int>& inside;
    } leave{counts_.inside};
    if (static_cast<int>(chunk) == broken) throw std::runtime_error("chunk is broken");
    if (static_cast<int>(chunk) == odd) throw 42;
    ++counts_.loads;
    auto memory = std::make_shared<Memory>(counts_);
    memory->starts.push_back(0);
    for (std::size_t i = 0; i < size_; ++i) {
      const std::size_t number = chunk * size_ + i;
      memory->x.push_back(static_cast<float>(number));
      memory->x.push_back(-static_cast<float>(number));
      memory->s.push_back(static_cast<float>(number));
      memory->indices.push_back(static_cast<int>(chunk) == wild ? 5 : static_cast<std::int32_t>(number % 5));
      memory->starts.push_back(static_cast<std::int64_t>(i + 1));
    }
    cr::UserChunk data;
    data.streams.resize(2);
    data.streams[0].arrays.push_back(cr::DenseArray(memory->x.data(), memory->x.size(), size_));
    data.streams[1].arrays.push_back(cr::SparseArray(memory->s.data(), memory->indices.data(),
                                                     memory->s.size(), memory->starts.data(), size_));
    data.owner = memory;
    return data;
  }

  int broken = -1, odd = -1, wild = -1;

 protected:
  Counts& counts_;
  std::uint32_t chunks_;
  std::size_t size_;
};

using Simple = Numbers<cr::UserDeserializer>;

class Composable : public Numbers<cr::ComposableUserDeserializer> {
 public:
  using Numbers::Numbers;
  cr::UserSequences GetSequences(std::uint32_t chunk) override {
    cr::UserSequences sequences;
    sequences.count = size_;
    for (std::size_t i = 0; i < size_; ++i) sequences.keys.push_back(1000 + chunk * size_ + i);
    return sequences;
  }
};

cr::EpochConfiguration Epoch(std::uint64_t minibatch_size, std::uint64_t sweeps) {
  cr::EpochConfiguration epoch;
  epoch.minibatch_size = minibatch_size;
  epoch.sweeps = sweeps;
  return epoch;
}

std::string NumbersOf(const cr::Minibatch& minibatch) {
  std::string text;
  const cr::StreamMinibatch x = minibatch["x"], s = minibatch["s"];
  for (std::size_t column = 0; column < x.Columns(); ++column) {
    const auto values = x.Column<float>(column);
    EXPECT_EQ(values[1], -values[0]);
    s.ForEachValue<float>(column, [&](std::size_t row, float value) {
      EXPECT_EQ(value, values[0]);
      EXPECT_EQ(row, static_cast<std::size_t>(value) % 5);
    });
    text += (text.empty() ? "" : " ") + std::to_string(static_cast<int>(values[0]));
  }
  return text + (minibatch.EndOfSweep() ? "*" : "");
}

std::string ReadAll(cr::Reader& reader) {
  std::string text;
  for (const cr::Minibatch& minibatch : reader.Minibatches())
    text += (text.empty() ? "" : "; ") + NumbersOf(minibatch);
  return text;
}

TEST(Custom, SimpleOnesHaveCntksOrder) {
  Counts counts;
  {
    auto reader = cr::Reader::FromUser(std::make_shared<Simple>(counts, 3u, 4u), "randomizationWindow = 2");
    reader.StartEpoch(Epoch(5, 2));
    EXPECT_EQ(ReadAll(reader), "6 4 3 0 1; 7 5 2 8 9; 11 10 0 1 2*; 3 4 7 11 6; 8 9 5 10*");
    const cr::State state = {{"chunkPosition", 0},
                             {"sweepIndex", 2},
                             {"baseSweepCount", 2},
                             {"baseSampleCount", 24},
                             {"baseCurrentSequencePositionInWindow", 0}};
    EXPECT_EQ(reader.GetState(), state);
  }
  EXPECT_GE(counts.loads, 3);
  EXPECT_EQ(counts.loads, counts.releases) << "every chunk is released once";
  EXPECT_EQ(counts.destructions, 1);
  EXPECT_EQ(counts.overlaps, 0);
}

TEST(Custom, ComposableOnesHaveTheFullRandomizer) {
  Counts counts;
  {
    auto reader = cr::Reader::FromUser(std::make_shared<Composable>(counts, 3u, 4u),
                                       "randomizationWindow = 2 ; sampleBasedRandomizationWindow = false");
    reader.StartEpoch(Epoch(5, 2));
    const cr::Minibatch first = reader.GetMinibatch();
    EXPECT_EQ(NumbersOf(first), "5 2 3 0 4");
    EXPECT_EQ(first.Keys()[0], 1005u);
    EXPECT_EQ(ReadAll(reader), "1 7 6 10 11; 9 8 8 11 2*; 1 3 10 0 9; 4 5 7 6*");
    EXPECT_EQ(reader.GetState(), (cr::State{{"minibatchSourcePosition", 24}}));
  }
  EXPECT_EQ(counts.loads, counts.releases);
  EXPECT_EQ(counts.destructions, 1);
  EXPECT_EQ(counts.overlaps, 0);
}

TEST(Custom, ManyChunksAreReleasedAsReadingGoesOn) {
  Counts counts;
  {
    auto reader = cr::Reader::FromUser(std::make_shared<Simple>(counts, 200u, 4u), "randomize = false");
    reader.StartEpoch(Epoch(8, 1));
    ReadAll(reader);
    EXPECT_EQ(counts.loads, 200);
    EXPECT_GT(counts.releases, 150);
  }
  EXPECT_EQ(counts.loads, counts.releases);
  EXPECT_EQ(counts.overlaps, 0);
}

TEST(Custom, ExceptionsReachTheCaller) {
  for (const bool composable : {false, true}) {
    Counts counts;
    {
      std::shared_ptr<cr::UserDeserializer> user;
      if (composable) {
        auto numbers = std::make_shared<Composable>(counts, 3u, 4u);
        numbers->broken = 1;
        user = numbers;
      } else {
        auto numbers = std::make_shared<Simple>(counts, 3u, 4u);
        numbers->broken = 1;
        user = numbers;
      }
      auto reader = cr::Reader::FromUser(user, "randomize = false");
      user.reset();
      reader.StartEpoch(Epoch(4, 1));
      EXPECT_EQ(NumbersOf(reader.GetMinibatch()), "0 1 2 3");
      try {
        reader.GetMinibatch();
        ADD_FAILURE() << "no error";
      } catch (const cr::Error& error) {
        EXPECT_EQ(error.Kind(), cr::ErrorKind::kUser);
        EXPECT_EQ(error.Message(), "chunk is broken");
      }
    }
    EXPECT_EQ(counts.loads, counts.releases);
    EXPECT_EQ(counts.destructions, 1);
  }
  Counts counts;
  auto numbers = std::make_shared<Simple>(counts, 1u, 4u);
  numbers->odd = 0;
  auto reader = cr::Reader::FromUser(numbers);
  reader.StartEpoch(Epoch(4, 1));
  EXPECT_THROW(reader.GetMinibatch(), cr::Error);
}

TEST(Custom, WrongDataAreRefusedAndReleased) {
  Counts counts;
  {
    auto numbers = std::make_shared<Simple>(counts, 3u, 4u);
    numbers->wild = 0;
    auto reader = cr::Reader::FromUser(numbers, "randomize = false");
    reader.StartEpoch(Epoch(4, 1));
    try {
      reader.GetMinibatch();
      ADD_FAILURE() << "no error";
    } catch (const cr::Error& error) {
      EXPECT_EQ(error.Kind(), cr::ErrorKind::kUser);
      EXPECT_EQ(error.Stream(), "s");
      EXPECT_NE(error.Message().find("Chunk 0"), std::string::npos) << error.what();
      EXPECT_NE(error.Message().find("index 5"), std::string::npos) << error.what();
    }
  }
  EXPECT_EQ(counts.loads, counts.releases);
}

TEST(Custom, CheckpointsContinue) {
  for (const bool composable : {false, true}) {
    Counts counts;
    const auto open = [&] {
      std::shared_ptr<cr::UserDeserializer> user = std::make_shared<Simple>(counts, 3u, 4u);
      if (composable) user = std::make_shared<Composable>(counts, 3u, 4u);
      return cr::Reader::FromUser(user, "randomizationWindow = 2 ; sampleBasedRandomizationWindow = false");
    };
    auto reader = open();
    reader.StartEpoch(Epoch(5, 2));
    reader.GetMinibatch();
    reader.GetMinibatch();
    const cr::Checkpoint checkpoint = reader.SaveCheckpoint();
    const cr::State state = reader.GetState();
    const std::string rest = ReadAll(reader);
    auto second = open();
    second.RestoreCheckpoint(checkpoint);
    EXPECT_EQ(ReadAll(second), rest);
    auto third = open();
    third.StartEpoch(Epoch(5, 2));
    third.SetState(state);
    EXPECT_EQ(ReadAll(third), rest);
  }
}

TEST(Custom, MoreWorkersThanChunksComeToAnEnd) {
  for (const std::string text : {"", "randomize = false"}) {
    std::string all;
    for (std::uint64_t rank = 0; rank < 5; ++rank) {
      Counts counts;
      auto reader = cr::Reader::FromUser(std::make_shared<Simple>(counts, 1u, 2u), text);
      cr::EpochConfiguration epoch = Epoch(10, 1);
      epoch.workers = 5;
      epoch.rank = rank;
      reader.StartEpoch(epoch);
      all += ReadAll(reader);
    }
    // Randomized, the worker of the only chunk; in order, one sequence each for two of them.
    EXPECT_EQ(all.find_first_not_of("01 *"), std::string::npos) << all;
    EXPECT_NE(all.find('0'), std::string::npos) << all;
    EXPECT_NE(all.find('1'), std::string::npos) << all;
  }
}

TEST(Custom, OpeningFailsCleanly) {
  Counts counts;
  EXPECT_THROW(cr::Reader::FromUser(nullptr), cr::Error);
  EXPECT_THROW(cr::Reader::FromUser(std::make_shared<Simple>(counts, 0u, 4u)), cr::Error);
  EXPECT_THROW(cr::Reader::FromUser(std::make_shared<Simple>(counts, 1u, 4u), "randomize = maybe"),
               cr::Error);
  EXPECT_THROW(cr::Reader::FromText(""), cr::Error);
  const auto twice = std::make_shared<Simple>(counts, 1u, 4u);
  EXPECT_THROW(cr::Reader::FromText("", {{"a", twice}, {"a", twice}}), cr::Error);
  EXPECT_EQ(counts.destructions, 2);
}

TEST(Custom, TablesAreChecked) {
  cntk_reader* reader = nullptr;
  cntk_reader_user_deserializer table = {};
  const cntk_reader_user_deserializer* tables[] = {&table};
  const auto open = [&](std::size_t count) {
    cntk_reader_source source = CNTK_READER_SOURCE_INIT;
    source.text = "";
    source.deserializers = tables;
    source.deserializer_count = count;
    return cntk_reader_open(&source, &reader, nullptr);
  };
  EXPECT_EQ(open(1), CNTK_READER_STATUS_INVALID_ARGUMENT) << "no size";
  table.struct_size = sizeof table;
  EXPECT_EQ(open(1), CNTK_READER_STATUS_INVALID_ARGUMENT) << "no callback";
  table.get_chunk = [](void*, std::uint32_t, cntk_reader_user_chunk*, cntk_reader_failure*) { return 7; };
  EXPECT_EQ(open(1), CNTK_READER_STATUS_USER) << "no streams";
  cntk_reader_user_stream stream = {};
  table.streams = &stream;
  table.stream_count = 1;
  table.chunk_count = 1;
  EXPECT_EQ(open(1), CNTK_READER_STATUS_INVALID_ARGUMENT) << "no name";
  stream.name = "x";
  stream.name_length = 1;
  EXPECT_EQ(open(1), CNTK_READER_STATUS_USER) << "no element type";
  stream.element = CNTK_READER_ELEMENT_FLOAT;
  stream.storage = 2;
  EXPECT_EQ(open(1), CNTK_READER_STATUS_USER) << "no storage";
  stream.storage = CNTK_READER_STORAGE_DENSE;
  tables[0] = nullptr;
  EXPECT_EQ(open(1), CNTK_READER_STATUS_INVALID_ARGUMENT) << "no table";
  tables[0] = &table;
  ASSERT_EQ(open(1), CNTK_READER_STATUS_OK);
  cntk_reader_epoch epoch = CNTK_READER_EPOCH_INIT;
  epoch.minibatch_size = 1;
  ASSERT_EQ(cntk_reader_epoch_start(reader, &epoch, nullptr), CNTK_READER_STATUS_OK);
  const cntk_reader_minibatch* minibatch = nullptr;
  cntk_reader_error* error = nullptr;
  EXPECT_EQ(cntk_reader_minibatch_read(reader, &minibatch, &error), CNTK_READER_STATUS_USER);
  EXPECT_NE(std::strstr(cntk_reader_error_get_text(error), "status 7"), nullptr);
  cntk_reader_error_free(error);
  cntk_reader_free(reader);
}

}  // namespace
