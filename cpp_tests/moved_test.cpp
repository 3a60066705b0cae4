// Objects that were moved from: every use except destruction and assignment throws an Error that
// says so.

#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "data.hpp"

namespace {

class MovedTest : public DataTest {
 protected:
  // Expects an error that says that an object of this class was moved from.
  template <typename Work>
  static void Refuses(const std::string& what, Work&& work) {
    const cr::Error error = ErrorOf(work);
    EXPECT_EQ(error.Kind(), cr::ErrorKind::kInvalidArgument) << error.what();
    EXPECT_EQ(error.Message().find("This " + what + " was moved from"), 0u) << error.what();
  }

  cr::Reader Started(int lines = 4) const {
    cr::Reader reader = Open(Lines(lines));
    reader.StartEpoch(Sweep(2));
    return reader;
  }
};

TEST_F(MovedTest, Reader) {
  cr::Reader reader = Started();
  const cr::Reader::MinibatchRange range = reader.Minibatches();
  cr::Reader other = std::move(reader);
  const auto refuses = [&](auto&& work) { Refuses("Reader", work); };
  refuses([&] { (void)reader.GetStreamDescriptions(); });
  refuses([&] { (void)reader.GetStreamDescription("x"); });
  refuses([&] { (void)reader.GetSizes(); });
  refuses([&] { (void)reader.GetMembers(); });
  refuses([&] { (void)reader.GetMinibatch(); });
  refuses([&] { (void)reader.NextStep(); });
  refuses([&] { (void)reader.SaveCheckpoint(); });
  refuses([&] { reader.StartEpoch(Sweep(2)); });
  refuses([&] { reader.SetState({}); });
  refuses([&] { (void)range.begin(); });
  EXPECT_EQ(Rest(other).size(), 4u);
  reader = std::move(other);
  EXPECT_EQ(reader.GetStreamDescriptions().size(), 2u);
  refuses([&] { (void)other.GetStreamDescriptions(); });
}

TEST_F(MovedTest, Checkpoint) {
  cr::Reader reader = Started();
  cr::Checkpoint first = reader.SaveCheckpoint();
  const std::string bytes(reinterpret_cast<const char*>(first.data()), first.size());
  { const cr::Checkpoint second = std::move(first); }
  Refuses("Checkpoint", [&] { (void)first.data(); });
  Refuses("Checkpoint", [&] { (void)first.size(); });
  Refuses("Checkpoint", [&] { reader.RestoreCheckpoint(first); });
  Refuses("Checkpoint", [&] { reader.RestoreCheckpointOverChangedValues(first); });
  first = reader.SaveCheckpoint();
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(first.data()), first.size()), bytes);
  reader.RestoreCheckpoint(first);
}

TEST_F(MovedTest, Minibatch) {
  cr::Reader reader = Started();
  cr::Minibatch minibatch = reader.GetMinibatch();
  const cr::StreamMinibatch x = minibatch["x"];
  const cr::Minibatch other = std::move(minibatch);
  EXPECT_EQ(x.Values<float>().size(), 4u) << "views stay valid";
  const auto refuses = [&](auto&& work) { Refuses("Minibatch", work); };
  refuses([&] { (void)static_cast<bool>(minibatch); });
  refuses([&] { (void)minibatch.EndOfSweep(); });
  refuses([&] { (void)minibatch.EndOfEpoch(); });
  refuses([&] { (void)minibatch.IsStep(); });
  refuses([&] { (void)minibatch.size(); });
  refuses([&] { (void)minibatch["x"]; });
  refuses([&] { (void)minibatch[0]; });
  refuses([&] { (void)minibatch.Keys(); });
  refuses([&] { (void)minibatch.Key(0); });
  refuses([&] { (void)minibatch.GetStreamDescriptions(); });
  minibatch = other;
  EXPECT_EQ(minibatch.Key(0), "0");
}

TEST_F(MovedTest, MinibatchWithoutData) {
  const cr::Minibatch nothing;
  EXPECT_FALSE(nothing);
  EXPECT_TRUE(nothing.Keys().empty());
  const std::string empty = "The minibatch has no data, because nothing was read into it.";
  EXPECT_EQ(ErrorOf([&] { (void)nothing["x"]; }).Message().find(empty), 0u);
  EXPECT_EQ(ErrorOf([&] { (void)nothing[0]; }).Message().find(empty), 0u);
  EXPECT_EQ(ErrorOf([&] { (void)nothing.Key(0); }).Message().find(empty), 0u);
  cr::Reader reader = Started(2);
  (void)Rest(reader);
  const cr::Minibatch past = reader.GetMinibatch();
  EXPECT_FALSE(past);
  const std::string over = "The minibatch has no data, because the epoch has ended.";
  EXPECT_EQ(ErrorOf([&] { (void)past["x"]; }).Message().find(over), 0u);
  EXPECT_EQ(ErrorOf([&] { (void)past[0]; }).Message().find(over), 0u);
  EXPECT_EQ(ErrorOf([&] { (void)past.Key(0); }).Message().find(over), 0u);
}

TEST_F(MovedTest, MinibatchWithoutAShare) {
  cr::ReaderOptions options;
  options.lockstep = true;
  options.trace_level = 0;
  cr::Reader reader = cr::Reader::Open(options, cr::CtfDeserializer(Write("a.ctf", Lines(8))).Dense("x", 2));
  cr::EpochConfiguration epoch = Sweep(2);
  epoch.workers = 2;
  epoch.rank = 1;  // Rank 0 gets the only chunk.
  reader.StartEpoch(epoch);
  const std::optional<cr::Minibatch> step = reader.NextStep();
  ASSERT_TRUE(step && !*step && !step->EndOfEpoch());
  const std::string message = ErrorOf([&] { (void)(*step)["x"]; }).Message();
  EXPECT_NE(message.find("because this worker's share of it has no sequence"), std::string::npos) << message;
}

