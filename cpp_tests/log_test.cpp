// The log callback.

#include <memory>
#include <mutex>

#include "data.hpp"

namespace {

using LogTest = DataTest;

// Data with an invalid line, which is tolerated and logged.
constexpr char kBadLine[] = "|x 1 2 |y 0:1\njunk |x 3 4 |y 1:1\n|x 5 6 |y 0:1\n";
constexpr char kTolerant[] = "maxErrors = 5 ; traceLevel = 2";

TEST_F(LogTest, LinesReachTheCallback) {
  std::mutex mutex;
  std::vector<std::string> lines;
  cr::SetLogCallback([&](cr::LogLevel, std::string_view line) {
    const std::lock_guard<std::mutex> lock(mutex);
    lines.emplace_back(line);
  });
  cr::Reader reader = Open(kBadLine, "", kTolerant);
  reader.StartEpoch(Sweep(10));
  Rest(reader);
  cr::SetLogCallback({});
  EXPECT_FALSE(lines.empty());
  for (const std::string& line : lines) EXPECT_EQ(line.find('\n'), std::string::npos) << line;
}

TEST_F(LogTest, ExceptionsOfTheCallbackAreDropped) {
  cr::SetLogCallback([](cr::LogLevel, std::string_view) { throw 1; });
  cr::Reader reader = Open(kBadLine, "", kTolerant);
  reader.StartEpoch(Sweep(10));
  EXPECT_NO_THROW(Rest(reader));
}

TEST_F(LogTest, ReplacedCallbackIsReleased) {
  const auto token = std::make_shared<int>(1);
  cr::SetLogCallback([token](cr::LogLevel, std::string_view) {});
  EXPECT_EQ(token.use_count(), 2);
  cr::SetLogCallback([](cr::LogLevel, std::string_view) {});
  EXPECT_EQ(token.use_count(), 1);
}

}  // namespace
