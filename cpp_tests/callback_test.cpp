// Exceptions in callbacks become errors of the call that needed the callback, and never leave it.

#include <gtest/gtest.h>

#include <algorithm>
#include <cntk_reader.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace cr = cntk::reader;

namespace {

// The exception: a user's std::exception, or a value of another type.
enum class Thrown { kException, kNumber };

// The callbacks that throw, one per case.
enum class Where {
  kNowhere,
  kOpen,
  kSize,
  kReadAt,
  kIdentity,
  kGetSequences,
  kGetChunk,
  kFetchSequence,
  kFindSequence,
  kGetResult,
  kApply,
};

struct Mine : std::exception {
  const char* what() const noexcept override { return "an exception of mine"; }
};

struct Trap {
  Where where = Where::kNowhere;
  Thrown thrown = Thrown::kException;

  void Pass(Where here) const {
    if (here != where) return;
    if (thrown == Thrown::kNumber) throw 42;
    throw Mine();
  }
};

constexpr char kLines[] = "|x 1\n|x 2\n|x 3\n";

class File : public cr::RemoteFile {
 public:
  explicit File(const Trap& trap) : trap_(trap) {}
  std::uint64_t Size() const override {
    trap_.Pass(Where::kSize);
    return sizeof kLines - 1;
  }
  std::size_t ReadAt(std::uint64_t offset, void* buffer, std::size_t capacity) const override {
    trap_.Pass(Where::kReadAt);
    const std::size_t count = std::min<std::size_t>(capacity, sizeof kLines - 1 - offset);
    std::memcpy(buffer, kLines + offset, count);
    return count;
  }
  std::string Identity() const override {
    trap_.Pass(Where::kIdentity);
    return "1";
  }

 private:
  const Trap& trap_;
};

class System : public cr::FileSystem {
 public:
  explicit System(const Trap& trap) : trap_(trap) {}
  std::unique_ptr<cr::RemoteFile> Open(const std::string&) const override {
    trap_.Pass(Where::kOpen);
    return std::make_unique<File>(trap_);
  }

 private:
  const Trap& trap_;
};

// One sequence of one value, fetched or in an array, and matched by a callback.
class Source : public cr::UserDeserializer, public cr::SequenceMatcher {
 public:
  Source(const Trap& trap, std::string stream, bool fetches, bool matches)
      : trap_(trap), stream_(std::move(stream)), fetches_(fetches), matches_(matches) {}

  std::vector<cr::UserStream> GetStreams() override { return {{stream_, {1, 1, 1}}}; }
  std::uint32_t GetChunkCount() override { return 2; }
  std::optional<cr::UserSequences> GetSequences(std::uint32_t chunk) override {
    // The list of the first chunk is requested before there is a reader.
    if (chunk > 0) trap_.Pass(Where::kGetSequences);
    cr::UserSequences sequences;
    sequences.count = 1;
    sequences.lengths = {1};
    return sequences;
  }
  cr::UserChunk GetChunk(std::uint32_t) override {
    trap_.Pass(Where::kGetChunk);
    if (fetches_) return cr::UserChunk::Fetched(std::make_unique<Fetched>(trap_));
    const std::vector<float> values = {1};
    return cr::UserChunk({cr::UserStreamData::Sequences(cr::DenseArray<float>(values), {1})});
  }
  bool FetchesSequences() const override { return fetches_; }
  cr::SequenceMatcher* GetMatcher() override { return matches_ ? this : nullptr; }
  std::optional<cr::SequencePlace> FindSequence(const cr::SequenceInfo& of) override {
    trap_.Pass(Where::kFindSequence);
    return cr::SequencePlace{of.chunk, of.index, of.samples};
  }

 private:
  class Fetched : public cr::FetchedChunk {
   public:
    explicit Fetched(const Trap& trap) : trap_(trap) {}
    void FetchSequence(std::uint32_t, cr::UserSequence& sequence) override {
      trap_.Pass(Where::kFetchSequence);
      sequence.Dense<float>(0).push_back(1);
    }

   private:
    const Trap& trap_;
  };

  const Trap& trap_;
  std::string stream_;
  bool fetches_, matches_;
};

class Same : public cr::Transform {
 public:
  explicit Same(const Trap& trap) : trap_(trap) {}
  cr::ImageInfo GetResult(const cr::ImageInfo& image) override {
    trap_.Pass(Where::kGetResult);
    return image;
  }
  void Apply(const cr::ConstImage& image, const cr::MutableImage& result, std::uint64_t) override {
    trap_.Pass(Where::kApply);
    *result.Floats() = *image.Floats();
  }

