// Shared code of the programs that learn digits: the data, and the progress of a training.

#ifndef EXAMPLES_DIGITS_HPP
#define EXAMPLES_DIGITS_HPP

#include <cntk_reader.hpp>
#include <cstddef>
#include <cstdint>
#include <string>

#include "softmax.hpp"

constexpr std::size_t kPixels = 64;
constexpr std::size_t kDigits = 10;
constexpr std::uint64_t kMinibatch = 32;
constexpr double kLearningRate = 0.05;

// Opens a file of digits. `keys` are additional lines of the reader's configuration. Chunks are the
// units of shuffling, loading and distribution to workers: each worker should have several.
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

// Starts one pass over the data, in the order of the epoch; for one of several workers, over its
// share.
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
  std::uint64_t minibatches = 0;  // In all epochs.
  Softmax::Score score;           // In the epoch so far.
};

#endif  // EXAMPLES_DIGITS_HPP
