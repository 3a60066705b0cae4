// Readers: opening, streams, moves, epochs.

#include <algorithm>
#include <thread>
#include <type_traits>

#include "data.hpp"

namespace {

using ReaderTest = DataTest;

static_assert(!std::is_copy_constructible_v<cr::Reader> && std::is_nothrow_move_constructible_v<cr::Reader>);
static_assert(!std::is_copy_constructible_v<cr::Checkpoint> && std::is_move_constructible_v<cr::Checkpoint>);
static_assert(std::is_nothrow_move_constructible_v<cr::Minibatch> &&
              std::is_copy_constructible_v<cr::Minibatch>);
static_assert(std::is_nothrow_copy_constructible_v<cr::Error>);

TEST(VersionTest, HeaderAndLibraryVersionsMatch) {
  EXPECT_EQ(cntk_reader_version_get(), static_cast<std::uint32_t>(CNTK_READER_VERSION));
  EXPECT_EQ(cntk_reader_version_get_abi(), static_cast<std::uint32_t>(CNTK_READER_ABI_VERSION));
  const std::string text = std::to_string(CNTK_READER_VERSION_MAJOR) + "." +
                           std::to_string(CNTK_READER_VERSION_MINOR) + "." +
                           std::to_string(CNTK_READER_VERSION_PATCH);
  EXPECT_EQ(cr::Version(), text);
}

TEST_F(ReaderTest, DescribesItsStreams) {
  const cr::Reader reader = Open(Lines(3));
  const cr::StreamDescriptions& streams = reader.GetStreamDescriptions();
  ASSERT_EQ(streams.size(), 2u);
  EXPECT_EQ(streams[0].name, "x");
  EXPECT_EQ(streams[0].storage, cr::Storage::kDense);
  EXPECT_EQ(streams[0].element, cr::ElementType::kFloat);
  EXPECT_EQ(streams[0].shape, std::vector<std::size_t>{2});
  EXPECT_EQ(streams[0].sample_size, 2u);
  EXPECT_EQ(streams[1].storage, cr::Storage::kSparseCsc);
  EXPECT_EQ(reader.GetStreamDescription("y").id, 1u);
  EXPECT_THROW(reader.GetStreamDescription("z"), cr::Error);
  EXPECT_TRUE(reader.HasNumericKeys());
}

TEST_F(ReaderTest, OpensTextAndFile) {
  const std::string file = Write("config.cntk", Configuration(Lines(2)));
  EXPECT_EQ(cr::Reader::FromFile(file).GetStreamDescriptions().size(), 2u);
  // A view need not be NUL-terminated.
  const std::string path = file + "|", text = Configuration(Lines(2)) + "]";
  EXPECT_NO_THROW(cr::Reader::FromFile(std::string_view(path).substr(0, file.size())));
  EXPECT_NO_THROW(cr::Reader::FromText(std::string_view(text).substr(0, text.size() - 1)));
}

TEST_F(ReaderTest, RefusesUseAfterMove) {
  cr::Reader first = Open(Lines(3));
  first.StartEpoch(Sweep(1));
  cr::Reader second = std::move(first);
  EXPECT_EQ(Rest(second), (std::vector<float>{0, 1, 2}));
  const cr::Error moved = ErrorOf([&] { first.GetMinibatch(); });
  EXPECT_EQ(moved.Kind(), cr::ErrorKind::kInvalidArgument);
  EXPECT_NE(std::string(moved.what()).find("moved from"), std::string::npos) << moved.what();
  first = std::move(second);
  EXPECT_TRUE(first.GetMinibatch().EndOfEpoch());
}

TEST_F(ReaderTest, ReadsEpochByEpoch) {
  cr::Reader reader = Open(Lines(5));
  cr::EpochConfiguration epoch = Sweep(2);
  epoch.sweeps = cr::kUnlimitedSweeps;
  epoch.samples = 3;
  reader.StartEpoch(epoch);
  EXPECT_EQ(Rest(reader), (std::vector<float>{0, 1, 2}));
  epoch.index = 1;
  reader.StartEpoch(epoch);
  EXPECT_EQ(Rest(reader), (std::vector<float>{3, 4, 0}));
  epoch.samples = cr::kOneSweep;
  reader.StartEpoch(epoch);
  EXPECT_EQ(Rest(reader), (std::vector<float>{0, 1, 2, 3, 4}));
}

TEST_F(ReaderTest, StartsConsecutiveEpochs) {
  cr::Reader reader = Open(Lines(5));
  EXPECT_FALSE(reader.GetEpoch());
  for (std::uint64_t index = 0; index < 3; ++index) {
    EXPECT_EQ(reader.StartNextEpoch(Sweep(2)), index);
    EXPECT_EQ(reader.GetEpoch()->state, cr::EpochState::kStarted);
    EXPECT_EQ(Rest(reader), (std::vector<float>{0, 1, 2, 3, 4}));
    EXPECT_EQ(reader.GetEpoch()->configuration.index, index);
    EXPECT_EQ(reader.GetEpoch()->state, cr::EpochState::kOver);
  }
  const cr::Checkpoint end = reader.SaveCheckpoint();
  reader.StartNextEpoch(Sweep(2));
  reader.NextStep();
  const cr::Checkpoint middle = reader.SaveCheckpoint();

  cr::Reader resumed = Open(Lines(5));
  resumed.RestoreCheckpoint(middle);
  EXPECT_EQ(resumed.GetEpoch()->state, cr::EpochState::kResumed);
  EXPECT_EQ(resumed.StartNextEpoch(Sweep(2)), 3U);
  EXPECT_EQ(Rest(resumed), (std::vector<float>{2, 3, 4}));
  EXPECT_EQ(resumed.StartNextEpoch(Sweep(2)), 4U);
  resumed.RestoreCheckpoint(end);
  EXPECT_EQ(resumed.StartNextEpoch(Sweep(2)), 3U);
  EXPECT_EQ(Rest(resumed), (std::vector<float>{0, 1, 2, 3, 4}));

  cr::EpochConfiguration other = Sweep(2);
  other.sweeps = 2;
  EXPECT_THROW(resumed.StartNextEpoch(other), cr::Error);
}

TEST_F(ReaderTest, NothingFollowsTheEndOfAnEpoch) {
  cr::Reader reader = Open(Lines(2));
  reader.StartEpoch(Sweep(10));
  cr::Minibatch minibatch = reader.GetMinibatch();
  EXPECT_TRUE(minibatch);
  EXPECT_TRUE(minibatch.EndOfSweep());
  EXPECT_TRUE(minibatch.EndOfEpoch());
  for (int i = 0; i < 3; ++i) {
    minibatch = reader.GetMinibatch();
    EXPECT_FALSE(minibatch);
    EXPECT_TRUE(minibatch.EndOfEpoch());
    EXPECT_EQ(minibatch.size(), 0u);
    EXPECT_TRUE(minibatch.Keys().empty());
  }
  EXPECT_EQ(Rest(reader), std::vector<float>());
}

std::size_t SamplesOfNext(cr::Reader& reader) {
  const cr::Minibatch minibatch = reader.GetMinibatch();
  return minibatch["x"].Samples();
}

TEST_F(ReaderTest, ChangesItsConfiguration) {
  cr::Reader reader = Open(Lines(6));
  reader.StartEpoch(Sweep(1));
  EXPECT_EQ(SamplesOfNext(reader), 1u);
  cr::ReaderConfiguration configuration;
  configuration.minibatch_size = 3;
  reader.SetConfiguration(configuration);
  EXPECT_EQ(reader.GetConfiguration().minibatch_size, 3u);
  EXPECT_EQ(SamplesOfNext(reader), 3u);
}

TEST_F(ReaderTest, ReportsTheConfigurationOfARestoredCheckpoint) {
  cr::Reader reader = Open(Lines(8)), other = Open(Lines(8));
  EXPECT_THROW(other.GetConfiguration(), cr::Error);
  cr::EpochConfiguration epoch = Sweep(4);
  epoch.workers = 2;
  epoch.rank = 1;
  reader.StartEpoch(epoch);
  other.RestoreCheckpoint(reader.SaveCheckpoint());
  const cr::ReaderConfiguration configuration = other.GetConfiguration();
  EXPECT_EQ(configuration.minibatch_size, 4u);
  EXPECT_EQ(configuration.workers, 2u);
  EXPECT_EQ(configuration.rank, 1u);
  EXPECT_TRUE(configuration.cross_sweeps);
}

TEST_F(ReaderTest, SharesDataAmongWorkers) {
  std::vector<float> all;
  for (std::uint64_t rank = 0; rank < 2; ++rank) {
    cr::Reader reader = Open(Lines(8));
    cr::EpochConfiguration epoch = Sweep(4);
    epoch.workers = 2;
    epoch.rank = rank;
    reader.StartEpoch(epoch);
    for (const float value : Rest(reader)) all.push_back(value);
  }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, (std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST_F(ReaderTest, MayMoveBetweenThreads) {
  cr::Reader reader = Open(Lines(4));
  reader.StartEpoch(Sweep(4));
  std::vector<float> values;
  std::thread([&] { values = Rest(reader); }).join();
  EXPECT_EQ(values, (std::vector<float>{0, 1, 2, 3}));
}

TEST(ThreadsTest, CountCanBeSet) {
  cr::SetThreads(3);
  EXPECT_EQ(cr::GetThreads(), 3u);
  cr::SetThreads(0);
  EXPECT_GE(cr::GetThreads(), 1u);
}

// For every number of an epoch and a configuration.
TEST_F(ReaderTest, NegativeNumbersAndZeroSweepsAreRefused) {
  cr::Reader reader = Open(Lines(4));
  const auto minus = static_cast<std::uint64_t>(-1);
  for (const auto member : {&cr::EpochConfiguration::workers, &cr::EpochConfiguration::minibatch_size,
                            &cr::EpochConfiguration::truncation_length, &cr::EpochConfiguration::right_splice,
                            &cr::EpochConfiguration::index}) {
    cr::EpochConfiguration epoch = Sweep(1);
    epoch.rank = 0;
    epoch.*member = minus;
    const cr::Error error = ErrorOf([&] { reader.StartEpoch(epoch); });
    EXPECT_EQ(error.Kind(), cr::ErrorKind::kInvalidArgument);
    EXPECT_NE(std::string(error.what()).find("negative"), std::string::npos) << error.what();
  }
  cr::EpochConfiguration none = Sweep(1);
  none.sweeps = 0;
  EXPECT_EQ(ErrorOf([&] { reader.StartEpoch(none); }).Kind(), cr::ErrorKind::kInvalidArgument);
  cr::EpochConfiguration several = Sweep(1);
  several.workers = 2;
  EXPECT_NE(std::string(ErrorOf([&] { reader.StartEpoch(several); }).what()).find("'rank'"),
            std::string::npos);
  reader.StartEpoch(Sweep(1));
  for (const auto member :
       {&cr::ReaderConfiguration::workers, &cr::ReaderConfiguration::minibatch_size,
        &cr::ReaderConfiguration::truncation_length, &cr::ReaderConfiguration::right_splice}) {
    cr::ReaderConfiguration configuration = reader.GetConfiguration();
    configuration.*member = minus;
    EXPECT_EQ(ErrorOf([&] { reader.SetConfiguration(configuration); }).Kind(),
              cr::ErrorKind::kInvalidArgument);
  }
  EXPECT_EQ(ErrorOf([&] {
              reader.SetState({{"minibatchSourcePosition", minus}});
            }).Kind(),
            cr::ErrorKind::kInvalidArgument);
  EXPECT_EQ(Rest(reader).size(), 4u) << "refused calls change nothing";
}

}  // namespace
