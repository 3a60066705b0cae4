// Callbacks that end threads of the library: calls fail with an error, nothing waits for such a
// thread, and the process exits cleanly. Each case runs in its own process.

#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cntk_reader.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#define HAS_ADDRESS_SANITIZER
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_ADDRESS_SANITIZER
#endif
#endif

namespace cr = cntk::reader;

namespace {

// How a callback ends its thread.
enum class How { kExit, kCancel, kAllowedCancel };

// The callback that ends its thread.
enum class Place { kGetChunk, kFetchSequence, kApply, kReadAt, kLog };

// Ends the calling thread, unless that is the program's own.
struct Ending {
  Place place;
  How how;
  std::thread::id own = std::this_thread::get_id();

  void Pass(Place here) const {
    if (here != place || std::this_thread::get_id() == own) return;
    if (how == How::kExit) pthread_exit(nullptr);
    if (how == How::kAllowedCancel) pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, nullptr);
    pthread_cancel(pthread_self());
    usleep(1000);  // A cancellation point.
  }
};

std::string Lines() {
  std::string lines;
  for (int i = 0; i < 1000; ++i) lines += "|x " + std::to_string(i) + "\n";
  return lines;
}

class File : public cr::RemoteFile {
 public:
  explicit File(const Ending& ending) : ending_(ending) {}
  std::uint64_t Size() const override { return lines_.size(); }
  std::size_t ReadAt(std::uint64_t offset, void* buffer, std::size_t capacity) const override {
    ending_.Pass(Place::kReadAt);
    const std::size_t count = std::min<std::size_t>(capacity, lines_.size() - offset);
    std::memcpy(buffer, lines_.data() + offset, count);
    return count;
  }
  std::string Identity() const override { return "1"; }

 private:
  const Ending& ending_;
  const std::string lines_ = Lines();
};

class System : public cr::FileSystem {
 public:
  explicit System(const Ending& ending) : ending_(ending) {}
  std::unique_ptr<cr::RemoteFile> Open(const std::string&) const override {
    return std::make_unique<File>(ending_);
  }

 private:
  const Ending& ending_;
};

class Fetched : public cr::FetchedChunk {
 public:
  explicit Fetched(const Ending& ending) : ending_(ending) {}
  std::optional<cr::UserSequences> GetSequences() override {
    cr::UserSequences sequences;
    sequences.count = 100;
    return sequences;
  }
  void FetchSequence(std::uint32_t, cr::UserSequence& sequence) override {
    usleep(100);  // Slow enough to be shared with other threads.
    ending_.Pass(Place::kFetchSequence);
    sequence.Dense<float>(0).push_back(1);
  }

 private:
  const Ending& ending_;
};

class Source : public cr::UserDeserializer {
 public:
  explicit Source(const Ending& ending) : ending_(ending) {}
  std::vector<cr::UserStream> GetStreams() override { return {{"x", {1, 1, 1}}}; }
  std::uint32_t GetChunkCount() override { return 10; }
  bool FetchesSequences() const override { return ending_.place == Place::kFetchSequence; }
  cr::UserChunk GetChunk(std::uint32_t chunk) override {
    if (chunk > 0) ending_.Pass(Place::kGetChunk);
    if (FetchesSequences()) return cr::UserChunk::Fetched(std::make_unique<Fetched>(ending_));
    return cr::UserChunk({cr::UserStreamData::Samples(cr::DenseArray<float>(values_))});
  }

 private:
  const Ending& ending_;
  const std::vector<float> values_ = std::vector<float>(100, 1);
};

class Same : public cr::Transform {
 public:
  explicit Same(const Ending& ending) : ending_(ending) {}
  void Apply(const cr::ConstImage& image, const cr::MutableImage& result, std::uint64_t) override {
    ending_.Pass(Place::kApply);
    *result.Floats() = *image.Floats();
  }
  bool IsThreadSafe() const override { return true; }

 private:
  const Ending& ending_;
};

