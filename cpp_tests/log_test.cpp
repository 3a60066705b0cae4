// The log callback.

#include <memory>
#include <mutex>

#include "data.hpp"

namespace {

using LogTest = DataTest;

constexpr char kBadLine[] = "|x 1 2 |y 0:1\n|x oops |y 0:1\n|x 3 4 |y 0:1\n";

// Reads data with a bad line that is tolerated, which is told in the log.
void ReadBadLine(const std::string& configuration) {
  cr::Reader reader = cr::Reader::FromText(configuration);
  cr::EpochConfiguration epoch;
  epoch.minibatch_size = 10;
  epoch.sweeps = 1;
  reader.StartEpoch(epoch);
  reader.GetMinibatch();
}

std::string Tolerant(std::string configuration) {
  const std::string place = "file = ";
  return configuration.insert(configuration.find(place), "maxErrors = 5 ; traceLevel = 2\n");
}

TEST_F(LogTest, LinesReachTheCallback) {
  std::mutex mutex;
  std::vector<std::string> lines;
  cr::SetLogCallback([&](cr::LogLevel, std::string_view line) {
    const std::lock_guard<std::mutex> lock(mutex);
    lines.emplace_back(line);
  });
  ReadBadLine(Tolerant(Configuration(kBadLine)));
  cr::SetLogCallback({});
  EXPECT_FALSE(lines.empty());
  for (const std::string& line : lines) EXPECT_EQ(line.find('\n'), std::string::npos) << line;
}

TEST_F(LogTest, ExceptionsOfTheCallbackAreDropped) {
  cr::SetLogCallback([](cr::LogLevel, std::string_view) { throw 1; });
  EXPECT_NO_THROW(ReadBadLine(Tolerant(Configuration(kBadLine))));
}

TEST_F(LogTest, UserdataIsGivenUpWhenItIsReplaced) {
  const auto token = std::make_shared<int>(1);
  cr::SetLogCallback([token](cr::LogLevel, std::string_view) {});
  EXPECT_EQ(token.use_count(), 2);
  cr::SetLogCallback([](cr::LogLevel, std::string_view) {});
  EXPECT_EQ(token.use_count(), 1);
}

}  // namespace
