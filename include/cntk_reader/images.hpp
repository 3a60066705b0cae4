// Typed options of image deserializers and transforms.
//
//     cr::Reader reader = cr::Reader::Open(
//         cr::ImageDeserializer("train.map", "features", "labels", 1000)
//             .AddTransform(cr::Crop::Random().SideRatio(0.5f, 1).Jitter())
//             .AddTransform(cr::Scale(224, 224, 3))
//             .AddTransform(cr::Transpose()));
//
// Options that are not set have the defaults in docs/configuration.md.
//
// Part of <cntk_reader.hpp>; include that.

#ifndef CNTK_READER_IMAGES_HPP
#define CNTK_READER_IMAGES_HPP

#include <cntk_reader/options.hpp>
#include <cntk_reader/transform.hpp>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <locale>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cntk {
namespace reader {

class Deserializer;

namespace detail {

/// Base of the library's transforms. Methods return a changed copy, so that calls can be chained.
template <typename Derived>
class TransformBase {
 public:
  /// Returns the section as an element of `transforms` in a configuration.
  std::string Text() const { return options_.Write(true); }

 protected:
  explicit TransformBase(const char* type) : options_(std::string(type)) {}

  /// Returns a copy with an option set by one of the setters of Options.
  template <typename... Parameters, typename... Values>
  Derived With(void (Options::*setter)(Parameters...), Values... values) const {
    Derived changed = static_cast<const Derived&>(*this);
    (static_cast<TransformBase&>(changed).options_.*setter)(values...);
    return changed;
  }

  Options options_;

 private:
  template <typename Images>
  friend class ImageDeserializerBase;
};

}  // namespace detail

/// Crops images to a size that is given (Size) or relative to the image (SideRatio, AreaRatio); by
/// default the whole image. Methods return a changed copy.
class Crop : public detail::TransformBase<Crop> {
 public:
  /// Crops the center of the image (`cropType = "Center"`).
  static Crop Center() { return Crop("Center"); }
  /// Crops at a random position (`cropType = "RandomSide"`). Half of the images are mirrored unless
  /// Flip says otherwise.
  static Crop Random() { return Crop("RandomSide"); }
  /// Crops corners and center, plain and mirrored (`cropType = "MultiView10"`), for the ten
  /// sequences that each image has with ImageDeserializer::MultiView.
  static Crop MultiView() { return Crop("MultiView10"); }

  /// Size of the crop, at most that of the image (`cropSize`; default: unset).
  [[nodiscard]] Crop Size(std::uint32_t width, std::uint32_t height) const {
    return With(&detail::Options::Pair, "cropSize", width, height);
  }
  /// Length of both sides relative to the image's shorter side, above 0 and up to 1 (`sideRatio`;
  /// default: unset). With Jitter it is drawn between the two numbers; without, it is `least`.
  [[nodiscard]] Crop SideRatio(float least, float greatest) const {
    return Between("sideRatio", least, greatest);
  }
  /// Area relative to that of the image, above 0 and up to 1 (`areaRatio`; default: unset). With
  /// Jitter it is drawn between the two numbers; without, it is `least`.
  [[nodiscard]] Crop AreaRatio(float least, float greatest) const {
    return Between("areaRatio", least, greatest);
  }
  /// Aspect ratio, applied as width to height or height to width at random (`aspectRatio`; default:
  /// 1). With Jitter it is drawn between the two numbers; without, it is `least`.
  [[nodiscard]] Crop AspectRatio(float least, float greatest) const {
    return Between("aspectRatio", least, greatest);
  }
  /// Draws ratios between their bounds (`jitterType = "UniRatio"`; default: false).
  [[nodiscard]] Crop Jitter(bool jitter = true) const {
    return With(&detail::Options::Text, "jitterType", jitter ? "UniRatio" : "None");
  }
  /// Mirrors half of the images (`hflip`; default: true for Random, else false).
  [[nodiscard]] Crop Flip(bool flip = true) const { return With(&detail::Options::Flag, "hflip", flip); }
  /// Seed of the random draws (`seed`; default: 0). Transforms with equal seeds draw equal numbers.
  [[nodiscard]] Crop Seed(std::uint32_t seed) const { return With(&detail::Options::Whole, "seed", seed); }

