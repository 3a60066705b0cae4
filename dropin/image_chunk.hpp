// Chunks of images with the host's interface.
#pragma once

#include <vector>

#include "engine.hpp"
#include "host_deserializers.hpp"

namespace cntk_dropin {

// A chunk of images with labels. An image is decoded each time it is requested.
class ImageChunk : public cntk_host::Chunk {
 public:
  // `keys` are the keys of the sequences. `copies` are the numbers of their copies, if images are
  // delivered in several copies.
  ImageChunk(ChunkHandle chunk, std::shared_ptr<const std::vector<cntk_host::StreamInformation>> streams,
             std::vector<uint64_t> keys, std::vector<uint32_t> copies);

  void GetSequence(size_t index, std::vector<std::shared_ptr<cntk_host::SequenceData>>& out) override;

 private:
  const ChunkHandle chunk_;
  const std::shared_ptr<const std::vector<cntk_host::StreamInformation>> streams_;
  const std::vector<uint64_t> keys_;
  const std::vector<uint32_t> copies_;
};

}  // namespace cntk_dropin
