// Minibatches: data, layouts, keys, lifetime.

#include <cstring>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

#include "data.hpp"

namespace {

using MinibatchTest = DataTest;

template <typename T>
std::vector<std::remove_const_t<T>> Copy(cr::Span<T> span) {
  return {span.begin(), span.end()};
}

// Whether a stream, the keys, or the descriptions of a minibatch of type M can be borrowed.
template <typename M, typename Key, typename = void>
constexpr bool kGivesStream = false;
template <typename M, typename Key>
constexpr bool kGivesStream<M, Key, std::void_t<decltype(std::declval<M>()[std::declval<Key>()])>> = true;
template <typename M, typename = void>
constexpr bool kGivesKeys = false;
template <typename M>
constexpr bool kGivesKeys<M, std::void_t<decltype(std::declval<M>().Keys())>> = true;
template <typename M, typename = void>
constexpr bool kGivesDescriptions = false;
template <typename M>
constexpr bool kGivesDescriptions<M, std::void_t<decltype(std::declval<M>().GetStreamDescriptions())>> = true;

template <typename M>
constexpr bool kGivesAll = kGivesStream<M, std::size_t>&& kGivesStream<M, const char*>&&
    kGivesStream<M, std::string>&& kGivesKeys<M>&& kGivesDescriptions<M>;
template <typename M>
constexpr bool kGivesAny = kGivesStream<M, std::size_t> || kGivesStream<M, const char*> ||
                           kGivesStream<M, std::string> || kGivesKeys<M> || kGivesDescriptions<M>;

// Views of a temporary minibatch would dangle, and do not compile.
static_assert(kGivesAll<cr::Minibatch&> && kGivesAll<const cr::Minibatch&>);
static_assert(!kGivesAny<cr::Minibatch> && !kGivesAny<const cr::Minibatch>);

TEST_F(MinibatchTest, DenseData) {
  cr::Reader reader = Open("|x 1 2 |y 0:1\n|x 3 4 |y 4:0.5\n");
  reader.StartEpoch(Sweep(2));
  const cr::Minibatch minibatch = reader.GetMinibatch();
  const cr::StreamMinibatch x = minibatch["x"];
  EXPECT_FALSE(x.IsSparse());
  EXPECT_EQ(x.Steps(), 1u);
  EXPECT_EQ(x.Lanes(), 2u);
  EXPECT_EQ(x.Columns(), 2u);
  EXPECT_EQ(x.Samples(), 2u);
  EXPECT_EQ(x.SequenceCount(), 2u);
  EXPECT_EQ(x.SampleSize(), 2u);
  EXPECT_EQ(Copy(x.Values<float>()), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(Copy(x.Column<float>(1)), (std::vector<float>{3, 4}));
  EXPECT_EQ(x.Block().size(), 4 * sizeof(float));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(x.Block().data()) % 64, 0u);
  EXPECT_TRUE(x.Indices().empty());
  EXPECT_THROW(x.Values<double>(), cr::Error);
  EXPECT_EQ(Copy(minibatch[0].Values<float>()), Copy(x.Values<float>()));
}

TEST_F(MinibatchTest, SparseData) {
  cr::Reader reader = Open("|x 1 2 |y 3:1 1:2\n|x 3 4 |y\n|x 5 6 |y 4:0.5\n");
  reader.StartEpoch(Sweep(3));
  const cr::Minibatch minibatch = reader.GetMinibatch();
  const cr::StreamMinibatch y = minibatch["y"];
  ASSERT_TRUE(y.IsSparse());
  EXPECT_EQ(Copy(y.Values<float>()), (std::vector<float>{1, 2, 0.5}));
  EXPECT_EQ(Copy(y.Indices()), (std::vector<std::int32_t>{3, 1, 4}));
  EXPECT_EQ(Copy(y.ColumnOffsets()), (std::vector<std::int32_t>{0, 2, 2, 3}));
  std::uint64_t stored = 0;
  std::memcpy(&stored, y.Block().data(), sizeof stored);
  EXPECT_EQ(stored, 3u);
  EXPECT_EQ(y.Block().size(), 8u + 3 * 4 + 3 * 4 + 4 * 4);
  float sum = 0;
  y.ForEachValue<float>(0, [&](std::size_t row, float value) { sum += value * static_cast<float>(row); });
  EXPECT_EQ(sum, 5);
  EXPECT_THROW(y.Column<float>(0), cr::Error);
}

TEST_F(MinibatchTest, CanonicalColumnsAscendWithEachIndexOnce) {
  cr::Reader reader = Open("|x 1 2 |y 3:1 1:2 3:4\n|x 3 4 |y\n|x 5 6 |y 4:0.5 0:1\n");
  reader.StartEpoch(Sweep(3));
  const cr::Minibatch minibatch = reader.GetMinibatch();
  const cr::StreamMinibatch y = minibatch["y"];
  EXPECT_EQ(Copy(y.Indices()), (std::vector<std::int32_t>{3, 1, 3, 4, 0})) << "order of the file";
  const cr::CanonicalColumns<float> columns = y.Canonical<float>();
  EXPECT_EQ(columns.values, (std::vector<float>{2, 5, 1, 0.5}));
  EXPECT_EQ(columns.indices, (std::vector<std::int32_t>{1, 3, 0, 4}));
  EXPECT_EQ(columns.offsets, (std::vector<std::int32_t>{0, 2, 2, 4}));
  EXPECT_EQ(ErrorOf([&] { y.Canonical<double>(); }).Kind(), cr::ErrorKind::kInvalidArgument);
  EXPECT_EQ(ErrorOf([&] { minibatch["x"].Canonical<float>(); }).Kind(), cr::ErrorKind::kInvalidArgument);
}

TEST_F(MinibatchTest, CanonicalColumnsOfDoubles) {
  cr::Reader reader = Open("|x 1 2 |y 2:0.25 2:0.5\n", "precision = \"double\"");
  reader.StartEpoch(Sweep(1));
  const cr::Minibatch minibatch = reader.GetMinibatch();
  const cr::CanonicalColumns<double> columns = minibatch["y"].Canonical<double>();
  EXPECT_EQ(columns.values, (std::vector<double>{0.75}));
  EXPECT_EQ(columns.indices, (std::vector<std::int32_t>{2}));
  EXPECT_EQ(columns.offsets, (std::vector<std::int32_t>{0, 1}));
}

TEST_F(MinibatchTest, BagsAreTheEntriesOfEachSample) {
  cr::Reader reader = Open("0 |x 1 2 |y 3:1 1:2 3:4\n0 |x 3 4 |y\n1 |x 5 6 |y 4:0.5\n2 |x 5 6 |y 0:1 1:1\n");
  reader.StartEpoch(Sweep(4));
  const cr::Minibatch minibatch = reader.GetMinibatch();
  const cr::StreamMinibatch y = minibatch["y"];
  const auto bags = y.Bags<float, std::int64_t>();
  EXPECT_EQ(bags.indices, (std::vector<std::int64_t>{3, 1, 3, 4, 0, 1}));
  EXPECT_EQ(bags.weights, (std::vector<float>{1, 2, 4, 0.5, 1, 1}));
  EXPECT_EQ(bags.offsets, (std::vector<std::int32_t>{0, 3, 3, 4, 6}));
  EXPECT_EQ(bags.sequence_offsets, (std::vector<std::int32_t>{0, 2, 3, 4}));
  EXPECT_EQ(ErrorOf([&] { y.Bags<double>(); }).Kind(), cr::ErrorKind::kInvalidArgument);
  EXPECT_EQ(ErrorOf([&] { minibatch["x"].Bags<float>(); }).Kind(), cr::ErrorKind::kInvalidArgument);
  cr::Reader of_ones = Open("|x 1 2 |y 3:1 1:1\n|x 3 4 |y 0:1\n");
  of_ones.StartEpoch(Sweep(2));
  const cr::Minibatch ones = of_ones.GetMinibatch();
  EXPECT_TRUE(ones["y"].Bags<float>().weights.empty());
}

TEST_F(MinibatchTest, Doubles) {
  cr::Reader reader = Open(Lines(1), "precision = \"double\"");
  reader.StartEpoch(Sweep(1));
  const cr::Minibatch minibatch = reader.GetMinibatch();
  EXPECT_EQ(reader.GetStreamDescriptions()[0].element, cr::ElementType::kDouble);
  EXPECT_EQ(minibatch["x"].Values<double>().size(), 2u);
  EXPECT_THROW(minibatch["x"].Values<float>(), cr::Error);
}

TEST_F(MinibatchTest, TypesOfValuesAndIds) {
  cr::CtfDeserializer text(Write("types.ctf", "|x 1 255 |y 2:1\n|x 0 7 |y 4:1\n"));
  text.Dense("x", 2).Element(cr::ElementType::kUInt8).Sparse("y", 5).Ids(cr::ElementType::kInt64);
  cr::ReaderOptions options;
  options.randomize = false;
  cr::Reader reader = cr::Reader::Open(options, text);
  const cr::StreamDescription y = reader.GetStreamDescription("y");
  EXPECT_EQ(y.element, cr::ElementType::kInt64);
  EXPECT_EQ(y.storage, cr::Storage::kDense);
  EXPECT_EQ(y.classes, 5u);
  EXPECT_EQ(reader.GetStreamDescription("x").classes, 0u);
  reader.StartEpoch(Sweep(4));
  const cr::Minibatch minibatch = reader.GetMinibatch();
  EXPECT_EQ(Copy(minibatch["x"].Values<std::uint8_t>()), (std::vector<std::uint8_t>{1, 255, 0, 7}));
  EXPECT_EQ(Copy(minibatch["y"].Values<std::int64_t>()), (std::vector<std::int64_t>{2, 4}));
  EXPECT_EQ(minibatch["x"].Packed<std::uint8_t>().values, (std::vector<std::uint8_t>{1, 255, 0, 7}));
  EXPECT_THROW(minibatch["x"].Values<float>(), cr::Error);
  EXPECT_THROW(minibatch["x"].Padded<std::uint8_t>(-1), cr::Error);
  EXPECT_EQ(minibatch["x"].Padded<std::uint8_t>(9).values.size(), 4u);
}

TEST_F(MinibatchTest, IndicesOfBothWidths) {
  cr::Reader reader = Open("7 |x 1 1 |y 0:1\n7 |x 2 2 |y 3:1\n8 |x 4 4 |y 1:1\n");
  reader.StartEpoch(Sweep(3));
  const cr::Minibatch minibatch = reader.GetMinibatch();
  const cr::StreamMinibatch y = minibatch["y"];
  EXPECT_EQ(y.PackedIndices<std::int64_t>().values, (std::vector<std::int64_t>{0, 3, 1}));
  EXPECT_EQ(y.PaddedIndices<std::int64_t>(-100).values, (std::vector<std::int64_t>{0, 3, 1, -100}));
  EXPECT_EQ(y.PaddedIndices(-100).values, (std::vector<std::int32_t>{0, 3, 1, -100}));
}

TEST_F(MinibatchTest, SequencesOfDifferentLengths) {
  cr::Reader reader = Open("7 |x 1 1 |y 0:1\n7 |x 2 2 |y 1:1\n7 |x 3 3 |y 2:1\n8 |x 4 4 |y 3:1\n");
  reader.StartEpoch(Sweep(4));
  const cr::Minibatch minibatch = reader.GetMinibatch();
  const cr::StreamMinibatch x = minibatch["x"];
  EXPECT_EQ(x.Steps(), 3u);
  EXPECT_EQ(x.Lanes(), 2u);
  EXPECT_EQ(x.Samples(), 4u);
  const std::vector<cr::Sequence> sequences = x.Sequences();
  ASSERT_EQ(sequences.size(), 2u);
  std::vector<std::vector<float>> values;
  for (const cr::Sequence& sequence : sequences) {
    values.emplace_back();
    for (std::size_t step = 0; step < sequence.Steps(); ++step)
      values.back().push_back(x.Column<float>(sequence.Column(step))[0]);
  }
  EXPECT_EQ(values, (std::vector<std::vector<float>>{{1, 2, 3}, {4}}));
  std::size_t gaps = 0;
  for (const cr::Record& record : x.Records()) gaps += cr::IsGap(record) ? 1 : 0;
  EXPECT_EQ(gaps, 1u);
  EXPECT_EQ(Copy(minibatch.Keys()), (std::vector<std::uint64_t>{7, 8}));
  EXPECT_EQ(minibatch.Key(1), "8");
}

TEST_F(MinibatchTest, SequencesPaddedAndPacked) {
  cr::Reader reader = Open(
      "7 |x 1 1 |y 0:1\n7 |x 2 2 |y 1:1\n8 |x 4 4 |y 3:1\n9 |x 5 5 |y 2:1\n9 |x 6 6 |y 4:1\n9 |x 7 7 |y "
      "0:1\n");
  reader.StartEpoch(Sweep(6));
  const cr::Minibatch minibatch = reader.GetMinibatch();
  const cr::StreamMinibatch x = minibatch["x"];
  EXPECT_EQ(x.Longest(), 3u);
  EXPECT_FALSE(x.IsPacked());
  EXPECT_EQ(Copy(x.Shape()), (std::vector<std::size_t>{2}));
  const cr::PaddedSequences<float> padded = x.Padded<float>(-1);
  EXPECT_EQ(padded.sequences, 3u);
  EXPECT_EQ(padded.length, 3u);
  EXPECT_EQ(padded.values, (std::vector<float>{1, 1, 2, 2, -1, -1, 4, 4, -1, -1, -1, -1, 5, 5, 6, 6, 7, 7}));
  EXPECT_EQ(padded.mask, (std::vector<std::uint8_t>{1, 1, 0, 1, 0, 0, 1, 1, 1}));
  const cr::PackedSequences<float> packed = x.Packed<float>();
  EXPECT_EQ(packed.values, (std::vector<float>{1, 1, 2, 2, 4, 4, 5, 5, 6, 6, 7, 7}));
  EXPECT_EQ(packed.offsets, (std::vector<std::int32_t>{0, 2, 3, 6}));
  EXPECT_EQ(packed.longest, 3u);
  const cr::StreamMinibatch y = minibatch["y"];
  EXPECT_EQ(y.PackedIndices().values, (std::vector<std::int32_t>{0, 1, 3, 2, 4, 0}));
  EXPECT_EQ(y.PaddedIndices(9, 4).values, (std::vector<std::int32_t>{0, 1, 9, 9, 3, 9, 9, 9, 2, 4, 0, 9}));
  EXPECT_EQ(y.Padded<float>().values.size(), 3u * 3 * 5);
  EXPECT_THROW(x.Padded<double>(), cr::Error);
  EXPECT_THROW(x.Padded<float>(0, 2), cr::Error);
  EXPECT_THROW(x.PackedIndices(), cr::Error);
}

// A text file may have textual keys, but each of their characters counts as an error that has to be
// tolerated (CNTK 2.7).
TEST_F(MinibatchTest, TextualKeysOfAnyLength) {
  const std::string longer(300, 'k');
  cr::Reader reader = Open(longer + " |x 1 1 |y 0:1\nshort |x 2 2 |y 1:1\n", "useNumericSequenceKeys = false",
                           "maxErrors = 1000");
  EXPECT_FALSE(reader.HasNumericKeys());
  reader.StartEpoch(Sweep(2));
  const cr::Minibatch minibatch = reader.GetMinibatch();
  EXPECT_EQ(minibatch.Key(0), longer);
  EXPECT_EQ(minibatch.Key(1), "short");
}

TEST_F(MinibatchTest, AbsentStreamsAndSequences) {
  cr::Reader reader = Open(Lines(1));
  reader.StartEpoch(Sweep(1));
  const cr::Minibatch minibatch = reader.GetMinibatch();
  EXPECT_THROW(minibatch["z"], cr::Error);
  EXPECT_THROW(minibatch[2], cr::Error);
  EXPECT_THROW(minibatch.Key(1), cr::Error);
}

TEST_F(MinibatchTest, OutlivesItsReader) {
  cr::Minibatch kept;
  {
    cr::Reader reader = Open(Lines(3));
    reader.StartEpoch(Sweep(3));
    kept = reader.GetMinibatch();
  }
  EXPECT_EQ(Copy(kept["x"].Values<float>()), (std::vector<float>{0, 0, 1, -1, 2, -2}));
  EXPECT_EQ(kept.Key(2), "2");
  EXPECT_EQ(kept.GetStreamDescriptions().size(), 2u);
}

TEST_F(MinibatchTest, SeveralMayBeKept) {
  cr::Reader reader = Open(Lines(50));
  reader.StartEpoch(Sweep(1));
  std::vector<cr::Minibatch> kept;
  for (const cr::Minibatch& minibatch : reader.Minibatches()) kept.push_back(minibatch);
  ASSERT_EQ(kept.size(), 50u);
  for (std::size_t i = 0; i < kept.size(); ++i)
    EXPECT_EQ(kept[i]["x"].Values<float>()[0], static_cast<float>(i));
}

// With more workers than chunks, all workers get the same number of minibatches, and none after the
// end, also from a checkpoint.
TEST_F(MinibatchTest, WorkersReadInLockstep) {
  Write("lines.ctf", Lines(21));
  cr::ReaderOptions options;
  options.lockstep = true;
  options.trace_level = 0;
  const auto data = cr::CtfDeserializer(Path("lines.ctf")).Dense("x", 2).ChunkSize(100);
  const auto read = [](cr::Reader& reader, std::vector<std::size_t>& seen) {
    std::size_t steps = 0;
    for (const cr::Minibatch& minibatch : reader.Minibatches()) {
      ++steps;
      for (const std::uint64_t key : minibatch.Keys()) ++seen[key];
    }
    return steps;
  };
  for (const std::uint64_t workers : {1, 3, 20}) {
    std::vector<std::size_t> seen(21);
    for (std::uint64_t rank = 0; rank < workers; ++rank) {
      cr::Reader reader = cr::Reader::Open(options, data);
      EXPECT_TRUE(reader.IsInLockstep());
      cr::EpochConfiguration epoch = Sweep(4);
      epoch.workers = workers;
      epoch.rank = rank;
      reader.StartEpoch(epoch);
      EXPECT_EQ(read(reader, seen), 6u);
      cr::Reader again = cr::Reader::Open(options, data);
      again.RestoreCheckpoint(reader.SaveCheckpoint());
      EXPECT_EQ(read(again, seen), 0u);
    }
    EXPECT_EQ(seen, std::vector<std::size_t>(21, 1));
  }
  EXPECT_FALSE(Open(Lines(21)).IsInLockstep());
}

TEST_F(MinibatchTest, CopiesShareAndMovesEmpty) {
  cr::Reader reader = Open(Lines(1));
  reader.StartEpoch(Sweep(1));
  cr::Minibatch minibatch = reader.GetMinibatch();
  cr::Minibatch copy = minibatch;
  EXPECT_EQ(copy["x"].Block().data(), minibatch["x"].Block().data());
  const cr::Minibatch moved = std::move(minibatch);
  EXPECT_THROW(minibatch[0], cr::Error);
  copy = moved;
  EXPECT_TRUE(copy);
}

TEST_F(MinibatchTest, MayBeReleasedByOtherThreads) {
  cr::Reader reader = Open(Lines(200));
  reader.StartEpoch(Sweep(1));
  std::vector<std::thread> threads;
  for (const cr::Minibatch& minibatch : reader.Minibatches()) {
    if (threads.size() == 8) {
      for (std::thread& thread : threads) thread.join();
      threads.clear();
    }
    threads.emplace_back([copy = minibatch] { EXPECT_EQ(copy["x"].Samples(), 1u); });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
