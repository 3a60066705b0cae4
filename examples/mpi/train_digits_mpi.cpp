// train_digits_mpi: train_digits on several processes, each of which reads its share of every
// minibatch.
//
// mpirun -n RANKS train_digits_mpi [--data DIR] [--epochs N] [--checkpoint FILE [--checkpoint-every
// N]] [--resume [FILE]] [--stop-after N]
//
// The minibatches do not depend on the number of ranks: each has 32 samples in total. Neither do
// the weights, except for the order in which a minibatch's gradients are added up. A run may be
// resumed with another number of ranks. After each pass over the data, rank 0 checks that the ranks
// have read every sample once. An error on one rank ends all of them, with its message and exit
// status 1.

#include <algorithm>
#include <cntk_reader.hpp>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "archive.hpp"
#include "digits.hpp"
#include "options.hpp"
#include "ranks.hpp"
#include "softmax.hpp"

namespace {

namespace cr = cntk::reader;

// Ranks take whole chunks, so there should be many: 8 KiB of text are about 50 digits.
constexpr std::size_t kChunkBytes = 8 << 10;

// Without lockstep each rank would advance on its own and always fill its share of a minibatch. In
// lockstep every rank iterates over the whole minibatch and keeps its own part, so positions agree,
// and shares differ in size or are empty.
const std::string kLockstep = "lockstep = true\n";

class Training {
 public:
  Training(Ranks& ranks, const Options& options)
      : ranks_(ranks), options_(options), model_(kPixels, kDigits) {}

  void Run() {
    ranks_.Agree([&] {
      train_.emplace(
          OpenDigits(options_.data + "/digits.train.ctf", kLockstep + "randomize = true", kChunkBytes));
      // A sum that is computed once needs no lockstep.
      held_out_.emplace(OpenDigits(options_.data + "/digits.test.ctf", "randomize = false", kChunkBytes));
      if (options_.resume) Load();
    });
    if (!options_.resume) Start(*train_, 0);
    while (progress_.epoch < options_.epochs) {
      if (!FinishEpoch()) return;
      Report();
      ++progress_.epoch;
      progress_.score = {};
      Start(*train_, progress_.epoch);
    }
    Conclude();
  }

 private:
  void Start(cr::Reader& reader, std::uint64_t epoch) {
    ranks_.Agree([&] { StartSweep(reader, epoch, ranks_.Count(), ranks_.Own()); });
  }

  // Trains on the rest of the epoch. Returns false if the training has to stop.
  bool FinishEpoch() {
    while (!at_end_) {
      Learn();
      if (options_.checkpoint_every != 0 && progress_.minibatches % options_.checkpoint_every == 0) Save();
      if (++in_this_run_ == options_.stop_after) {
        if (ranks_.IsFirst()) std::printf("stopped after %llu minibatches\n", Long(in_this_run_));
        return false;
      }
    }
    Save();
    CheckSweep();
    at_end_ = false;
    return true;
  }

  // Trains on one minibatch of all ranks: every rank reads its share, the gradients are added up,
  // and all ranks make the same step.
  void Learn() {
    const std::size_t parameters = model_.Parameters().size();
    std::vector<double> sums(parameters + 3);
    ranks_.Sum(sums, [&] {
      const cr::Minibatch minibatch = train_->GetMinibatch();
      if (minibatch) {
        Put(model_.Process(minibatch, sums.data()), &sums[parameters]);
        read_.insert(read_.end(), minibatch.Keys().begin(), minibatch.Keys().end());
      }
      at_end_ = minibatch.EndOfEpoch();
    });
    const Softmax::Score score = Get(&sums[parameters]);
    // There are no samples if the checkpoint was saved at the end of the epoch.
    if (score.samples != 0) {
      model_.Step(sums.data(), kLearningRate / score.samples);
      progress_.score.Add(score);
      ++progress_.minibatches;
    }
  }

  void Report() {
    std::vector<double> sums(3);
    Start(*held_out_, 0);
    ranks_.Sum(sums, [&] {
      Softmax::Score own;
      for (const cr::Minibatch& minibatch : held_out_->Minibatches())
        own.Add(model_.Process(minibatch, nullptr));
      Put(own, sums.data());
    });
    const Softmax::Score test = Get(sums.data()), train = progress_.score;
    if (ranks_.IsFirst())
      std::printf("epoch %2llu  loss %.4f  accuracy %5.2f %%  held out %5.2f %%\n", Long(progress_.epoch + 1),
                  train.loss / train.samples, 100 * train.correct / train.samples,
                  100 * test.correct / test.samples);
  }