 private:
  explicit Crop(const char* kind) : TransformBase("Crop") { options_.Text("cropType", kind); }

  Crop Between(const char* key, float least, float greatest) const {
    std::ostringstream text;
    text.imbue(std::locale::classic());  // The process's locale may write a comma.
    text.precision(std::numeric_limits<float>::max_digits10);
    text << least << ':' << greatest;
    return With(&detail::Options::Text, key, text.str());
  }
};

/// Interpolation of values between pixels.
enum class Interpolation {
  kNearest,  ///< The pixel to the upper left.
  kLinear,   ///< From 2 x 2 pixels.
  kCubic,    ///< From 4 x 4 pixels.
  kLanczos,  ///< From 8 x 8 pixels.
};

/// Treatment of images whose aspect ratio differs from that of the new size.
enum class ScaleMode {
  kFill,  ///< Stretches the image.
  kCrop,  ///< Crops the center.
  kPad,   ///< Pads the image: see Scale::PadValue.
};

/// Resizes images. Methods return a changed copy.
class Scale : public detail::TransformBase<Scale> {
 public:
  /// Sets the new width and height, and the number of channels that the images have.
  Scale(std::uint32_t width, std::uint32_t height, std::uint32_t channels) : TransformBase("Scale") {
    options_.Whole("width", width);
    options_.Whole("height", height);
    options_.Whole("channels", channels);
  }

  /// Sets the interpolation (`interpolations`; default: linear).
  [[nodiscard]] Scale Interpolate(Interpolation interpolation) const {
    static constexpr const char* kWords[] = {"nearest", "linear", "cubic", "lanczos"};
    return With(&detail::Options::Text, "interpolations", kWords[static_cast<int>(interpolation)]);
  }
  /// Sets the treatment of images with another aspect ratio (`scaleMode`; default: fill).
  [[nodiscard]] Scale Mode(ScaleMode mode) const {
    static constexpr const char* kWords[] = {"fill", "crop", "pad"};
    return With(&detail::Options::Text, "scaleMode", kWords[static_cast<int>(mode)]);
  }
  /// Sets the padding value of ScaleMode::kPad (`padValue`; default: the values at the border).
  [[nodiscard]] Scale PadValue(std::uint32_t value) const {
    return With(&detail::Options::Whole, "padValue", value);
  }
};

/// Subtracts a mean image.
class Mean : public detail::TransformBase<Mean> {
 public:
  /// `path` is the file with the mean image (`meanFile`), in OpenCV's XML or YAML.
  explicit Mean(std::string_view path) : TransformBase("Mean") {
    options_.Path("meanFile", std::string(path));
  }
};

/// Changes colors at random. Each radius is from 0 (no change) to 1. Methods return a changed copy.
class Color : public detail::TransformBase<Color> {
 public:
  Color() : TransformBase("Color") {}

