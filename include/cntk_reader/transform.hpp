// Transforms of images of your own: derive from Transform, and open with Reader::FromFile, FromText, or as
// part of an ImageDeserializer.
//
// A part of <cntk_reader.hpp>, which is the one to include.

#ifndef CNTK_READER_TRANSFORM_HPP
#define CNTK_READER_TRANSFORM_HPP

#include <cntk_reader.h>

#include <cntk_reader/callback.hpp>
#include <cntk_reader/error.hpp>
#include <cntk_reader/stream.hpp>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace cntk {
namespace reader {

/// What an image is, without its values.
struct ImageInfo {
  std::uint32_t width = 0;   ///< Columns.
  std::uint32_t height = 0;  ///< Rows.
  std::uint32_t channels =
      0;  ///< Values of a pixel: 1 (gray), 3 (blue, green, red), or what users' code makes.
  ElementType element = ElementType::kUInt8;  ///< Type of the values: kUInt8, kFloat or kDouble.
  /// Channel after channel, each row after row; else row after row, in a row pixel after pixel.
  bool is_planar = false;

  /// Number of values.
  std::size_t ValueCount() const noexcept {
    return std::size_t{width} * std::size_t{height} * std::size_t{channels};
  }
};

/// What the crops and scales before a transform have left of the decoded image.
struct Draw {
  double left = 0;    ///< First column of the part, in columns of the decoded image; negative in padding.
  double top = 0;     ///< First row of the part.
  double width = 0;   ///< Columns of the part, in columns of the decoded image.
  double height = 0;  ///< Rows of the part.
  bool is_mirrored = false;         ///< The part's columns are in reverse order.
  std::uint32_t source_width = 0;   ///< Columns of the decoded image.
  std::uint32_t source_height = 0;  ///< Rows of the decoded image.

  /// Where a point of the decoded image is in the part: 0 to 1 from its left to its right, and from its top
  /// to its bottom. Points outside of the part have other numbers.
  std::pair<double, double> Place(double x, double y) const noexcept {
    const double across = (x - left) / width;
    return {is_mirrored ? 1 - across : across, (y - top) / height};
  }
};

/// An image whose values are to be read (ConstImage) or written (MutableImage). A view: the values live as
/// long as the call that got it.
template <typename Byte, typename Float, typename Double>
class ImageView {
 public:
  ImageView(const ImageInfo& info,
            std::conditional_t<std::is_const_v<Byte>, const void*, void*> values) noexcept
      : info_(info), values_(values) {}

  const ImageInfo& Info() const noexcept { return info_; }
  /// The values of an image of bytes; throws for others.
  Byte* Bytes() const { return Get<Byte>(ElementType::kUInt8, "bytes"); }
  /// The values of an image of floats; throws for others.
  Float* Floats() const { return Get<Float>(ElementType::kFloat, "floats"); }
  /// The values of an image of doubles; throws for others.
  Double* Doubles() const { return Get<Double>(ElementType::kDouble, "doubles"); }

 private:
  template <typename T>
  T* Get(ElementType element, const char* what) const {
    if (info_.element != element)
      throw std::logic_error(std::string("The image does not consist of ") + what + ".");
    return static_cast<T*>(values_);
  }

  ImageInfo info_;
  std::conditional_t<std::is_const_v<Byte>, const void*, void*> values_;
};

/// An image to be read.
using ConstImage = ImageView<const std::uint8_t, const float, const double>;
/// An image to be written.
using MutableImage = ImageView<std::uint8_t, float, double>;

/// A transform of images of your own. A configuration names it as `type` of an element of `transforms`.
/// Images come to it as the transforms before it have left them: as bytes at first.
///
/// It is called by the thread that reads and by the library's own, one call at a time unless IsThreadSafe; it
/// must not use readers of this library. Exceptions are carried to the call that needs the image, as Errors
/// of kind kUser with their text.
class Transform {
 public:
  Transform() = default;
  Transform(const Transform&) = delete;
  Transform& operator=(const Transform&) = delete;
  virtual ~Transform() = default;

