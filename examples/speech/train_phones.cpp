// train_phones: learns which phone a frame of speech belongs to, and can be stopped and resumed at any
// minibatch.
//
//   train_phones [--data DIR] [--epochs N] [--checkpoint FILE [--checkpoint-every N]] [--resume]
//   [--stop-after N]
//
// DIR holds what make_speech.py writes: HTK archives with script files, labels, and the list of phones. A
// sample is a frame with five neighbours on each side, of 20 values each; frames come in random order. The
// options are those of train_digits: a training that was stopped and resumed ends with the same weights.
//
// After the last epoch the program fails unless 95 % of the frames of the test part are recognized.

#include <cntk_reader.hpp>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "archive.hpp"
#include "network.hpp"
#include "options.hpp"

namespace {

namespace cr = cntk::reader;

constexpr std::size_t kValues = 20;  // Of a frame.
constexpr std::size_t kNeighbours = 5;
constexpr std::size_t kInputs = kValues * (2 * kNeighbours + 1);
constexpr std::size_t kHidden = 48;
constexpr std::size_t kPhones = 10;
constexpr std::uint64_t kMinibatch = 64;
constexpr float kLearningRate = 0.02F;
constexpr double kAccuracy = 95;  // Percent.

// Opens a part of the corpus, `train` or `test`, frame by frame. Labels are sparse: one value for each frame.
cr::Reader OpenPart(const std::string& folder, const std::string& part, bool randomize) {
  const std::string at = folder + "/";
  const std::string context = std::to_string(kNeighbours) + ":" + std::to_string(kNeighbours);
  return cr::Reader::FromText("frameMode = true ; randomize = " + std::string(randomize ? "true" : "false") +
                              R"(
    deserializers = (
      [ type = "HTKFeatureDeserializer" ; module = "HTKDeserializers"
        input = [ features = [
          scpFile = ")" + at + part +
                              R"(.scp"
          dim = )" + std::to_string(kValues) +
                              R"(
          contextWindow = ()" +
                              context +
                              R"()
        ] ] ] :
      [ type = "HTKMLFDeserializer" ; module = "HTKDeserializers"
        input = [ labels = [
          mlfFile = ")" + at + part +
                              R"(.mlf"
          labelMappingFile = ")" +
                              at + R"(phones.list"
          labelDim = )" + std::to_string(kPhones) +
                              R"(
        ] ] ] ))");
}

// One pass over a part, in the order that belongs to the epoch.
void StartSweep(cr::Reader& reader, std::uint64_t epoch) {
  cr::EpochConfiguration configuration;
  configuration.minibatch_size = kMinibatch;
  configuration.samples = cr::kOneSweep;
  configuration.index = epoch;
  reader.StartEpoch(configuration);
}

// The progress of the training, except the weights and the reader's position.
struct Progress {
  std::uint64_t epoch = 0;
  std::uint64_t minibatches = 0;  // Of all epochs.
  Network::Score score;           // Of the epoch so far.
};

class Training {
 public:
  explicit Training(const Options& options)
      : options_(options),
        train_(OpenPart(options.data, "train", true)),
        test_(OpenPart(options.data, "test", false)),
        normalization_(kInputs),
        network_(kInputs, kHidden, kPhones) {
    StartSweep(train_, 0);
    for (const cr::Minibatch& minibatch : train_.Minibatches()) {
      const cr::StreamMinibatch features = minibatch["features"];
      for (std::size_t column = 0; column < features.Columns(); ++column)
        normalization_.Add(features.Column<float>(column));
    }
    normalization_.Finish();
  }

  // Returns whether the training was stopped, or enough frames are recognized.
  bool Run() {
    if (options_.resume)
      Load();
    else
      StartSweep(train_, 0);
    double accuracy = 0;
    while (progress_.epoch < options_.epochs) {
      if (!FinishEpoch()) return true;
      accuracy = Report();
      ++progress_.epoch;
      progress_.score = {};
      StartSweep(train_, progress_.epoch);
    }
    const auto& weights = network_.Parameters();
    std::printf("weights hash %016llx\n",
                static_cast<unsigned long long>(Hash(weights.data(), weights.size() * sizeof weights[0])));
    if (accuracy >= kAccuracy) return true;
    std::fprintf(stderr, "train_phones: %.2f %% of the test part are recognized, not %.0f %%\n", accuracy,
                 kAccuracy);
    return false;
  }

 private:
  // Learns from the rest of the epoch. Returns false if the training is to stop.
  bool FinishEpoch() {
    for (const cr::Minibatch& minibatch : train_.Minibatches()) {
      std::vector<float> gradient(network_.Parameters().size());
      const Network::Score score = network_.Process(minibatch, normalization_, gradient.data());
      network_.Step(gradient.data(), kLearningRate / static_cast<float>(score.samples));
      progress_.score.Add(score);
      ++progress_.minibatches;
      if (options_.checkpoint_every != 0 && progress_.minibatches % options_.checkpoint_every == 0) Save();
      if (++in_this_run_ == options_.stop_after) {
        std::printf("stopped after %llu minibatches\n", static_cast<unsigned long long>(in_this_run_));
        return false;
      }
    }
    Save();
    return true;
  }

  // Prints the epoch's results; returns the percentage of the test part's frames that are recognized.
  double Report() {
    Network::Score test;
    StartSweep(test_, 0);
    for (const cr::Minibatch& minibatch : test_.Minibatches())
      test.Add(network_.Process(minibatch, normalization_, nullptr));
    const Network::Score& train = progress_.score;
    const double accuracy = 100 * test.correct / test.samples;
    std::printf("epoch %2llu  loss %.4f  accuracy %5.2f %%  held out %5.2f %%\n",
                static_cast<unsigned long long>(progress_.epoch + 1), train.loss / train.samples,
                100 * train.correct / train.samples, accuracy);
    return accuracy;
  }

  void Save() {
    if (options_.checkpoint.empty()) return;
    const cr::Checkpoint position = train_.SaveCheckpoint();
    ArchiveWriter archive;
    archive.Put(&progress_, 1);
    archive.Put(network_.Parameters().data(), network_.Parameters().size());
    archive.Put(network_.Velocity().data(), network_.Velocity().size());
    archive.Put(position.data(), position.size());
    archive.Save(options_.checkpoint);
  }

  // Restoring the reader starts the epoch of the checkpoint again. If the checkpoint was made at the end of
  // the epoch, nothing is left to read.
  void Load() {
    ArchiveReader archive(options_.checkpoint);
    archive.Get(&progress_, 1);
    archive.Get(network_.Parameters().data(), network_.Parameters().size());
    archive.Get(network_.Velocity().data(), network_.Velocity().size());
    const std::string_view position = archive.GetBytes();
    train_.RestoreCheckpoint(position.data(), position.size());
    std::printf("resumed after minibatch %llu\n", static_cast<unsigned long long>(progress_.minibatches));
  }

  const Options options_;
  cr::Reader train_, test_;
  Normalization normalization_;
  Network network_;
  Progress progress_;
  std::uint64_t in_this_run_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  try {
    Options defaults;
    defaults.data = "target/speech";
    defaults.epochs = 6;
    return Training(ParseOptions(argc, argv, defaults)).Run() ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train_phones: %s\n", error.what());
    return 1;
  }
}