  /// Adds or subtracts up to this fraction of the image's mean (`brightnessRadius`; default: 0).
  [[nodiscard]] Color Brightness(double radius) const {
    return With(&detail::Options::Real, "brightnessRadius", radius);
  }
  /// Multiplies values by a factor between 1 - `radius` and 1 + `radius` (`contrastRadius`;
  /// default: 0).
  [[nodiscard]] Color Contrast(double radius) const {
    return With(&detail::Options::Real, "contrastRadius", radius);
  }
  /// Multiplies the saturation by a factor between 1 - `radius` and 1 + `radius`
  /// (`saturationRadius`; default: 0).
  [[nodiscard]] Color Saturation(double radius) const {
    return With(&detail::Options::Real, "saturationRadius", radius);
  }
  /// Seed of the random draws (`seed`; default: 0). Transforms with equal seeds draw equal numbers.
  [[nodiscard]] Color Seed(std::uint32_t seed) const { return With(&detail::Options::Whole, "seed", seed); }
};

/// Changes the intensity at random along the principal components of colors. Methods return a
/// changed copy.
class Intensity : public detail::TransformBase<Intensity> {
 public:
  /// `std_dev` is the standard deviation of the draws (`intensityStdDev`). `path` is the file with
  /// `EigVal` and `EigVec` (`intensityFile`), in OpenCV's XML or YAML.
  Intensity(double std_dev, std::string_view path) : TransformBase("Intensity") {
    options_.Real("intensityStdDev", std_dev);
    options_.Path("intensityFile", std::string(path));
  }

  /// Seed of the random draws (`seed`; default: 0). Transforms with equal seeds draw equal numbers.
  [[nodiscard]] Intensity Seed(std::uint32_t seed) const {
    return With(&detail::Options::Whole, "seed", seed);
  }
};

/// Makes images planar: channel by channel instead of pixel by pixel. Only Cast may follow.
class Transpose : public detail::TransformBase<Transpose> {
 public:
  Transpose() : TransformBase("Transpose") {}
};

/// Converts an image's bytes to the stream's element type. It is always the last transform but for
/// a Transpose after it, and is implied if it is not added.
class Cast : public detail::TransformBase<Cast> {
 public:
  Cast() : TransformBase("Cast") {}
};

namespace detail {

/// Base of both image deserializers.
template <typename Derived>
class ImageDeserializerBase {
 public:
  /// Appends a transform. There are none by default: without a Transpose, samples have their values
  /// pixel by pixel.
  template <typename T>
  Derived& AddTransform(const TransformBase<T>& transform) & {
    options_.Check();
    transforms_.push_back(transform.options_);
    return Self();
  }
  /// Appends a user-defined transform under a name that is unique in the reader.
  Derived& AddTransform(std::string name, std::shared_ptr<Transform> transform) & {
    options_.Check();
    transforms_.emplace_back(name);
    users_.emplace_back(std::move(name), std::move(transform));
    return Self();
  }
  /// Sets the element type of images (`element`; default: the reader's `precision`). kUInt8 keeps
  /// pixels as bytes; Mean, Color and Intensity are refused then.
  Derived& Element(ElementType element) & {
    options_.Check();
    element_ = element;
    return Self();
  }
  /// Decodes images to one channel (`grayscale`; default: false).
  Derived& Grayscale(bool grayscale = true) & { return Flag("grayscale", grayscale); }
  /// Makes ten sequences of each image, the views of Crop::MultiView (`multiViewCrop`; default:
  /// false).
  Derived& MultiView(bool multi_view = true) & { return Flag("multiViewCrop", multi_view); }
  /// Sets the maximum number of pixels of an image; a larger image is an error (`maxPixels`;
  /// default: 2^28).
  Derived& MaxPixels(std::uint64_t pixels) & {
    options_.Whole("maxPixels", pixels);
    return Self();
  }
  /// Makes random transforms depend only on their seed, the sweep and the sequence
  /// (`reproducibleTransforms`; default: that of the ReaderOptions). Otherwise they draw what CNTK
  /// draws, which depends on all minibatches read before.
  Derived& ReproducibleTransforms(bool reproducible = true) & {
    return Flag("reproducibleTransforms", reproducible);
  }
  /// Adds a dense stream with one sample of seven numbers per image, so that targets can follow
  /// crops and flips. They describe the part of the image that the transforms show, as the members
  /// of Draw do: left, top, width, height, 1 if mirrored or 0, source_width, source_height (`draw`;
  /// default: no such stream).
  Derived& Draws(std::string stream) & {
    options_.Check();
    draws_ = std::move(stream);
    return Self();
  }