  // Collects on rank 0 the keys of the samples that the ranks have read since the last call.
  void Collect() {
    const std::vector<std::uint64_t> keys = ranks_.Gather(read_);
    seen_.insert(seen_.end(), keys.begin(), keys.end());
    own_samples_ += read_.size();
    read_.clear();
  }

  // The key of a sample is the number of its line, so a pass over the data has each number once.
  void CheckSweep() {
    Collect();
    const bool agree = ranks_.IsSame(Position());
    ranks_.Agree([&] {
      if (!agree) throw std::runtime_error("the ranks are at different positions");
      if (!ranks_.IsFirst()) return;
      std::vector<std::uint64_t> wanted(Position() / (progress_.epoch + 1));
      std::iota(wanted.begin(), wanted.end(), 0);
      std::sort(seen_.begin(), seen_.end());
      if (seen_ != wanted) throw std::runtime_error("the ranks have read some samples twice, or not at all");
      ++checked_sweeps_;
      sweep_samples_ = seen_.size();
      seen_.clear();
    });
  }

  void Conclude() {
    const auto& weights = model_.Parameters();
    const std::uint64_t hash = Hash(weights.data(), weights.size() * sizeof weights[0]);
    const bool agree = ranks_.IsSame(hash);
    const std::vector<std::uint64_t> shares = ranks_.Gather({own_samples_});
    if (!ranks_.IsFirst()) return;
    std::printf("each of %llu samples was read once in each of %llu sweeps; the ranks read",
                Long(sweep_samples_), Long(checked_sweeps_));
    for (const std::uint64_t share : shares) std::printf(" %llu", Long(share));
    std::printf("\nweights hash %016llx, %s on all ranks\n", Long(hash), agree ? "the same" : "not the same");
  }

  // Rank 0 writes the checkpoint of all ranks, whose readers have the same position.
  void Save() {
    if (options_.checkpoint.empty()) return;
    Collect();
    ranks_.Agree([&] {
      if (!ranks_.IsFirst()) return;
      const cr::Checkpoint position = train_->SaveCheckpoint();
      ArchiveWriter archive;
      archive.Put(&progress_, 1);
      archive.Put(model_.Parameters().data(), model_.Parameters().size());
      archive.Put(model_.Velocity().data(), model_.Velocity().size());
      archive.Put(position.data(), position.size());
      archive.Put(seen_.data(), seen_.size());
      archive.Save(options_.checkpoint);
    });
  }

  // Every rank continues at the position that rank 0 saved, and then sets its own rank and the
  // number of workers.
  void Load() {
    ArchiveReader archive(options_.checkpoint);
    archive.Get(&progress_, 1);
    archive.Get(model_.Parameters().data(), model_.Parameters().size());
    archive.Get(model_.Velocity().data(), model_.Velocity().size());
    const std::string_view position = archive.GetBytes();
    train_->RestoreCheckpoint(position.data(), position.size());
    cr::ReaderConfiguration configuration;
    configuration.workers = ranks_.Count();
    configuration.rank = ranks_.Own();
    configuration.minibatch_size = kMinibatch;
    train_->SetConfiguration(configuration);
    if (!ranks_.IsFirst()) return;
    const std::string_view seen = archive.GetBytes();
    seen_.resize(seen.size() / sizeof seen_[0]);
    std::memcpy(seen_.data(), seen.data(), seen.size());
    std::printf("resumed after minibatch %llu on %llu ranks\n", Long(progress_.minibatches),
                Long(ranks_.Count()));
  }

  // Returns the position in samples of all ranks and all sweeps.
  std::uint64_t Position() const { return train_->GetState().at("minibatchSourcePosition"); }

  static void Put(const Softmax::Score& score, double* values) {
    values[0] = score.loss;
    values[1] = score.correct;
    values[2] = score.samples;
  }
  static Softmax::Score Get(const double* values) { return {values[0], values[1], values[2]}; }

  static unsigned long long Long(std::uint64_t number) { return number; }

  Ranks& ranks_;
  const Options options_;
  std::optional<cr::Reader> train_, held_out_;
  Softmax model_;
  Progress progress_;
  bool at_end_ = false;
  std::uint64_t in_this_run_ = 0;
  // The keys that this rank has read since the last call of Collect.
  std::vector<std::uint64_t> read_;
  std::uint64_t own_samples_ = 0;
  // On rank 0: the keys that all ranks have read in this sweep, and the results of previous sweeps.
  std::vector<std::uint64_t> seen_;
  std::uint64_t checked_sweeps_ = 0, sweep_samples_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const Options options = ParseOptions(argc, argv);
  Ranks ranks(&argc, &argv);
  try {
    Training(ranks, options).Run();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train_digits_mpi, rank %d: %s\n", static_cast<int>(ranks.Own()), error.what());
    ranks.AbortUnlessAgreed();
    return 1;
  }
}