  /// What becomes of such an image; by default it keeps its size, and type and order of its values. Must
  /// depend on `image` alone: it is called several times for each image.
  virtual ImageInfo GetResult(const ImageInfo& image) { return image; }
  /// Writes all values of `result`, an image as GetResult has said, which does not overlap `image`. `random`
  /// was drawn for this image: what is random has to depend on nothing else. Override this function or
  /// ApplyDrawn.
  virtual void Apply(const ConstImage& image, const MutableImage& result, std::uint64_t random) {
    (void)image, (void)result, (void)random;
    throw std::logic_error("The transform overrides neither Apply nor ApplyDrawn.");
  }
  /// Apply for transforms that need to know which part of the decoded image they get. The library calls this
  /// function; it calls Apply unless it is overridden.
  virtual void ApplyDrawn(const ConstImage& image, const MutableImage& result, std::uint64_t random,
                          const Draw& draw) {
    (void)draw;
    Apply(image, result, random);
  }
  /// Whether several threads may call at once.
  virtual bool IsThreadSafe() const { return false; }
};

/// Transforms with the names that the configuration has for them.
using Transforms = std::vector<std::pair<std::string, std::shared_ptr<Transform>>>;

namespace detail {

/// What a reader has of a transform: the table of callbacks, and all that it points to.
class TransformTable {
 public:
  TransformTable(std::string name, std::shared_ptr<Transform> user)
      : name_(std::move(name)), user_(std::move(user)) {
    if (!user_) throw Error(ErrorKind::kInvalidArgument, "There is no transform '" + name_ + "'.");
    table_ = Sized<cntk_reader_user_transform>();
    table_.userdata = this;
    table_.name = name_.data();
    table_.name_length = name_.size();
    table_.thread_safe = user_->IsThreadSafe() ? 1 : 0;
    table_.describe_image = Callback(DescribeImage);
    table_.transform_drawn_image = Callback(TransformImage);
    table_.finalizer = Callback(Delete<TransformTable>);
  }
  TransformTable(const TransformTable&) = delete;
  TransformTable& operator=(const TransformTable&) = delete;

  const cntk_reader_user_transform* Table() const noexcept { return &table_; }

 private:
  static ImageInfo FromRaw(const cntk_reader_image_info& raw) {
    ImageInfo info;
    info.width = raw.width;
    info.height = raw.height;
    info.channels = raw.channels;
    info.element = static_cast<ElementType>(raw.element);
    info.is_planar = raw.is_planar != 0;
    return info;
  }

  static std::int32_t DescribeImage(void* userdata, const cntk_reader_image_info* image,
                                    cntk_reader_image_info* result, cntk_reader_failure* failure) noexcept {
    return RunCallback(failure, "The transform", [&] {
      const ImageInfo info = static_cast<TransformTable*>(userdata)->user_->GetResult(FromRaw(*image));
      *result = {info.width,
                 info.height,
                 info.channels,
                 static_cast<std::uint32_t>(info.element),
                 info.is_planar ? 1u : 0u,
                 0};
    });
  }

  static std::int32_t TransformImage(void* userdata, const cntk_reader_image_info* image, const void* values,
                                     const cntk_reader_image_info* result, void* result_values,
                                     std::uint64_t random, const cntk_reader_draw* raw,
                                     cntk_reader_failure* failure) noexcept {
    return RunCallback(failure, "The transform", [&] {
      Draw draw;
      draw.left = raw->left;
      draw.top = raw->top;
      draw.width = raw->width;
      draw.height = raw->height;
      draw.is_mirrored = raw->is_mirrored != 0;
      draw.source_width = raw->source_width;
      draw.source_height = raw->source_height;
      static_cast<TransformTable*>(userdata)->user_->ApplyDrawn(
          ConstImage(FromRaw(*image), values), MutableImage(FromRaw(*result), result_values), random, draw);
    });
  }

  std::string name_;
  std::shared_ptr<Transform> user_;
  cntk_reader_user_transform table_;
};

}  // namespace detail

}  // namespace reader
}  // namespace cntk

#endif  // CNTK_READER_TRANSFORM_HPP