  // The same for temporaries, so that calls can be chained.
  template <typename T>
  Derived&& AddTransform(const TransformBase<T>& transform) && {
    return std::move(AddTransform(transform));
  }
  Derived&& AddTransform(std::string name, std::shared_ptr<Transform> transform) && {
    return std::move(AddTransform(std::move(name), std::move(transform)));
  }
  Derived&& Element(ElementType element) && { return std::move(Element(element)); }
  Derived&& Grayscale(bool grayscale = true) && { return std::move(Grayscale(grayscale)); }
  Derived&& Draws(std::string stream) && { return std::move(Draws(std::move(stream))); }
  Derived&& MultiView(bool multi_view = true) && { return std::move(MultiView(multi_view)); }
  Derived&& MaxPixels(std::uint64_t pixels) && { return std::move(MaxPixels(pixels)); }
  Derived&& ReproducibleTransforms(bool reproducible = true) && {
    return std::move(ReproducibleTransforms(reproducible));
  }

  /// Returns the section as an element of `deserializers` in a configuration. Throws if a name
  /// cannot be written there.
  std::string Text() const { return All().Write(true); }

 protected:
  ImageDeserializerBase(const char* type, const std::string& file, std::string features, std::string labels,
                        std::size_t classes)
      : options_(type, "ImageReader"),
        features_(std::move(features)),
        labels_(std::move(labels)),
        classes_(classes) {
    options_.Path("file", file);
  }

  Derived& Flag(const char* key, bool flag) {
    options_.Flag(key, flag);
    return Self();
  }

 private:
  friend class reader::Deserializer;

  Derived& Self() { return static_cast<Derived&>(*this); }

  Options All() const {
    options_.Check();
    Options features, labels, draws;
    for (const Options& transform : transforms_) features.AddSection("transforms", transform);
    // Even without transforms, the key marks the stream of images.
    if (transforms_.empty()) features.Text("transforms", "()");
    if (element_) features.Text("element", WordOf(*element_));
    labels.Whole("labelDim", classes_);
    draws.Flag("draw", true);
    Streams streams = {{features_, std::move(features)}, {labels_, std::move(labels)}};
    if (draws_) streams.emplace_back(*draws_, std::move(draws));
    return WithStreams(options_, streams);
  }

  Options options_;
  std::string features_;
  std::string labels_;
  std::optional<std::string> draws_;
  std::size_t classes_;
  std::vector<Options> transforms_;
  std::optional<ElementType> element_;
  Transforms users_;
};

}  // namespace detail

/// Images in files or zip files, listed by a map file with their classes.
class ImageDeserializer : public detail::ImageDeserializerBase<ImageDeserializer> {
 public:
  /// Reads images as the dense stream `features` and their classes, numbers below `classes`, as the
  /// sparse stream `labels`.
  ImageDeserializer(const std::string& file, std::string features, std::string labels, std::size_t classes)
      : ImageDeserializerBase("ImageDeserializer", file, std::move(features), std::move(labels), classes) {}
};

/// Base64-encoded images in the lines of a file, with their classes.
class Base64ImageDeserializer : public detail::ImageDeserializerBase<Base64ImageDeserializer> {
 public:
  /// Reads images as the dense stream `features` and their classes, numbers below `classes`, as the
  /// sparse stream `labels`.
  Base64ImageDeserializer(const std::string& file, std::string features, std::string labels,
                          std::size_t classes)
      : ImageDeserializerBase("Base64ImageDeserializer", file, std::move(features), std::move(labels),
                              classes) {}

  /// Caches the index in a file next to the data, in CNTK's format (`cacheIndex`; default: false).
  Base64ImageDeserializer& CacheIndex(bool cache = true) & { return Flag("cacheIndex", cache); }
  Base64ImageDeserializer&& CacheIndex(bool cache = true) && { return std::move(CacheIndex(cache)); }
};

}  // namespace reader
}  // namespace cntk

#endif  // CNTK_READER_IMAGES_HPP