// Reads a sweep and returns the number of its samples.
std::size_t Samples(cr::Reader reader) {
  cr::EpochConfiguration epoch;
  epoch.minibatch_size = 64;
  epoch.sweeps = 1;
  reader.StartEpoch(epoch);
  std::size_t samples = 0;
  for (const cr::Minibatch& minibatch : reader.Minibatches()) samples += minibatch[0].Samples();
  return samples;
}

std::size_t OfUser(const Ending& ending) {
  const std::string parallel = ending.how == How::kCancel ? "true" : "false";
  return Samples(cr::Reader::FromText(
      "randomize = false\nmultiThreadedDeserialization = " + parallel +
          "\ndeserializers = ([ type = \"Mine\" ; input = [ x = [ transforms = "
          "([ type = \"Same\" ]) ] ] ])",
      {{"Mine", std::make_shared<Source>(ending)}}, {{"Same", std::make_shared<Same>(ending)}}));
}

std::size_t OfFile(const std::string& options) {
  return Samples(cr::Reader::FromText(
      "randomize = false\ndeserializers = ([ type = \"CNTKTextFormatDeserializer\" ; module = "
      "\"CNTKTextFormatReader\"\nfile = \"thread-end-test://x\" ; chunkSizeInBytes = 500 ; input = [ x = [ "
      "dim = 1 ; "
      "format = \"dense\" ] ]\n" +
      options + " ])"));
}

// A program that reads while its callback ends a thread, and then returns from `main`.
[[noreturn]] void Program(Place place, How how) {
  alarm(20);
  static Ending ending{place, how};
  cr::MountFileSystem("thread-end-test", std::make_shared<System>(ending));
  if (place == Place::kLog)
    cr::SetLogCallback([](cr::LogLevel, std::string_view) { ending.Pass(Place::kLog); });
  const bool is_of_file = place == Place::kReadAt || place == Place::kLog;
  // Opens the second reader in a process without the thread.
  for (int i = 0; i < 2; ++i) {
    try {
      const std::size_t samples =
          is_of_file ? OfFile(place == Place::kLog ? "traceLevel = 2" : "") : OfUser(ending);
      std::fprintf(stderr, "read %zu samples\n", samples);
    } catch (const cr::Error& error) {
      std::fprintf(stderr, "error: %s\n", error.what());
    }
  }
  std::exit(0);
}

class ThreadEnd : public testing::TestWithParam<std::pair<Place, How>> {
 protected:
  void SetUp() override {
    testing::GTEST_FLAG(death_test_style) = "threadsafe";
    // Programs with parked threads leak memory. Read at program start.
    setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
  }
};

TEST_P(ThreadEnd, IsAnErrorAndTheProgramEnds) {
  const auto [place, how] = GetParam();
#ifdef HAS_ADDRESS_SANITIZER
  // Both report the C library's unwinding, which has no exception object.
  if (how != How::kCancel) GTEST_SKIP() << "thread_end_test runs it without sanitizers.";
#endif
  // Threads of the library are not cancelled unless a callback allows it.
  const char* const said = how == How::kCancel ? "read 1000 samples.*read 1000 samples"
                                               : "error: .*ended inside a callback.*error: ";
  EXPECT_EXIT(Program(place, how), testing::ExitedWithCode(0), said);
}

// Threads that end in file systems, logs and parallel fetching are not covered: calls wait for
// those, as the header says.
INSTANTIATE_TEST_SUITE_P(
    Callbacks, ThreadEnd,
    testing::Values(std::pair(Place::kGetChunk, How::kExit), std::pair(Place::kGetChunk, How::kCancel),
                    std::pair(Place::kGetChunk, How::kAllowedCancel), std::pair(Place::kApply, How::kExit),
                    std::pair(Place::kApply, How::kCancel), std::pair(Place::kFetchSequence, How::kCancel),
                    std::pair(Place::kReadAt, How::kCancel), std::pair(Place::kLog, How::kCancel)));

}  // namespace
