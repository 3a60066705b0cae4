// User-defined deserializers through the C++ header.

#include <gtest/gtest.h>

#include <atomic>
#include <cntk_reader.hpp>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace cr = cntk::reader;

namespace {

struct Counts {
  std::atomic<int> loads{0};
  std::atomic<int> releases{0};
  std::atomic<int> destructions{0};
  std::atomic<int> descriptions{0};
  std::atomic<int> inside{0};
  std::atomic<int> overlaps{0};
};

// Data owned by a chunk: the arrays of the dense stream, and a count of releases.
struct Memory {
  explicit Memory(Counts& its_counts) : counts(its_counts) {}
  ~Memory() {
    if (++counts.inside > 1) ++counts.overlaps;
    ++counts.releases;
    --counts.inside;
  }
  Counts& counts;
  std::vector<float> x;
};

// Chunks of `size` sequences with one sample each: x = (n, -n), s has n at the index n modulo 5.
class Simple : public cr::UserDeserializer {
 public:
  Simple(Counts& counts, std::uint32_t chunks, std::size_t size)
      : counts_(counts), chunks_(chunks), size_(size) {}
  ~Simple() override { ++counts_.destructions; }

  std::vector<cr::UserStream> GetStreams() override {
    ++counts_.descriptions;
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
    std::vector<float> values;
    std::vector<std::int32_t> indices;
    std::vector<std::int64_t> offsets = {0};
    for (std::size_t i = 0; i < size_; ++i) {
      const std::size_t number = chunk * size_ + i;
      memory->x.push_back(static_cast<float>(number));
      memory->x.push_back(-static_cast<float>(number));
      values.push_back(static_cast<float>(number));
      indices.push_back(static_cast<int>(chunk) == wild ? 5 : static_cast<std::int32_t>(number % 5));
      offsets.push_back(static_cast<std::int64_t>(i + 1));
    }
    const cr::Span<const float> x(memory->x.data(), memory->x.size());
    return cr::UserChunk({cr::UserStreamData::Samples(cr::DenseArray(x)),
                          cr::UserStreamData::Samples(
                              cr::SparseArray(std::move(values), std::move(indices), std::move(offsets)))},
                         memory);
  }

  int broken = -1, odd = -1, wild = -1;

