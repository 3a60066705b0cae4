// Code that the programs which learn from the digits share: the data, the command line, and the progress of a
// training.

#ifndef EXAMPLES_DIGITS_HPP
#define EXAMPLES_DIGITS_HPP

#include <cntk_reader.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "softmax.hpp"

constexpr std::size_t kPixels = 64;
constexpr std::size_t kDigits = 10;
constexpr std::uint64_t kMinibatch = 32;
constexpr double kLearningRate = 0.05;

// Opens a file of digits. `keys` are more lines of the reader's configuration. Chunks are what is shuffled,
// loaded and shared out to workers: there should be several for each worker.
inline cntk::reader::Reader OpenDigits(const std::string& file, const std::string& keys,
                                       std::size_t chunk_bytes = 32 << 20) {
  return cntk::reader::Reader::FromText(keys + R"(
    deserializers = ( [
      type = "CNTKTextFormatDeserializer" ; module = "CNTKTextFormatReader" ; file = ")" +
                                        file + R"("
      chunkSizeInBytes = )" + std::to_string(chunk_bytes) +
                                        R"(
      input = [
        features = [ dim = 64 ; format = "dense" ]
        labels = [ dim = 10 ; format = "sparse" ]
      ]
    ] ))");
}

// One pass over the data, in the order that belongs to the epoch; for one worker of several, its share.
inline void StartSweep(cntk::reader::Reader& reader, std::uint64_t epoch, std::uint64_t workers = 1,
                       std::uint64_t rank = 0) {
  cntk::reader::EpochConfiguration configuration;
  configuration.workers = workers;
  configuration.rank = rank;
  configuration.minibatch_size = kMinibatch;
  configuration.samples = cntk::reader::kOneSweep;
  configuration.index = epoch;
  reader.StartEpoch(configuration);
}

// The progress of the training, except the weights and the reader's position.
struct Progress {
  std::uint64_t epoch = 0;
  std::uint64_t minibatches = 0;  // Of all epochs.
  Softmax::Score score;           // Of the epoch so far.
};

struct Options {
  std::string data = "examples/data";
  std::string checkpoint;
  std::uint64_t epochs = 20;
  std::uint64_t checkpoint_every = 0;  // Minibatches; 0: after each epoch only.
  std::uint64_t stop_after = 0;        // Minibatches; 0: never.
  bool resume = false;
};

[[noreturn]] inline void Usage(const char* program) {
  std::fprintf(stderr,
               "usage: %s [--data DIR] [--epochs N] [--checkpoint FILE [--checkpoint-every N]]\n"
               "       [--resume [FILE]] [--stop-after N]\n",
               program);
  std::exit(2);
}

inline Options ParseOptions(int argc, char** argv) {
  Options options;
  int i = 1;
  const auto value = [&] { return i + 1 < argc ? std::string(argv[++i]) : (Usage(argv[0]), std::string()); };
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
      Usage(argv[0]);
    }
  }
  if (options.resume && options.checkpoint.empty()) Usage(argv[0]);
  return options;
}

#endif  // EXAMPLES_DIGITS_HPP
