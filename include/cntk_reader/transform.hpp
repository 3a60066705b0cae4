// User-defined image transforms: derive from Transform, and pass to Reader::FromFile, FromText, or
// ImageDeserializer::AddTransform.
//
// Part of <cntk_reader.hpp>; include that.

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

/// Size and format of an image.
struct ImageInfo {
  std::uint32_t width = 0;   ///< In pixels.
  std::uint32_t height = 0;  ///< In pixels.
  /// Values per pixel: 1 (gray), 3 (blue, green, red), or any number that user code produces.
  std::uint32_t channels = 0;
  ElementType element = ElementType::kUInt8;  ///< Type of the values: kUInt8, kFloat or kDouble.
  /// Channel by channel, each row by row; else row by row with the channels of a pixel next to each
  /// other.
  bool is_planar = false;

  /// Returns the number of values.
  std::size_t ValueCount() const noexcept {
    return std::size_t{width} * std::size_t{height} * std::size_t{channels};
  }
};

/// The part of the decoded image that remains after the crops and scales before a transform.
struct Draw {
  double left = 0;                  ///< First column in the decoded image; negative in padding.
  double top = 0;                   ///< First row in the decoded image.
  double width = 0;                 ///< Width in the decoded image.
  double height = 0;                ///< Height in the decoded image.
  bool is_mirrored = false;         ///< The columns are in reverse order.
  std::uint32_t source_width = 0;   ///< Width of the decoded image.
  std::uint32_t source_height = 0;  ///< Height of the decoded image.

  /// Maps a point of the decoded image to the part: from 0 at its left or top edge to 1 at its
  /// right or bottom edge. Points outside the part get numbers outside this range.
  std::pair<double, double> Place(double x, double y) const noexcept {
    const double across = (x - left) / width;
    return {is_mirrored ? 1 - across : across, (y - top) / height};
  }
};

/// An image whose values can be read (ConstImage) or written (MutableImage). A view: valid during
/// the call that received it.
template <typename Byte, typename Float, typename Double>
class ImageView {
 public:
  ImageView(const ImageInfo& info,
            std::conditional_t<std::is_const_v<Byte>, const void*, void*> values) noexcept
      : info_(info), values_(values) {}

  const ImageInfo& Info() const noexcept { return info_; }
  /// Returns the values of an image of bytes; throws for other types.
  Byte* Bytes() const { return Get<Byte>(ElementType::kUInt8, "bytes"); }
  /// Returns the values of an image of floats; throws for other types.
  Float* Floats() const { return Get<Float>(ElementType::kFloat, "floats"); }
  /// Returns the values of an image of doubles; throws for other types.
  Double* Doubles() const { return Get<Double>(ElementType::kDouble, "doubles"); }

 private:
  template <typename T>
  T* Get(ElementType element, const char* what) const {
    if (info_.element != element)
      throw std::logic_error(std::string("The image's values are not ") + what + ".");
    return static_cast<T*>(values_);
  }

  ImageInfo info_;
  std::conditional_t<std::is_const_v<Byte>, const void*, void*> values_;
};

/// An image to read.
using ConstImage = ImageView<const std::uint8_t, const float, const double>;
/// An image to write.
using MutableImage = ImageView<std::uint8_t, float, double>;

/// A user-defined image transform. An element of the configuration's `transforms` selects it by its
/// name as `type`. It receives images as the preceding transforms have left them, initially as
/// bytes.
///
/// It is called on the thread that reads and on the library's own, one call at a time unless
/// IsThreadSafe, and must not use readers of this library. Exceptions are reported by the call that
/// needs the image, as Errors of kind kUser with their text.
class Transform {
 public:
  Transform() = default;
  Transform(const Transform&) = delete;
  Transform& operator=(const Transform&) = delete;
  virtual ~Transform() = default;

  /// Returns the size and format of the result; by default those of `image`. Must depend on `image`
  /// alone: it is called several times for each image.
  virtual ImageInfo GetResult(const ImageInfo& image) { return image; }
  /// Writes all values of `result`, which has the size and format from GetResult and does not
  /// overlap `image`. `random` was drawn for this image; all randomness must depend on it alone.
  /// Override this function or ApplyDrawn.
  virtual void Apply(const ConstImage& image, const MutableImage& result, std::uint64_t random) {
    (void)image, (void)result, (void)random;
    throw std::logic_error("The transform overrides neither Apply nor ApplyDrawn.");
  }
  /// Like Apply, for transforms that need to know which part of the decoded image they get. The
  /// library calls this function, which calls Apply unless it is overridden.
  virtual void ApplyDrawn(const ConstImage& image, const MutableImage& result, std::uint64_t random,
                          const Draw& draw) {
    (void)draw;
    Apply(image, result, random);
  }
  /// Returns whether several threads may call at once.
  virtual bool IsThreadSafe() const { return false; }
};

/// Transforms with their names in the configuration.
using Transforms = std::vector<std::pair<std::string, std::shared_ptr<Transform>>>;

namespace detail {

/// The table of callbacks of a Transform, with everything that it points to.
class TransformTable {
 public:
  TransformTable(std::string name, std::shared_ptr<Transform> user)
      : name_(std::move(name)), user_(std::move(user)) {
    if (!user_) throw Error(ErrorKind::kInvalidArgument, "The transform '" + name_ + "' is null.");
    table_ = Sized<cntk_reader_user_transform>();
    table_.userdata = this;
    table_.name = name_.data();
    table_.name_length = name_.size();
    table_.thread_safe =
        CallUser("Transform::IsThreadSafe", name_, [&] { return user_->IsThreadSafe(); }) ? 1 : 0;
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
