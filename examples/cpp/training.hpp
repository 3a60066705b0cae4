// Training of a network with one hidden layer that can be stopped and resumed at any minibatch.
//
// It uses two readers, for the training part and the held-out part of the data, with the streams
// `features` and `labels`.

#ifndef EXAMPLES_TRAINING_HPP
#define EXAMPLES_TRAINING_HPP

#include <cntk_reader.hpp>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "archive.hpp"
#include "network.hpp"
#include "options.hpp"

class Training {
 public:
  // The task and its parameters.
  struct Task {
    const char* program;
    std::size_t inputs, hidden, classes;
    std::uint64_t minibatch;
    float learning_rate;
    double accuracy;  // Percentage of held-out samples to be recognized in the end.
  };

  Training(const Task& task, const Options& options, cntk::reader::Reader train, cntk::reader::Reader test)
      : task_(task),
        options_(options),
        train_(std::move(train)),
        test_(std::move(test)),
        normalization_(task.inputs),
        network_(task.inputs, task.hidden, task.classes) {
    StartSweep(train_, 0);
    for (const cntk::reader::Minibatch& minibatch : train_.Minibatches()) {
      const cntk::reader::StreamMinibatch features = minibatch["features"];
      for (std::size_t column = 0; column < features.Columns(); ++column)
        normalization_.Add(features.Column<float>(column));
    }
    normalization_.Finish();
  }

  // Returns true if the training was stopped, or enough samples are recognized.
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
    if (accuracy >= task_.accuracy) return true;
    std::fprintf(stderr, "%s: %.2f %% of the test part are recognized, not %.0f %%\n", task_.program,
                 accuracy, task_.accuracy);
    return false;
  }

 private:
  // The progress of the training, except the weights and the reader's position.
  struct Progress {
    std::uint64_t epoch = 0;
    std::uint64_t minibatches = 0;  // In all epochs.
    Network::Score score;           // In the epoch so far.
  };

  // Starts one pass over a part of the data, in the order of the epoch.
  void StartSweep(cntk::reader::Reader& reader, std::uint64_t epoch) const {
    cntk::reader::EpochConfiguration configuration;
    configuration.minibatch_size = task_.minibatch;
    configuration.samples = cntk::reader::kOneSweep;
    configuration.index = epoch;
    reader.StartEpoch(configuration);
  }

  // Trains on the rest of the epoch. Returns false if the training has to stop.
  bool FinishEpoch() {
    for (const cntk::reader::Minibatch& minibatch : train_.Minibatches()) {
      std::vector<float> gradient(network_.Parameters().size());
      const Network::Score score = network_.Process(minibatch, normalization_, gradient.data());
      network_.Step(gradient.data(), task_.learning_rate / static_cast<float>(score.samples));
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

  // Prints the epoch's results; returns the percentage of the test part's samples that are
  // recognized.
  double Report() {
    Network::Score test;
    StartSweep(test_, 0);
    for (const cntk::reader::Minibatch& minibatch : test_.Minibatches())
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
    const cntk::reader::Checkpoint position = train_.SaveCheckpoint();
    ArchiveWriter archive;
    archive.Put(&progress_, 1);
    archive.Put(network_.Parameters().data(), network_.Parameters().size());
    archive.Put(network_.Velocity().data(), network_.Velocity().size());
    archive.Put(position.data(), position.size());
    archive.Save(options_.checkpoint);
  }

  // Restoring the reader restarts the checkpoint's epoch. If the checkpoint was saved at the end of
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

  const Task task_;
  const Options options_;
  cntk::reader::Reader train_, test_;
  Normalization normalization_;
  Network network_;
  Progress progress_;
  std::uint64_t in_this_run_ = 0;
};

#endif  // EXAMPLES_TRAINING_HPP
