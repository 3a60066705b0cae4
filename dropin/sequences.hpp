// The engine's sequences with the host's interface.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "engine.hpp"
#include "host_deserializers.hpp"

namespace cntk_dropin {

// A sequence's description, and its numbers if the engine stores them in another form.
struct Decoded {
  cntk_reader_sequence view = {};
  DecodedHandle numbers;
};

// A sequence whose values belong to something that it keeps alive, or are its own.
template <typename Base>
class Sequence : public Base {
 public:
  // `owner` has the values, if `decoded` does not, and the description of the stream.
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

// The type of an image's values, which the engine describes by this number.
inline cntk_host::Element element_of_image(uint32_t number) {
  return number == CNTK_READER_ELEMENT_UINT8 ? cntk_host::Element::byte
                                             : static_cast<cntk_host::Element>(number);
}

// Images: samples of three dimensions, which are not those of other sequences of the stream.
class ImageSequence : public cntk_host::SequenceData {
 public:
  // `values` belong to `owner`.
  ImageSequence(std::shared_ptr<const void> owner, const void* values, cntk_host::Shape shape)
      : owner_(std::move(owner)), values_(values), shape_(std::move(shape)) {}

  const cntk_host::Shape& GetSampleShape() override { return shape_; }
  const void* GetDataBuffer() override { return values_; }

  // The number of the copy, 0 to 9, of an image that the deserializer delivers in ten copies; else 0.
  uint32_t copy = 0;
  // Transforms take it as an image: nothing has transposed or cast it.
  bool is_image = true;
  // The engine's image, which owns the values, if a transform has made it. There, a crop is a view of a
  // larger image, which the next transform may look at.
  const cntk_reader_transformed* made = nullptr;

 private:
  const std::shared_ptr<const void> owner_;
  const void* const values_;
  const cntk_host::Shape shape_;
};

}  // namespace cntk_dropin