 protected:
  Counts& counts_;
  std::uint32_t chunks_;
  std::size_t size_;
};

class Composable : public Simple {
 public:
  using Simple::Simple;
  std::optional<cr::UserSequences> GetSequences(std::uint32_t chunk) override {
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
    s.ForEachValue<float>(column, [&](std::size_t index, float value) {
      EXPECT_EQ(value, values[0]);
      EXPECT_EQ(index, static_cast<std::size_t>(value) % 5);
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

TEST(User, SimpleDeserializersHaveCntksOrder) {
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
  EXPECT_EQ(counts.descriptions, 1);
  EXPECT_EQ(counts.overlaps, 0);
}

TEST(User, ComposableDeserializersAreFullyRandomized) {
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

TEST(User, ChunksAreReleasedWhileReading) {
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

// Throws in the method that `where` names.
class Failing : public Composable {
 public:
  Failing(Counts& counts, std::string where) : Composable(counts, 2u, 3u), where_(std::move(where)) {}
  std::vector<cr::UserStream> GetStreams() override {
    Fail("UserDeserializer::GetStreams of");
    return Composable::GetStreams();
  }
  std::uint32_t GetChunkCount() override {
    Fail("UserDeserializer::GetChunkCount of");
    return Composable::GetChunkCount();
  }
  std::optional<cr::UserSequences> GetSequences(std::uint32_t chunk) override {
    Fail(chunk == 0 ? "UserDeserializer::GetSequences(0) of" : "listing chunk 1");
    return Composable::GetSequences(chunk);
  }
  cr::SequenceMatcher* GetMatcher() override {
    Fail("UserDeserializer::GetMatcher of");
    return nullptr;
  }
  bool FetchesSequences() const override {
    Fail("UserDeserializer::FetchesSequences of");
    return false;
  }
  bool IsThreadSafe() const override {
    Fail("UserDeserializer::IsThreadSafe of");
    return false;
  }

 private:
  void Fail(const std::string& where) const {
    if (where_ == where) throw std::out_of_range("no disk");
  }
  std::string where_;
};

TEST(User, ExceptionsWhileOpeningAreErrors) {
  for (const std::string where :
       {"UserDeserializer::GetStreams of", "UserDeserializer::GetChunkCount of",
        "UserDeserializer::GetSequences(0) of", "UserDeserializer::GetMatcher of",
        "UserDeserializer::FetchesSequences of", "UserDeserializer::IsThreadSafe of", "listing chunk 1"}) {
    Counts counts;
    try {
      cr::Reader::Open(cr::Deserializer("sonar", std::make_shared<Failing>(counts, where)));
      ADD_FAILURE() << where;
    } catch (const cr::Error& error) {
      EXPECT_EQ(error.Kind(), cr::ErrorKind::kUser);
      EXPECT_EQ(error.Class(), cr::ExceptionClass::kRuntimeError);
      const std::string text = error.what();
      EXPECT_EQ(text.find("no disk. "), 0u) << text;
      EXPECT_NE(text.find(where), std::string::npos) << text;
      if (where != "listing chunk 1") {
        EXPECT_THROW(std::rethrow_if_nested(error), std::out_of_range);
      }
    }
    EXPECT_EQ(counts.destructions, 1);
  }
}

TEST(User, ExceptionsReachTheCaller) {
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

TEST(User, WrongDataAreRefusedAndReleased) {
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

TEST(User, CheckpointsContinue) {
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

TEST(User, MoreWorkersThanChunksReachTheEnd) {
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
    // If randomized, only the worker with the only chunk has data; in order, two workers have one
    // sequence each.
    EXPECT_EQ(all.find_first_not_of("01 *"), std::string::npos) << all;
    EXPECT_NE(all.find('0'), std::string::npos) << all;
    EXPECT_NE(all.find('1'), std::string::npos) << all;
  }
}

TEST(User, OpeningFailsCleanly) {
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

// Sequences of 1, 2, 3 ... samples, fetched one at a time: x is the sequence's number, s has it at
// the sample's index.
class Fetching : public cr::UserDeserializer {
 public:
  explicit Fetching(bool lists) : lists_(lists) {}

  std::vector<cr::UserStream> GetStreams() override {
    return {{"x", {1}, cr::Storage::kDense, cr::ElementType::kDouble, false},
            {"s", {9}, cr::Storage::kSparseCsc, cr::ElementType::kFloat, false}};
  }
  std::uint32_t GetChunkCount() override { return 2; }
  bool FetchesSequences() const override { return says_so; }
  std::optional<cr::UserSequences> GetSequences(std::uint32_t chunk) override {
    if (!lists_ || (chunk == 1 && forgets_one)) return std::nullopt;
    return List(chunk);
  }
  cr::UserChunk GetChunk(std::uint32_t chunk) override {
    return cr::UserChunk::Fetched(std::make_unique<Chunk>(*this, chunk));
  }

  bool says_so = true, forgets_one = false, silent = false;
  std::uint32_t odd = 99;

 private:
  static cr::UserSequences List(std::uint32_t chunk) {
    cr::UserSequences sequences;
    sequences.count = 3;
    for (std::uint32_t i = 0; i < 3; ++i) {
      sequences.lengths.push_back(chunk * 3 + i + 1);
      sequences.keys.push_back(chunk * 3 + i + 40);
    }
    return sequences;
  }

  class Chunk : public cr::FetchedChunk {
   public:
    Chunk(const Fetching& user, std::uint32_t chunk) : user_(user), chunk_(chunk) {}
    void FetchSequence(std::uint32_t index, cr::UserSequence& sequence) override {
      const std::uint32_t number = chunk_ * 3 + index;
      if (number == user_.odd) {
        sequence.Dense<float>(0).clear();
        return;
      }
      std::vector<double>& x = sequence.Dense<double>(0);
      EXPECT_TRUE(x.empty());
      for (std::uint32_t i = 0; i <= number; ++i) {
        x.push_back(number);
        const float value = static_cast<float>(number);
        const auto at = static_cast<std::int32_t>(i);
        sequence.PushSparse(1, cr::Span<const float>(&value, 1), cr::Span<const std::int32_t>(&at, 1));
      }
    }
    std::optional<cr::UserSequences> GetSequences() override {
      if (user_.lists_ || user_.silent) return std::nullopt;
      return List(chunk_);
    }

   private:
    const Fetching& user_;
    const std::uint32_t chunk_;
  };

  const bool lists_;
};

TEST(User, SequencesAreFetched) {
  for (const bool lists : {false, true}) {
    auto reader = cr::Reader::FromUser(std::make_shared<Fetching>(lists), "randomize = false");
    reader.StartEpoch(Epoch(1, 2));
    std::uint32_t number = 0;
    for (const cr::Minibatch& minibatch : reader.Minibatches()) {
      EXPECT_EQ(minibatch.Keys()[0], number + 40u) << "the listed key";
      ASSERT_EQ(minibatch["x"].Columns(), number + 1);
      for (std::size_t i = 0; i <= number; ++i) {
        EXPECT_EQ(minibatch["x"].Column<double>(i)[0], number);
        minibatch["s"].ForEachValue<float>(i, [&](std::size_t index, float value) {
          EXPECT_EQ(index, i);
          EXPECT_EQ(value, static_cast<float>(number));
        });
      }
      number = (number + 1) % 6;
    }
    EXPECT_EQ(number, 0u);
  }
}

// Opens and reads; returns the message of the failure.
std::string Failure(const std::shared_ptr<cr::UserDeserializer>& user) {
  try {
    auto reader = cr::Reader::FromUser(user, "randomize = false");
    reader.StartEpoch(Epoch(9, 1));
    ReadAll(reader);
  } catch (const cr::Error& error) {
    return error.Message();
  }
  return "";
}

TEST(User, MisuseMessagesNameRelatedMethods) {
  const auto has = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  auto user = std::make_shared<Fetching>(true);
  user->says_so = false;
  has(Failure(user), "FetchesSequences returned false; it must return");
  user = std::make_shared<Fetching>(true);
  user->forgets_one = true;
  has(Failure(user), "GetSequences returned a list for chunk 0, but none for chunk 1");
  user = std::make_shared<Fetching>(false);
  user->silent = true;
  has(Failure(user), "Neither UserDeserializer::GetSequences nor FetchedChunk::GetSequences returned a list");
  user = std::make_shared<Fetching>(false);
  user->odd = 0;
  has(Failure(user), "Stream 'x' has values of the type double, not float.");
}

// Matches the sequence with the same number, counted from the end, in chunks of 4.
class Reversed : public Simple, public cr::SequenceMatcher {
 public:
  using Simple::Simple;
  std::vector<cr::UserStream> GetStreams() override {
    std::vector<cr::UserStream> streams = Simple::GetStreams();
    streams[0].name = "y";
    streams[1].name = "t";
    return streams;
  }
  cr::SequenceMatcher* GetMatcher() override { return this; }
  std::optional<cr::SequencePlace> FindSequence(const cr::SequenceInfo& of) override {
    const auto place = static_cast<std::uint32_t>(11 - (of.key - 1000));
    if (place == 3) return std::nullopt;
    return cr::SequencePlace{place / 4, place % 4, 1};
  }
};

TEST(User, DeserializersAreJoinedByKeyOrMatcher) {
  const std::string text =
      "randomize = false ; deserializers = ( [ type = \"first\" ] : [ type = \"second\" ] )";
  // Each deserializer is called on one thread at a time; two deserializers may be called at once.
  Counts counts, seconds;
  const auto values = [&](std::shared_ptr<cr::UserDeserializer> second) {
    auto reader = cr::Reader::FromText(
        text, {{"first", std::make_shared<Composable>(counts, 3u, 4u)}, {"second", std::move(second)}});
    reader.StartEpoch(Epoch(100, 1));
    const cr::Minibatch minibatch = reader.GetMinibatch();
    std::string all;
    for (std::size_t i = 0; i < minibatch["x"].Columns(); ++i)
      all += std::to_string(static_cast<int>(minibatch["x"].Column<float>(i)[0])) + "-" +
             std::to_string(static_cast<int>(minibatch["y"].Column<float>(i)[0])) + " ";
    return all;
  };
  class Same : public Composable {
   public:
    using Composable::Composable;
    std::vector<cr::UserStream> GetStreams() override {
      std::vector<cr::UserStream> streams = Simple::GetStreams();
      streams[0].name = "y";
      streams[1].name = "t";
      return streams;
    }
  };
  EXPECT_EQ(values(std::make_shared<Reversed>(seconds, 3u, 4u)),
            "0-11 1-10 2-9 3-8 4-7 5-6 6-5 7-4 9-2 10-1 11-0 ");
  EXPECT_EQ(values(std::make_shared<Same>(seconds, 2u, 4u)), "0-0 1-1 2-2 3-3 4-4 5-5 6-6 7-7 ");
  for (const Counts* each : {&counts, &seconds}) {
    EXPECT_EQ(each->loads, each->releases);
    EXPECT_EQ(each->overlaps, 0);
  }
  // A deserializer that lists sequences only when chunks are loaded cannot be joined.
  EXPECT_THROW(values(std::make_shared<Simple>(seconds, 3u, 4u)), cr::Error);
}

TEST(User, DifferentTextsAreDifferentKeys) {
  class Texts : public Simple {
   public:
    Texts(Counts& counts, std::string name, std::vector<std::string> texts)
        : Simple(counts, 1u, texts.size()), stream_(std::move(name)), texts_(std::move(texts)) {}
    std::vector<cr::UserStream> GetStreams() override {
      std::vector<cr::UserStream> streams = Simple::GetStreams();
      streams[0].name = stream_;
      streams[1].name = stream_ + "s";
      return streams;
    }
    std::optional<cr::UserSequences> GetSequences(std::uint32_t) override {
      cr::UserSequences sequences;
      sequences.count = texts_.size();
      sequences.key_texts = texts_;
      return sequences;
    }

   private:
    std::string stream_;
    std::vector<std::string> texts_;
  };
  const auto nul = [](const char* after) { return std::string("k\0", 2) + after; };
  Counts first, second;
  const auto pairs = [&](const std::string& keys) {
    auto reader = cr::Reader::FromText(
        "randomize = false ; " + keys + " deserializers = ( [ type = \"x\" ] : [ type = \"y\" ] )",
        {{"x", std::make_shared<Texts>(first, "x", std::vector<std::string>{"007", "7", nul("a"), nul("b")})},
         {"y",
          std::make_shared<Texts>(second, "y", std::vector<std::string>{nul("b"), nul("a"), "7", "007"})}});
    reader.StartEpoch(Epoch(100, 1));
    const cr::Minibatch minibatch = reader.GetMinibatch();
    std::string all;
    for (std::size_t i = 0; i < minibatch["x"].Columns(); ++i)
      all += std::to_string(static_cast<int>(minibatch["x"].Column<float>(i)[0])) + "-" +
             std::to_string(static_cast<int>(minibatch["y"].Column<float>(i)[0])) + " ";
    return all;
  };
  EXPECT_EQ(pairs("useNumericSequenceKeys = false ;"), "0-3 1-2 2-1 3-0 ");
  // They would be equal as numbers.
  EXPECT_THROW(pairs(""), cr::Error);
}

}  // namespace
