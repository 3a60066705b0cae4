// A program that reads data and ends in one of many ways, for ends_test.cpp: ends KIND WAY FOLDER
//
// The folder has the files that ends_test.cpp writes.

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cntk_reader.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace cr = cntk::reader;

namespace {

// Whether memory may be left when the process ends.
bool leaks = false;

// Called once by user code of the reader: a deserializer, a file, a transform.
std::function<void()> inside_callback = [] {};

void Callback() {
  static std::atomic<int> calls{0};
  if (++calls == 4) inside_callback();
}

class UserNumbers : public cr::UserDeserializer {
 public:
  std::vector<cr::UserStream> GetStreams() override { return {{"x", {2}}}; }
  std::uint32_t GetChunkCount() override { return 50; }
  cr::UserChunk GetChunk(std::uint32_t) override {
    Callback();
    return cr::UserChunk({cr::UserStreamData::Samples(cr::DenseArray<float>(values_))});
  }

 private:
  const std::vector<float> values_ = std::vector<float>(200, 1);
};

class RemoteLines : public cr::RemoteFile {
 public:
  std::uint64_t Size() const override { return lines_.size(); }
  std::size_t ReadAt(std::uint64_t offset, void* buffer, std::size_t capacity) const override {
    Callback();
    const std::size_t count = lines_.copy(static_cast<char*>(buffer), capacity, offset);
    return count;
  }
  std::string Identity() const override { return "1"; }

 private:
  static std::string Lines() {
    std::string lines;
    for (int i = 0; i < 5000; ++i) lines += "|x " + std::to_string(i) + " 1\n";
    return lines;
  }
  const std::string lines_ = Lines();
};

class RemoteSystem : public cr::FileSystem {
 public:
  std::unique_ptr<cr::RemoteFile> Open(const std::string&) const override {
    return std::make_unique<RemoteLines>();
  }
};

class Copy : public cr::Transform {
 public:
  void Apply(const cr::ConstImage& image, const cr::MutableImage& result, std::uint64_t) override {
    Callback();
    std::memcpy(result.Bytes(), image.Bytes(), image.Info().ValueCount());
  }
};

cr::CtfDeserializer Text(const std::string& file, const std::string& stream) {
  cr::CtfDeserializer text(file);
  text.Dense(stream, 2).ChunkSize(1000);
  return text;
}

cr::Reader Open(const std::string& kind, const std::string& folder) {
  const std::string lines = folder + "/lines.ctf";
  if (kind == "text") return cr::Reader::Open(Text(lines, "x"));
  if (kind == "binary") return cr::Reader::Open(cr::CbfDeserializer(folder + "/lines.cbf"));
  if (kind == "bundle") return cr::Reader::Open({Text(lines, "x"), Text(folder + "/again.ctf", "z")});
  if (kind == "speech")
    return cr::Reader::Open({cr::HtkFeatureDeserializer("x", folder + "/features.scp", 2),
                             cr::HtkMlfDeserializer("y", folder + "/labels.mlf", 2)});
  if (kind == "images")
    return cr::Reader::Open(cr::ImageDeserializer(folder + "/images.map", "x", "y", 2)
                                .AddTransform("Copy", std::make_shared<Copy>()));
  if (kind == "user")
    return cr::Reader::FromText("deserializers = ([ type = \"Numbers\" ; input = [ x = [] ] ])",
                                {{"Numbers", std::make_shared<UserNumbers>()}});
  if (kind == "remote") {
    cr::MountFileSystem("ends", std::make_shared<RemoteSystem>());
    return cr::Reader::Open(Text("ends://lines", "x"));
  }
  throw std::invalid_argument("unknown kind of reader: " + kind);
}

// Reads minibatches of epochs until the process is gone.
[[noreturn]] void ReadForever(cr::Reader& reader) {
  cr::EpochConfiguration epoch;
  epoch.minibatch_size = 7;
  epoch.sweeps = 1;
  try {
    for (;; ++epoch.index) {
      reader.StartEpoch(epoch);
      for (const cr::Minibatch& minibatch : reader.Minibatches())
        if (minibatch[0].Samples() == 0) std::abort();
    }
  } catch (const cr::Error& error) {
    // Users' code is not called any more when the process ends, so reading by it fails.
    if (error.Kind() != cr::ErrorKind::kState) throw;
  }
  for (;;) pause();
}

void ReadSome(cr::Reader& reader, cr::Minibatch& last) {
  cr::EpochConfiguration epoch;
  epoch.minibatch_size = 7;
  epoch.sweeps = 100;
  reader.StartEpoch(epoch);
  for (int i = 0; i < 5; ++i) last = reader.GetMinibatch();
}

void AfterAWhile(const std::function<void()>& work) {
  std::thread([work] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    work();
  }).detach();
}

