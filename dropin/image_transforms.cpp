#include "image_transforms.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <utility>
#include <vector>

#include "engine.hpp"
#include "sequences.hpp"

namespace cntk_dropin {
namespace {

namespace host = cntk_host;

// The effect of a transform on the form of its result.
enum class Kind {
  keeps,       // the result is an image
  transposes,  // into planes of the reader's type
  casts,       // to the reader's type
};

struct Name {
  const char* type;
  Kind kind;
};

constexpr Name kNames[] = {{"Crop", Kind::keeps},          {"Scale", Kind::keeps}, {"Color", Kind::keeps},
                           {"Intensity", Kind::keeps},     {"Mean", Kind::keeps},  {"Cast", Kind::casts},
                           {"Transpose", Kind::transposes}};

constexpr size_t kRank = 3;  // dimensions of an image

size_t size_of(host::Element element) {
  switch (element) {
    case host::Element::byte:
      return 1;
    case host::Element::float32:
      return sizeof(float);
    case host::Element::float64:
      return sizeof(double);
    default:
      throw std::runtime_error(
          "Unsupported type. Please apply a cast transform with 'double' or 'float' precision.");
  }
}

// Returns the engine's number of a type.
uint32_t image_element_of(host::Element element) {
  return element == host::Element::byte ? static_cast<uint32_t>(CNTK_READER_ELEMENT_UINT8)
                                        : static_cast<uint32_t>(element);
}

size_t count_of(const host::Shape& shape) {
  size_t count = 1;
  for (const size_t dimension : shape.dimensions) {
    if (__builtin_mul_overflow(count, dimension, &count)) throw std::runtime_error("A sample is too large.");
  }
  return count;
}

uint32_t narrowed(size_t dimension) {
  if (dimension > UINT32_MAX) throw std::runtime_error("An image is too large.");
  return static_cast<uint32_t>(dimension);
}

// An image produced by the engine.
struct Result {
  TransformedHandle owner;
  cntk_reader_image image = {};
};

class ImageTransform : public host::Transformer {
 public:
  ImageTransform(const Name& name, const host::ConfigParameters& config) : kind_(name.kind) {
    const SectionHandle section = make_section(config);
    cntk_reader_transform* transform = nullptr;
    call(cntk_reader_transform_open, name.type, std::strlen(name.type), section.get(), &transform);
    transform_.reset(transform);
    uint32_t element = 0;
    call(cntk_reader_transform_get_element, transform, &element);
    element_ = element_of_image(element);
  }

  void StartEpoch(const void*) override {}

  host::StreamInformation Transform(const host::StreamInformation& stream) override {
    before_ = stream.element;
    if (!is_unknown(stream.shape) && stream.shape.dimensions.size() == kRank)
      declared_channels_ = stream.shape.dimensions[0];
    host::StreamInformation after = stream;
    if (kind_ != Kind::keeps) after.element = element_;
    if (kind_ == Kind::casts) return after;
    const std::vector<size_t>& dimensions = stream.shape.dimensions;
    const size_t rank = is_unknown(stream.shape) ? 0 : dimensions.size();
    uint32_t is_known = 0;
    size_t shape[kRank] = {};
    call(cntk_reader_transform_get_shape, transform_.get(), dimensions.data(), rank, &is_known, &shape);
    after.shape.dimensions.assign({CNTK_READER_UNKNOWN_DIMENSION});
    if (is_known != 0) after.shape.dimensions.assign(shape, shape + kRank);
    return after;
  }

#if CNTK_DROPIN_HOST >= 20400
  std::shared_ptr<host::SequenceData> Transform(std::shared_ptr<host::SequenceData> sequence,
                                                int place) override {
    return transform(std::move(sequence), static_cast<uint32_t>(place));
  }
#else
  // One random engine for all sequences, which threads share in any order.
  std::shared_ptr<host::SequenceData> Transform(std::shared_ptr<host::SequenceData> sequence) override {
    return transform(std::move(sequence), 0);
  }
#endif

