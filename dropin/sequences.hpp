// The engine's sequences with the host's interface.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "engine.hpp"
#include "host_deserializers.hpp"

namespace cntk_dropin {

// A sequence's description, and its decoded numbers if the engine stores them encoded.
struct Decoded {
  cntk_reader_sequence view = {};
  DecodedHandle numbers;
};

// A sequence that owns its values, or keeps their owner alive.
template <typename Base>
class Sequence : public Base {
 public:
  // `owner` owns the values, unless `decoded` does, and the description of the stream.
  Sequence(std::shared_ptr<const void> owner, const cntk_host::StreamInformation& stream, Decoded decoded,
           size_t key)
      : owner_(std::move(owner)),
        shape_(stream.shape),
        numbers_(std::move(decoded.numbers)),
        values_(decoded.view.values) {
    this->samples = decoded.view.samples;
    this->element = stream.element;
    this->valid = decoded.view.presence == CNTK_READER_PRESENCE_PRESENT;
    this->key.sequence = key;
  }

  const cntk_host::Shape& GetSampleShape() override { return shape_; }
  const void* GetDataBuffer() override { return values_; }

 private:
  const std::shared_ptr<const void> owner_;
  const cntk_host::Shape& shape_;
  const DecodedHandle numbers_;
  const void* const values_;
};

using DenseSequence = Sequence<cntk_host::SequenceData>;

class SparseSequence : public Sequence<cntk_host::SparseSequenceData> {
 public:
  SparseSequence(std::shared_ptr<const void> owner, const cntk_host::StreamInformation& stream,
                 Decoded decoded, size_t key)
      : SparseSequence(std::move(owner), stream, decoded.view, std::move(decoded.numbers), key) {}

 private:
  SparseSequence(std::shared_ptr<const void> owner, const cntk_host::StreamInformation& stream,
                 const cntk_reader_sequence& view, DecodedHandle numbers, size_t key);
};

// A sequence of equal samples.
class RepeatedSequence : public cntk_host::SequenceData {
 public:
  RepeatedSequence(const cntk_host::StreamInformation& stream, const cntk_reader_sequence& view,
                   uint32_t count, size_t of_key);

  const cntk_host::Shape& GetSampleShape() override { return shape_; }
  const void* GetDataBuffer() override { return values_.data(); }

 private:
  const cntk_host::Shape shape_;
  std::vector<char> values_;
};

// Returns the type of an image's values from the engine's number.
inline cntk_host::Element element_of_image(uint32_t number) {
  return number == CNTK_READER_ELEMENT_UINT8 ? cntk_host::Element::byte
                                             : static_cast<cntk_host::Element>(number);
}

// Images: samples of three dimensions, which vary between sequences of a stream.
class ImageSequence : public cntk_host::SequenceData {
 public:
  // `owner` owns `values`.
  ImageSequence(std::shared_ptr<const void> owner, const void* values, cntk_host::Shape shape)
      : owner_(std::move(owner)), values_(values), shape_(std::move(shape)) {}

  const cntk_host::Shape& GetSampleShape() override { return shape_; }
  const void* GetDataBuffer() override { return values_; }

  // The number of the copy, 0 to 9, if the deserializer delivers ten copies of an image; else 0.
  uint32_t copy = 0;
  // Whether transforms treat it as an image: it is not yet transposed or cast.
  bool is_image = true;
  // The engine's image, which owns the values, if it is the result of a transform. There, a crop is
  // a view of a larger image, which the next transform may access.
  const cntk_reader_transformed* made = nullptr;

 private:
  const std::shared_ptr<const void> owner_;
  const void* const values_;
  const cntk_host::Shape shape_;
};

}  // namespace cntk_dropin
