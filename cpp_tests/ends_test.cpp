// The ways in which a program with a reader ends, each with every kind of reader: the exit code is
// the program's own, and nothing hangs. Built with sanitizers, a fault or a leak on the way out
// changes the exit code.

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "data.hpp"

namespace {

// A way, and the status of the process as `wait` gives it.
struct Way {
  const char* name;
  int status;
};

constexpr int Exit(int code) { return code << 8; }

constexpr Way kWays[] = {
    {"return", Exit(0)},
    {"static objects", Exit(0)},
    {"return beside a reading thread", Exit(0)},
    {"a thread ends with its minibatch", Exit(0)},
    {"exit", Exit(3)},
    {"exit in another thread", Exit(4)},
    {"quick_exit", Exit(6)},
    {"abort", SIGABRT},
    {"exception", SIGABRT},
    {"exception in another thread", SIGABRT},
    {"SIGINT", SIGINT},
    {"SIGTERM", SIGTERM},
    {"SIGKILL", SIGKILL},
    {"fork, the child returns", Exit(0)},
    {"fork, the child exits", Exit(0)},
    {"fork, the child is killed", Exit(0)},
};

// The status with which a program ends.
int StatusOf(const std::vector<std::string>& command) {
  const pid_t child = fork();
  if (child == 0) {
    std::vector<char*> arguments;
    for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
    arguments.push_back(nullptr);
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

class EndsTest : public DataTest, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    DataTest::SetUp();
    std::string lines;
    for (int i = 0; i < 2000; ++i) lines += std::to_string(i) + " |x " + std::to_string(i) + " 1\n";
    const std::string text = Write("lines.ctf", lines);
    for (std::size_t place = 0; (place = lines.find("|x", place)) != std::string::npos; ++place)
      lines[place + 1] = 'z';
    Write("again.ctf", lines);
    cr::ConversionOptions small;
    small.chunk_size = 1000;
    cr::ConvertTextToBinary(text, Path("lines.cbf"), "x x dense 2\n", small);
    WriteSpeech();
    WriteImages();
  }

  void Ends(const Way& way) const {
    const int status = StatusOf({ENDS_PROGRAM, GetParam(), way.name, Path("")});
    EXPECT_EQ(status, way.status) << GetParam() << ", " << way.name;
  }

 private:
  static void Put(std::string& bytes, std::uint32_t number, int size) {
    for (int i = size - 1; i >= 0; --i) bytes += static_cast<char>(number >> (8 * i));
  }

  // 100 utterances of 10 frames with two values, in one archive.
  void WriteSpeech() const {
    std::string archive, script, labels = "#!MLF!#\n";
    const int utterances = 100, frames = 10;
    Put(archive, utterances * frames, 4);
    Put(archive, 100000, 4);
    Put(archive, 8, 2);
    Put(archive, 9, 2);
    for (int i = 0; i < utterances * frames * 2; ++i) Put(archive, 0x3f800000, 4);
    const std::string path = Write("features.mfc", archive);
    for (int i = 0; i < utterances; ++i) {
      const std::string name = "u" + std::to_string(i);
      const int first = i * frames;
      script +=
          name + "=" + path + "[" + std::to_string(first) + "," + std::to_string(first + frames - 1) + "]\n";
      labels += "\"" + name + ".lab\"\n0 1000000 s 1\n.\n";
    }
    Write("features.scp", script);
    Write("labels.mlf", labels);
  }

  // A bitmap of two pixels, 100 times.
  void WriteImages() const {
    std::string bitmap = "BM";
    const auto put = [&](std::uint32_t number) {
      for (int i = 0; i < 4; ++i) bitmap += static_cast<char>(number >> (8 * i));
    };
    for (const std::uint32_t number : {62u, 0u, 54u, 40u, 2u, 1u, 1u | 24u << 16, 0u, 8u, 0u, 0u, 0u, 0u})
      put(number);
    bitmap += std::string(8, '\1');
    std::string map;
    const std::string path = Write("image.bmp", bitmap);
    for (int i = 0; i < 100; ++i) map += path + "\t1\n";
    Write("images.map", map);
  }
};

TEST_P(EndsTest, InEveryWay) {
  for (const Way& way : kWays) Ends(way);
}

INSTANTIATE_TEST_SUITE_P(Readers, EndsTest,
                         testing::Values("text", "binary", "bundle", "speech", "images", "user", "remote"),
                         [](const auto& kind) { return std::string(kind.param); });

using EndsInCallbackTest = EndsTest;

TEST_P(EndsInCallbackTest, ByExit) { Ends({"exit in a callback", Exit(5)}); }

INSTANTIATE_TEST_SUITE_P(Readers, EndsInCallbackTest, testing::Values("images", "user", "remote"),
                         [](const auto& kind) { return std::string(kind.param); });

}  // namespace
