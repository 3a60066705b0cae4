#include "image_chunk.hpp"

#include <memory>
#include <utility>

#include "sequences.hpp"

namespace cntk_dropin {
namespace {

namespace host = cntk_host;

// A fetched sequence, and the descriptions of its streams, which labels refer to.
struct Fetched {
  FetchedHandle sequence;
  std::shared_ptr<const std::vector<host::StreamInformation>> streams;
};

std::shared_ptr<host::SequenceData> image_of(const std::shared_ptr<const Fetched>& fetched, size_t stream,
                                             size_t key, uint32_t copy) {
  cntk_reader_image image = {};
  image.struct_size = sizeof image;
  call(cntk_reader_fetched_get_image, fetched->sequence.get(), stream, &image);
  const bool is_there = image.presence == CNTK_READER_PRESENCE_PRESENT;
  host::Shape shape;
  if (is_there) shape.dimensions = {image.channels, image.width, image.height};
  auto sequence = std::make_shared<ImageSequence>(fetched, image.values, std::move(shape));
  sequence->valid = is_there;
  if (!is_there) return sequence;
  sequence->samples = 1;
  sequence->element = element_of_image(image.element);
  sequence->key.sequence = key;
  sequence->copy = copy;
  return sequence;
}

// Labels have no keys, as in CNTK.
std::shared_ptr<host::SequenceData> label_of(const std::shared_ptr<const Fetched>& fetched, size_t stream) {
  Decoded label;
  label.view.struct_size = sizeof label.view;
  call(cntk_reader_fetched_get_sequence, fetched->sequence.get(), stream, &label.view);
  const host::StreamInformation& info = (*fetched->streams)[stream];
  if (info.storage == host::Storage::dense)
    return std::make_shared<DenseSequence>(fetched, info, std::move(label), 0);
  return std::make_shared<SparseSequence>(fetched, info, std::move(label), 0);
}

}  // namespace

ImageChunk::ImageChunk(ChunkHandle chunk, std::shared_ptr<const std::vector<host::StreamInformation>> streams,
                       std::vector<uint64_t> keys, std::vector<uint32_t> copies)
    : chunk_(std::move(chunk)),
      streams_(std::move(streams)),
      keys_(std::move(keys)),
      copies_(std::move(copies)) {}

void ImageChunk::GetSequence(size_t index, std::vector<std::shared_ptr<host::SequenceData>>& out) {
  cntk_reader_fetched* sequence = nullptr;
  call(cntk_reader_chunk_fetch_sequence, chunk_.get(), static_cast<uint32_t>(index), &sequence);
  const auto fetched = std::make_shared<const Fetched>(Fetched{FetchedHandle(sequence), streams_});
  for (const host::StreamInformation& stream : *streams_) {
    out.push_back(is_unknown(stream.shape) ? image_of(fetched, stream.id, keys_.at(index), copies_.at(index))
                                           : label_of(fetched, stream.id));
  }
}

}  // namespace cntk_dropin
