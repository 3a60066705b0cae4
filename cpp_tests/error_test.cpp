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

TEST_F(ErrorTest, InvalidSizesInC) {
  const std::string text = Configuration(Lines(1));
  cntk_reader_source source = CNTK_READER_SOURCE_INIT;
  source.text = text.c_str();
  cntk_reader* reader = nullptr;
  ASSERT_EQ(cntk_reader_open(&source, &reader, nullptr), CNTK_READER_STATUS_OK);
  const auto refused = [](auto&& call) {
    cntk_reader_error* error = nullptr;
    EXPECT_EQ(call(&error), CNTK_READER_STATUS_INVALID_ARGUMENT);
    const std::string message = error ? cntk_reader_error_get_text(error) : "";
    cntk_reader_error_free(error);
    return message;
  };
  const auto start = [&](const cntk_reader_epoch& epoch) {
    std::uint64_t index = 0;
    const auto next = [&](auto error) { return cntk_reader_epoch_start_next(reader, &epoch, &index, error); };
    const auto at = [&](auto error) { return cntk_reader_epoch_start(reader, &epoch, error); };
    const std::string message = refused(at);
    EXPECT_EQ(message, refused(next));
    return message;
  };
  const std::string wraps = " is 18446744073709551615. Expected a number below 2^63";
  cntk_reader_epoch epoch = CNTK_READER_EPOCH_INIT;
  epoch.minibatch_size = UINT64_MAX;
  EXPECT_EQ(start(epoch).find("'minibatch_size'" + wraps), 0u);
  epoch.minibatch_size = 1;
  epoch.index = UINT64_MAX;
  EXPECT_EQ(start(epoch).find("'index'" + wraps), 0u);
  epoch.index = 0;
  epoch.sweeps = 0;
  EXPECT_EQ(start(epoch).find("'sweeps' is 0. Expected at least 1"), 0u);
  epoch.sweeps = 1;
  ASSERT_EQ(cntk_reader_epoch_start(reader, &epoch, nullptr), CNTK_READER_STATUS_OK);
  cntk_reader_configuration configuration = CNTK_READER_CONFIGURATION_INIT;
  configuration.minibatch_size = UINT64_MAX;
  const auto set = [&](auto error) { return cntk_reader_configuration_set(reader, &configuration, error); };
  EXPECT_EQ(refused(set).find("'minibatch_size'" + wraps), 0u);
  cntk_reader_free(reader);
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