 private:
  std::shared_ptr<host::SequenceData> transform(std::shared_ptr<host::SequenceData> sequence, uint32_t slot) {
    const auto* const own = dynamic_cast<const ImageSequence*>(sequence.get());
    const host::Element element = sequence->element == host::Element::unknown ? before_ : sequence->element;
    if (kind_ == Kind::casts && element == element_) return sequence;
    const host::Shape& shape = sequence->GetSampleShape();
    const size_t count = count_of(shape);
    cntk_reader_image image = {};
    image.struct_size = sizeof image;
    image.element = image_element_of(element);
    if (kind_ == Kind::casts) {
      // Only the number of values matters.
      image.width = narrowed(count);
      image.height = image.channels = 1;
    } else if (shape.dimensions.size() == kRank && (own == nullptr || own->is_image)) {
      image.channels = narrowed(shape.dimensions[0]);
      // The first values, as many as the declared shape has.
      if (kind_ == Kind::transposes && declared_channels_ < shape.dimensions[0])
        image.channels = narrowed(declared_channels_);
      image.width = narrowed(shape.dimensions[1]);
      image.height = narrowed(shape.dimensions[2]);
    } else {
      throw std::runtime_error(kind_ == Kind::transposes
                                   ? "Currently Transpose transform only works with images."
                                   : "Unexpected sequence provided");
    }
    std::vector<Result> results(sequence->samples);
    const char* values = static_cast<const char*>(sequence->GetDataBuffer());
    const uint32_t copy = own == nullptr ? 0 : own->copy;
    if (kind_ == Kind::keeps && own != nullptr && own->made != nullptr) {
      apply(cntk_reader_transform_apply_next, own->made, slot, copy, results.front());
    } else {
      for (Result& result : results) {
        image.values = values;
        values += count * size_of(element);
        apply(cntk_reader_transform_apply, &image, slot, copy, result);
      }
    }
    const auto out = join(std::move(results), shape);
    out->samples = sequence->samples;
    out->key = sequence->key;
    out->valid = sequence->valid;
    out->copy = copy;
    out->is_image = kind_ == Kind::keeps;
    return out;
  }

  template <class Function, class Image>
  void apply(Function function, const Image* image, uint32_t slot, uint32_t copy, Result& result) const {
    cntk_reader_transformed* owner = nullptr;
    result.image.struct_size = sizeof result.image;
    call(function, transform_.get(), slot, copy, image, &result.image, &owner);
    result.owner.reset(owner);
  }

  // Returns the sequence of these samples.
  std::shared_ptr<ImageSequence> join(std::vector<Result> results, const host::Shape& before) const {
    if (results.empty()) return std::make_shared<ImageSequence>(nullptr, nullptr, before);
    const cntk_reader_image first = results.front().image;
    host::Shape shape = before;
    if (kind_ == Kind::keeps) shape.dimensions = {first.channels, first.width, first.height};
    if (kind_ == Kind::transposes) shape.dimensions = {first.width, first.height, first.channels};
    const auto element = element_of_image(first.element);
    std::shared_ptr<ImageSequence> joined;
    if (results.size() == 1) {
      std::shared_ptr<const cntk_reader_transformed> owner(std::move(results.front().owner));
      const cntk_reader_transformed* const made = owner.get();
      joined = std::make_shared<ImageSequence>(std::move(owner), first.values, std::move(shape));
      joined->made = made;
    } else {
      const size_t size = count_of(shape) * size_of(element);
      const auto values = std::make_shared<std::vector<char>>();
      values->reserve(results.size() * size);
      for (const Result& result : results) {
        const cntk_reader_image& image = result.image;
        if (image.width != first.width || image.height != first.height || image.channels != first.channels) {
          throw std::runtime_error("The samples of a sequence have different shapes after a transform.");
        }
        const char* const begin = static_cast<const char*>(image.values);
        values->insert(values->end(), begin, begin + size);
      }
      joined = std::make_shared<ImageSequence>(values, values->data(), std::move(shape));
    }
    joined->element = element;
    return joined;
  }

  const Kind kind_;
  TransformHandle transform_;
  // The reader's type.
  host::Element element_ = host::Element::unknown;
  // The declared type of the values before the transform, for sequences without a type.
  host::Element before_ = host::Element::unknown;
  // The declared number of channels before the transform, if any.
  size_t declared_channels_ = SIZE_MAX;
};

}  // namespace

std::unique_ptr<host::Transformer> make_image_transform(const std::string& type,
                                                        const host::ConfigParameters& config) {
  const auto* const name =
      std::find_if(std::begin(kNames), std::end(kNames), [&](const Name& name) { return type == name.type; });
  if (name == std::end(kNames)) return nullptr;
  return std::make_unique<ImageTransform>(*name, config);
}

}  // namespace cntk_dropin