 private:
  const Trap& trap_;
};

// Opens a reader and reads a sweep; returns the number of samples of the first stream.
std::size_t Samples(cr::Reader reader) {
  cr::EpochConfiguration epoch;
  epoch.minibatch_size = 1;
  epoch.sweeps = 1;
  reader.StartEpoch(epoch);
  std::size_t samples = 0;
  for (const cr::Minibatch& minibatch : reader.Minibatches()) samples += minibatch[0].Samples();
  return samples;
}

std::size_t OfFile() {
  return Samples(cr::Reader::FromText(
      "traceLevel = 0\ndeserializers = [[ type = \"CNTKTextFormatDeserializer\" ; module = "
      "\"CNTKTextFormatReader\"\n"
      "file = \"callback-test://x\" ; input = [ x = [ dim = 1 ; format = \"dense\" ] ] ]]"));
}

std::size_t OfUser(const Trap& trap, bool fetches, bool matches) {
  return Samples(
      cr::Reader::FromText("traceLevel = 0\nrandomize = false\ndeserializers = ([ type = \"First\" ; input = "
                           "[ a = [ transforms = ([ type = \"Same\" ]) ] ] ]:"
                           "[ type = \"Second\" ])",
                           {{"First", std::make_shared<Source>(trap, "a", fetches, false)},
                            {"Second", std::make_shared<Source>(trap, "b", false, matches)}},
                           {{"Same", std::make_shared<Same>(trap)}}));
}

template <typename Read>
void Check(Trap& trap, Where where, const char* who, const Read& read) {
  for (const Thrown thrown : {Thrown::kException, Thrown::kNumber}) {
    trap = {where, thrown};
    const std::string expected = thrown == Thrown::kException
                                     ? std::string("an exception of mine")
                                     : std::string(who) + " threw an exception that is not a std::exception.";
    try {
      read();
      ADD_FAILURE() << "no error in callback " << static_cast<int>(where);
    } catch (const cr::Error& error) {
      EXPECT_NE(std::string(error.what()).find(expected.substr(0, expected.size() - 1)), std::string::npos)
          << error.what();
    }
  }
  trap = Trap();
}

TEST(Callbacks, OfFileSystemsMayThrow) {
  Trap trap;
  cr::MountFileSystem("callback-test", std::make_shared<System>(trap));
  EXPECT_EQ(OfFile(), 3u);
  for (const Where where : {Where::kOpen, Where::kSize, Where::kReadAt, Where::kIdentity})
    Check(trap, where, "The file system", OfFile);
  EXPECT_EQ(OfFile(), 3u);
  cr::MountFileSystem("callback-test", nullptr);
}

TEST(Callbacks, OfDeserializersAndTransformsMayThrow) {
  Trap trap;
  const auto arrays = [&] { return OfUser(trap, false, false); };
  const auto fetched = [&] { return OfUser(trap, true, false); };
  const auto matched = [&] { return OfUser(trap, false, true); };
  for (const auto& read : std::vector<std::function<std::size_t()>>{arrays, fetched, matched})
    EXPECT_EQ(read(), 2u);
  for (const Where where : {Where::kGetSequences, Where::kGetChunk}) {
    Check(trap, where, "The deserializer", arrays);
    Check(trap, where, "The deserializer", fetched);
  }
  Check(trap, Where::kFetchSequence, "The deserializer", fetched);
  Check(trap, Where::kFindSequence, "The deserializer", matched);
  for (const Where where : {Where::kGetResult, Where::kApply}) Check(trap, where, "The transform", arrays);
}

TEST(Callbacks, OfConversionsMayThrow) {
  const auto folder = std::filesystem::temp_directory_path() / "cntk-reader-callback-test";
  std::filesystem::create_directories(folder);
  const std::string input = (folder / "x.ctf").string(), output = (folder / "x.cbf").string();
  std::ofstream(input) << kLines;
  EXPECT_THROW(
      cr::ConvertTextToBinary(input, output, "x x dense 1", {},
                              [](std::uint64_t, std::uint64_t, std::uint64_t) -> bool { throw Mine(); }),
      Mine);
  EXPECT_THROW(cr::ConvertTextToBinary(input, output, "x x dense 1", {},
                                       [](std::uint64_t, std::uint64_t, std::uint64_t) -> bool { throw 42; }),
               int);
  EXPECT_FALSE(std::filesystem::exists(output));
  std::filesystem::remove_all(folder);
}

// A function that may throw does not compile as a callback.
template <typename Function, typename = void>
struct IsCallback : std::false_type {};
template <typename Function>
struct IsCallback<Function, std::void_t<decltype(cr::detail::Callback(std::declval<Function>()))>>
    : std::true_type {};
static_assert(IsCallback<void (*)(void*) noexcept>::value, "this is one");
static_assert(!IsCallback<void (*)(void*)>::value, "this may throw");

}  // namespace