// Forks. The child ends by `end`. The parent reads on, and exits with 1 unless the child ended with
// `status`.
void Fork(cr::Reader& reader, int status, const std::function<void()>& end) {
  // AddressSanitizer's locks stay locked in the child if another thread allocates during the fork.
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    // Only the parent's threads, which the child does not have, lead to their memory.
    leaks = true;
    end();
    return;
  }
  int ended = 0;
  waitpid(child, &ended, 0);
  if (ended != status) {
    std::fprintf(stderr, "the child ended with status %d\n", ended);
    std::exit(1);
  }
  if (!reader.GetMinibatch()) std::exit(1);
}

// Static objects are destroyed after `main`, in the reverse order of their construction.
cr::Minibatch kept_minibatch;
std::unique_ptr<cr::Reader> kept_reader;

}  // namespace

// Asked by LeakSanitizer when the process ends.
extern "C" int __lsan_is_turned_off();
extern "C" int __lsan_is_turned_off() { return leaks ? 1 : 0; }

int main(int count, char** arguments) {
  if (count != 4) return 2;
  const std::string kind = arguments[1], way = arguments[2], folder = arguments[3];
  alarm(60);

  if (way == "static objects") {
    kept_reader = std::make_unique<cr::Reader>(Open(kind, folder));
    ReadSome(*kept_reader, kept_minibatch);
    // Memory of users' code, which would have to free it, stays once the process ends.
    leaks = kind == "user" || kind == "remote";
    return 0;
  }
  if (way == "return beside a reading thread") {
    // Never destroyed: the thread uses it until the process is gone.
    static cr::Reader* const reader = new cr::Reader(Open(kind, folder));
    std::thread([] { ReadForever(*reader); }).detach();
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    return 0;
  }

  cr::Reader reader = Open(kind, folder);
  cr::Minibatch last;
  const std::map<std::string, std::function<void()>> while_reading = {
      {"exit in another thread", [] { std::exit(4); }},
      {"exception in another thread", [] { throw std::runtime_error("no handler"); }},
      {"SIGINT", [] { raise(SIGINT); }},
      {"SIGTERM", [] { raise(SIGTERM); }},
      {"SIGKILL", [] { raise(SIGKILL); }},
  };
  if (const auto work = while_reading.find(way); work != while_reading.end()) {
    AfterAWhile(work->second);
    ReadForever(reader);
  }
  if (way == "exit in a callback") {
    inside_callback = [] { std::exit(5); };
    ReadForever(reader);
  }

  ReadSome(reader, last);
  if (way == "return") return 0;
  if (way == "exit") std::exit(3);
  if (way == "quick_exit") std::quick_exit(6);
  if (way == "abort") std::abort();
  if (way == "exception") throw std::runtime_error("no handler");
  if (way == "fork, the child returns") {
    Fork(reader, 0, [] {});
    return 0;
  }
  if (way == "fork, the child exits") {
    Fork(reader, 9 << 8, [] { std::exit(9); });
    return 0;
  }
  if (way == "fork, the child is killed") {
    Fork(reader, SIGKILL, [] { raise(SIGKILL); });
    return 0;
  }
  if (way == "a thread ends with its minibatch") {
    std::thread([&] { kept_minibatch = reader.GetMinibatch(); }).join();
    std::thread([minibatch = std::move(last)] {}).join();
    return 0;
  }
  return 2;
}
