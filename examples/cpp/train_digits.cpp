// train_digits: learns to tell handwritten digits apart, and can be stopped and resumed at any minibatch.
//
//   train_digits [--data DIR] [--epochs N] [--checkpoint FILE [--checkpoint-every N]] [--resume]
//   [--stop-after N]
//
// DIR holds digits.train.ctf and digits.test.ctf. With --checkpoint, everything that the training needs to go
// on is saved after each epoch, and after every N minibatches if asked for: weights, optimizer, and the
// reader's position.
// --resume goes on from there (`--resume FILE` names the file as well). --stop-after ends the program after
// so many minibatches as a crash would: without saving anything. The weights at the end are the same to the
// last bit, however often the training was stopped; the hash of them, printed at the end, shows it.

#include <unistd.h>

#include <cntk_reader.hpp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "archive.hpp"
#include "softmax.hpp"

namespace {

namespace cr = cntk::reader;

constexpr std::size_t kPixels = 64;
constexpr std::size_t kDigits = 10;
constexpr std::uint64_t kMinibatch = 32;
constexpr double kLearningRate = 0.05;

struct Options {
  std::string data = "examples/data";
  std::string checkpoint;
  std::uint64_t epochs = 20;
  std::uint64_t checkpoint_every = 0;  // Minibatches; 0: after each epoch only.
  std::uint64_t stop_after = 0;        // Minibatches; 0: never.
  bool resume = false;
};

// Where the training stands, beside weights and reader.
struct Progress {
  std::uint64_t epoch = 0;
  std::uint64_t minibatches = 0;  // Of all epochs.
  Softmax::Score score;           // Of the epoch so far.
};

[[noreturn]] void Usage() {
  std::fprintf(stderr,
               "usage: train_digits [--data DIR] [--epochs N] [--checkpoint FILE [--checkpoint-every N]]\n"
               "                    [--resume [FILE]] [--stop-after N]\n");
  std::exit(2);
}

Options Parse(int argc, char** argv) {
  Options options;
  int i = 1;
  const auto value = [&] { return i + 1 < argc ? std::string(argv[++i]) : (Usage(), std::string()); };
  const auto number = [&] { return std::strtoull(value().c_str(), nullptr, 10); };
  for (; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--data") {
      options.data = value();
    } else if (option == "--epochs") {
      options.epochs = number();
    } else if (option == "--checkpoint") {
      options.checkpoint = value();
    } else if (option == "--checkpoint-every") {
      options.checkpoint_every = number();
    } else if (option == "--stop-after") {
      options.stop_after = number();
    } else if (option == "--resume") {
      options.resume = true;
      if (i + 1 < argc && argv[i + 1][0] != '-') options.checkpoint = value();
    } else if (option[0] != '-') {
      options.data = option;
    } else {
      Usage();
    }
  }
  if (options.resume && options.checkpoint.empty()) Usage();
  return options;
}

cr::Reader OpenReader(const std::string& file, bool randomize) {
  return cr::Reader::FromText("randomize = " + std::string(randomize ? "true" : "false") + R"(
    deserializers = ( [
      type = "CNTKTextFormatDeserializer" ; module = "CNTKTextFormatReader" ; file = ")" +
                              file + R"("
      input = [
        features = [ dim = 64 ; format = "dense" ]
        labels = [ dim = 10 ; format = "sparse" ]
      ]
    ] ))");
}

// One pass over the data, in the order that belongs to the epoch.
void StartSweep(cr::Reader& reader, std::uint64_t epoch) {
  cr::EpochConfiguration configuration;
  configuration.minibatch_size = kMinibatch;
  configuration.samples = cr::kOneSweep;
  configuration.index = epoch;
  reader.StartEpoch(configuration);
}

class Training {
 public:
  explicit Training(const Options& options)
      : options_(options),
        train_(OpenReader(options.data + "/digits.train.ctf", true)),
        held_out_(OpenReader(options.data + "/digits.test.ctf", false)),
        model_(kPixels, kDigits) {}

  void Run() {
    if (options_.resume)
      Load();
    else
      StartSweep(train_, 0);
    while (progress_.epoch < options_.epochs) {
      if (!FinishEpoch()) return;
      Report();
      ++progress_.epoch;
      progress_.score = {};
      StartSweep(train_, progress_.epoch);
    }
    const auto& weights = model_.Parameters();
    std::printf("weights hash %016llx\n",
                static_cast<unsigned long long>(Hash(weights.data(), weights.size() * sizeof weights[0])));
  }

 private:
  // Learns from the rest of the epoch. False if the training shall stop.
  bool FinishEpoch() {
    for (const cr::Minibatch& minibatch : train_.Minibatches()) {
      const Softmax::Score score = model_.Process(minibatch, kLearningRate);
      progress_.score.loss += score.loss;
      progress_.score.correct += score.correct;
      progress_.score.samples += score.samples;
      ++progress_.minibatches;
      ShowProgress();
      if (options_.checkpoint_every != 0 && progress_.minibatches % options_.checkpoint_every == 0) Save();
      if (++in_this_run_ == options_.stop_after) {
        std::printf("stopped after %llu minibatches\n", static_cast<unsigned long long>(in_this_run_));
        return false;
      }
    }
    Save();
    return true;
  }

  // A line that is written over and over, if somebody is watching.
  void ShowProgress() const {
    if (isatty(STDERR_FILENO))
      std::fprintf(stderr, "\repoch %2llu  %5.0f samples",
                   static_cast<unsigned long long>(progress_.epoch + 1), progress_.score.samples);
  }

  void Report() {
    Softmax::Score test;
    StartSweep(held_out_, 0);
    for (const cr::Minibatch& minibatch : held_out_.Minibatches()) {
      const Softmax::Score score = model_.Process(minibatch, 0);
      test.correct += score.correct;
      test.samples += score.samples;
    }
    if (isatty(STDERR_FILENO)) std::fprintf(stderr, "\r");
    const Softmax::Score& train = progress_.score;
    std::printf("epoch %2llu  loss %.4f  accuracy %5.2f %%  held out %5.2f %%\n",
                static_cast<unsigned long long>(progress_.epoch + 1), train.loss / train.samples,
                100 * train.correct / train.samples, 100 * test.correct / test.samples);
  }

  void Save() {
    if (options_.checkpoint.empty()) return;
    const cr::Checkpoint position = train_.SaveCheckpoint();
    ArchiveWriter archive;
    archive.Put(&progress_, 1);
    archive.Put(model_.Parameters().data(), model_.Parameters().size());
    archive.Put(model_.Velocity().data(), model_.Velocity().size());
    archive.Put(position.data(), position.size());
    archive.Save(options_.checkpoint);
  }

  // The reader is back in the epoch of the checkpoint. If that was at its end, there is just nothing left to
  // read.
  void Load() {
    ArchiveReader archive(options_.checkpoint);
    archive.Get(&progress_, 1);
    archive.Get(model_.Parameters().data(), model_.Parameters().size());
    archive.Get(model_.Velocity().data(), model_.Velocity().size());
    const std::string_view position = archive.GetBytes();
    train_.RestoreCheckpoint(position.data(), position.size());
    std::printf("resumed behind minibatch %llu\n", static_cast<unsigned long long>(progress_.minibatches));
  }

  const Options options_;
  cr::Reader train_, held_out_;
  Softmax model_;
  Progress progress_;
  std::uint64_t in_this_run_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  try {
    Training(Parse(argc, argv)).Run();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train_digits: %s\n", error.what());
    return 1;
  }
}
