// train_digits: learns to recognize handwritten digits, and can be stopped and resumed at any
// minibatch.
//
//   train_digits [--data DIR] [--epochs N] [--checkpoint FILE [--checkpoint-every N]] [--resume]
//   [--stop-after N]
//
// DIR contains digits.train.ctf and digits.test.ctf. With --checkpoint, the complete state of the
// training is saved after each epoch, and with --checkpoint-every also after every N minibatches:
// weights, optimizer, and the reader's position. --resume continues from there (`--resume FILE`
// also sets the file). --stop-after ends the program after a number of minibatches like a crash,
// without saving. The final weights are bit-identical regardless of the number of stops; the hash
// that is printed at the end shows it.

#include <unistd.h>

#include <cntk_reader.hpp>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "archive.hpp"
#include "digits.hpp"
#include "options.hpp"
#include "softmax.hpp"

namespace {

namespace cr = cntk::reader;

class Training {
 public:
  explicit Training(const Options& options)
      : options_(options),
        train_(OpenDigits(options.data + "/digits.train.ctf", "randomize = true")),
        held_out_(OpenDigits(options.data + "/digits.test.ctf", "randomize = false")),
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
  // Trains on the rest of the epoch. Returns false if the training has to stop.
  bool FinishEpoch() {
    for (const cr::Minibatch& minibatch : train_.Minibatches()) {
      std::vector<double> gradient(model_.Parameters().size());
      const Softmax::Score score = model_.Process(minibatch, gradient.data());
      model_.Step(gradient.data(), kLearningRate / score.samples);
      progress_.score.Add(score);
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

  // Prints a progress line that is overwritten in place, if the output is a terminal.
  void ShowProgress() const {
    if (isatty(STDERR_FILENO))
      std::fprintf(stderr, "\repoch %2llu  %5.0f samples",
                   static_cast<unsigned long long>(progress_.epoch + 1), progress_.score.samples);
  }

  void Report() {
    Softmax::Score test;
    StartSweep(held_out_, 0);
    for (const cr::Minibatch& minibatch : held_out_.Minibatches())
      test.Add(model_.Process(minibatch, nullptr));
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

  // Restoring the reader restarts the checkpoint's epoch. If the checkpoint was saved at the end of
  // the epoch, nothing is left to read.
  void Load() {
    ArchiveReader archive(options_.checkpoint);
    archive.Get(&progress_, 1);
    archive.Get(model_.Parameters().data(), model_.Parameters().size());
    archive.Get(model_.Velocity().data(), model_.Velocity().size());
    const std::string_view position = archive.GetBytes();
    train_.RestoreCheckpoint(position.data(), position.size());
    std::printf("resumed after minibatch %llu\n", static_cast<unsigned long long>(progress_.minibatches));
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
    Training(ParseOptions(argc, argv)).Run();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train_digits: %s\n", error.what());
    return 1;
  }
}