TEST_F(MovedTest, Canceller) {
  cr::Canceller canceller;
  const cr::Canceller other = std::move(canceller);
  EXPECT_FALSE(other.Cancel());
  Refuses("Canceller", [&] { (void)canceller.Cancel(); });
  const std::string text = Configuration(Lines(1));
  Refuses("Canceller", [&] { cr::Reader::FromText(text, {}, {}, &canceller); });
}

TEST_F(MovedTest, Builders) {
  const auto refuses = [&](auto&& work) { Refuses("deserializer or transform", work); };
  auto ctf = cr::CtfDeserializer("a.ctf").Dense("x", 2);
  auto other = std::move(ctf);
  other.Alias("y");
  refuses([&] { ctf.Dense("x", 2); });
  refuses([&] { ctf.Alias("x"); });
  refuses([&] { ctf.ChunkSize(3); });
  refuses([&] { (void)ctf.Text(); });
  refuses([&] { const auto copy = ctf; });
  refuses([&] { cr::Reader::Open(ctf); });
  ctf = other;
  EXPECT_EQ(ctf.Text(), other.Text());

  cr::CbfDeserializer cbf("a.cbf");
  const auto binary = std::move(cbf);
  refuses([&] { cbf.Rename("a", "b"); });
  refuses([&] { cr::Reader::Open(cbf); });
  cr::NumpyDeserializer arrays;
  const auto numpy = std::move(arrays);
  refuses([&] { arrays.Array("x", "x.npy"); });
  refuses([&] { arrays.DefinesMinibatchSize(); });
  cr::HtkMlfDeserializer labels("l", "a.mlf", 3);
  const auto mlf = std::move(labels);
  refuses([&] { labels.AddMlfFile("b.mlf"); });
  refuses([&] { cr::Reader::Open(labels); });
  cr::ImageDeserializer images("map.txt", "x", "l", 3);
  cr::Scale scale(4, 4, 3);
  const auto scaled = std::move(scale);
  refuses([&] { images.AddTransform(scale); });
  const auto pictures = std::move(images);
  refuses([&] { images.Element(cr::ElementType::kUInt8); });
  refuses([&] { images.Draws("d"); });
  refuses([&] { images.AddTransform(scaled); });
  refuses([&] { cr::Reader::Open(images); });
  cr::Deserializer any = other;
  const cr::Deserializer kept = std::move(any);
  refuses([&] { cr::Reader::Open({any}); });
}

// A deserializer of three samples in a stream x, whose chunk is made by `make`.
template <typename Make>
class Made : public cr::UserDeserializer {
 public:
  explicit Made(Make make) : make_(std::move(make)) {}
  std::vector<cr::UserStream> GetStreams() override {
    return {{"x", {1}, cr::Storage::kDense, cr::ElementType::kFloat, false}};
  }
  std::uint32_t GetChunkCount() override { return 1; }
  cr::UserChunk GetChunk(std::uint32_t) override { return make_(); }

 private:
  Make make_;
};

template <typename Make>
void ReadUser(Make make) {
  cr::EpochConfiguration epoch;
  epoch.minibatch_size = 9;
  epoch.sweeps = 1;
  cr::Reader reader = cr::Reader::FromUser(std::make_shared<Made<Make>>(std::move(make)));
  reader.StartEpoch(epoch);
  const cr::Minibatch minibatch = reader.GetMinibatch();
  EXPECT_EQ(minibatch["x"].Samples(), 3u);
}

// The values of a moved-from array may be freed while it is used.
TEST_F(MovedTest, DataOfUserDeserializers) {
  const auto refuses = [](const std::string& what, auto make) {
    const cr::Error error = ErrorOf([&] { ReadUser(make); });
    EXPECT_EQ(error.Kind(), cr::ErrorKind::kUser);
    EXPECT_EQ(error.Message().find("This " + what + " was moved from"), 0u) << error.what();
  };
  const std::vector<float> values = {1, 2, 3};
  refuses("array", [&] {
    cr::DenseArray array(values);
    { const auto other = std::move(array); }
    std::vector<cr::UserStreamData> streams = {cr::UserStreamData::Samples(array)};
    return cr::UserChunk(std::move(streams));
  });
  refuses("DenseArray", [&] {
    cr::DenseArray array(values);
    { const auto other = std::move(array); }
    return cr::UserChunk({cr::UserStreamData::Samples(array.SetSamples(3))});
  });
  refuses("UserStreamData", [&] {
    auto data = cr::UserStreamData::Samples(cr::DenseArray(values));
    { const auto other = std::move(data); }
    return cr::UserChunk({data});
  });
  refuses("UserChunk", [&] {
    cr::UserChunk chunk({cr::UserStreamData::Samples(cr::DenseArray(values))});
    { const auto other = std::move(chunk); }
    return chunk;
  });
  ReadUser([&] {
    cr::DenseArray array(values);
    const auto other = std::move(array);
    array = other;
    return cr::UserChunk({cr::UserStreamData::Samples(array)});
  });
}

TEST_F(MovedTest, ErrorsAreCopied) {
  cr::Error error = ErrorOf([&] { cr::Reader::FromFile(Path("nothing")); });
  const cr::Error other = std::move(error);
  EXPECT_EQ(error.File(), other.File());
  EXPECT_STREQ(error.what(), other.what());
  EXPECT_EQ(error.Kind(), cr::ErrorKind::kIo);
  static_assert(std::is_nothrow_move_constructible_v<cr::Error> &&
                std::is_nothrow_copy_assignable_v<cr::Error>);
}

}  // namespace
