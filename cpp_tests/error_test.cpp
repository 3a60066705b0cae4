// Errors: kinds, exception classes, locations.

#include "data.hpp"

namespace {

using ErrorTest = DataTest;

TEST_F(ErrorTest, InvalidConfiguration) {
  const cr::Error error = ErrorOf([] { cr::Reader::FromText("deserializers = ( ["); });
  EXPECT_EQ(error.Kind(), cr::ErrorKind::kConfig);
  EXPECT_FALSE(error.Message().empty());
}

TEST_F(ErrorTest, ConfigurationErrorsHaveALocation) {
  const auto open = [] { cr::Reader::FromText("randomize = true\ndeserializers = ( [ type = x"); };
  const cr::Error error = ErrorOf(open);
  EXPECT_EQ(error.File(), std::nullopt);
  EXPECT_EQ(error.Line(), 2u);
  EXPECT_EQ(error.Column(), 19u);
  EXPECT_NE(std::string(error.what()).find("^"), std::string::npos);
}

TEST_F(ErrorTest, MissingFile) {
  const std::string path = Path("nothing.cntk");
  const cr::Error error = ErrorOf([&] { cr::Reader::FromFile(path); });
  EXPECT_EQ(error.Kind(), cr::ErrorKind::kIo);
  EXPECT_EQ(error.Class(), cr::ExceptionClass::kRuntimeError);
  EXPECT_EQ(error.File(), path);
  EXPECT_NE(std::string(error.what()).find(path), std::string::npos);
}

TEST_F(ErrorTest, InvalidUtf8) {
  EXPECT_EQ(ErrorOf([] { cr::Reader::FromText("\xff"); }).Kind(), cr::ErrorKind::kInvalidArgument);
}

TEST_F(ErrorTest, DataErrorsHaveALocation) {
  cr::Reader reader = Open("|x 1 2 |y 1:1\n|x 3 oops |y 1:1\n|x 5 6 |y 1:1\n");
  reader.StartEpoch(Sweep(1));
  const cr::Error error = ErrorOf([&] { Rest(reader); });
  EXPECT_EQ(error.Kind(), cr::ErrorKind::kData);
  EXPECT_EQ(error.Class(), cr::ExceptionClass::kRuntimeError);
  EXPECT_EQ(error.File(), Path("data.ctf"));
  EXPECT_TRUE(error.Offset() || error.Line());
  EXPECT_NE(std::string(error.what()), error.Message());
}

TEST_F(ErrorTest, CallsBeforeAnEpoch) {
  cr::Reader reader = Open(Lines(1));
  EXPECT_EQ(ErrorOf([&] { reader.GetMinibatch(); }).Kind(), cr::ErrorKind::kState);
}

TEST_F(ErrorTest, InvalidArguments) {
  cr::Reader reader = Open(Lines(1));
  cr::EpochConfiguration epoch = Sweep(0);
  EXPECT_EQ(ErrorOf([&] { reader.StartEpoch(epoch); }).Kind(), cr::ErrorKind::kInvalidArgument);
  epoch.minibatch_size = 1;
  epoch.rank = 1;
  EXPECT_EQ(ErrorOf([&] { reader.StartEpoch(epoch); }).Kind(), cr::ErrorKind::kInvalidArgument);
  epoch.workers = 0;
  EXPECT_EQ(ErrorOf([&] { reader.StartEpoch(epoch); }).Kind(), cr::ErrorKind::kInvalidArgument);
}

TEST_F(ErrorTest, CopiesAreEqual) {
  const cr::Error error = ErrorOf([&] { cr::Reader::FromFile(Path("nothing")); });
  const cr::Error copy = error;
  EXPECT_EQ(copy.File(), error.File());
  EXPECT_STREQ(copy.what(), error.what());
  const std::runtime_error& base = copy;
  EXPECT_STREQ(base.what(), error.what());
}

}  // namespace
