// Positions: CNTK's state, and the reader's own checkpoints.

#include "data.hpp"

namespace {

using PositionTest = DataTest;

constexpr char kPosition[] = "minibatchSourcePosition";

TEST_F(PositionTest, StateFollowsTheLastMinibatch) {
  cr::Reader reader = Open(Lines(6));
  reader.StartEpoch(Sweep(2));
  EXPECT_EQ(reader.GetState(), (cr::State{{kPosition, 0}}));
  reader.GetMinibatch();
  EXPECT_EQ(reader.GetState(), (cr::State{{kPosition, 2}}));
}

TEST_F(PositionTest, StateIsRestored) {
  cr::Reader reader = Open(Lines(6));
  reader.StartEpoch(Sweep(1));
  reader.SetState({{kPosition, 4}, {"unknown", 1}});
  EXPECT_EQ(Rest(reader), (std::vector<float>{4, 5}));
}

TEST_F(PositionTest, StateWithoutPositionIsRefused) {
  cr::Reader reader = Open(Lines(6));
  reader.StartEpoch(Sweep(1));
  const cr::Error error = ErrorOf([&] { reader.SetState({{"nonsense", 3}}); });
  EXPECT_EQ(error.Class(), cr::ExceptionClass::kInvalidArgument);
  EXPECT_THROW(reader.SetState({}), cr::Error);
}

TEST_F(PositionTest, CheckpointContinuesInANewReader) {
  for (const std::string options : {"", "randomize = true", "truncated = true ; truncationLength = 1"}) {
    SCOPED_TRACE(options);
    cr::Reader reader = Open(Lines(40), options);
    reader.StartEpoch(Sweep(3));
    for (int i = 0; i < 4; ++i) reader.GetMinibatch();
    const cr::Checkpoint checkpoint = reader.SaveCheckpoint();
    EXPECT_GT(checkpoint.size(), 0u);
    cr::Reader other = Open(Lines(40), options);
    other.RestoreCheckpoint(checkpoint);
    EXPECT_EQ(Rest(other), Rest(reader));
  }
}

TEST_F(PositionTest, CheckpointAfterTheEndDeliversNothing) {
  cr::Reader reader = Open(Lines(5));
  reader.StartEpoch(Sweep(2));
  Rest(reader);
  const cr::Checkpoint checkpoint = reader.SaveCheckpoint();
  cr::Reader other = Open(Lines(5));
  other.RestoreCheckpoint(checkpoint);
  EXPECT_EQ(Rest(other), std::vector<float>());
}

TEST_F(PositionTest, DamagedCheckpointIsRefused) {
  cr::Reader reader = Open(Lines(5));
  reader.StartEpoch(Sweep(2));
  const cr::Checkpoint checkpoint = reader.SaveCheckpoint();
  std::vector<unsigned char> bytes(checkpoint.data(), checkpoint.data() + checkpoint.size());
  bytes[bytes.size() / 2] ^= 1;
  EXPECT_EQ(ErrorOf([&] { reader.RestoreCheckpoint(bytes.data(), bytes.size()); }).Kind(),
            cr::ErrorKind::kCheckpoint);
  EXPECT_EQ(ErrorOf([&] { reader.RestoreCheckpoint(nullptr, 0); }).Kind(), cr::ErrorKind::kCheckpoint);
  EXPECT_EQ(ErrorOf([&] { reader.RestoreCheckpoint(nullptr, 7); }).Kind(), cr::ErrorKind::kInvalidArgument);
  EXPECT_EQ(Rest(reader).size(), 5u) << "a refused checkpoint does not change the reader";
}

TEST_F(PositionTest, CheckpointOfOtherDataIsRefused) {
  cr::Reader reader = Open(Lines(5));
  reader.StartEpoch(Sweep(2));
  const cr::Checkpoint checkpoint = reader.SaveCheckpoint();
  cr::Reader other = Open(Lines(6));
  EXPECT_EQ(ErrorOf([&] { other.RestoreCheckpoint(checkpoint); }).Kind(), cr::ErrorKind::kCheckpoint);
}

TEST_F(PositionTest, CheckpointOfChangedValuesContinuesOnRequestOnly) {
  cr::Reader reader = Open(Lines(5));
  reader.StartEpoch(Sweep(2));
  reader.GetMinibatch();
  const cr::Checkpoint checkpoint = reader.SaveCheckpoint();
  std::string lines = Lines(5);
  lines.replace(lines.find("|x 4"), 4, "|x 7");
  cr::Reader other = Open(lines);
  EXPECT_EQ(ErrorOf([&] { other.RestoreCheckpoint(checkpoint); }).Kind(), cr::ErrorKind::kCheckpoint);
  other.RestoreCheckpointOverChangedValues(checkpoint);
  EXPECT_EQ(Rest(other), (std::vector<float>{2, 3, 7}));
}

}  // namespace
