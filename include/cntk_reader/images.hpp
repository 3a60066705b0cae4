// Typed configurations of the deserializers of images, and of the transforms of their images.
//
//     cr::Reader reader = cr::Reader::Open(
//         cr::ImageDeserializer("train.map", "features", "labels", 1000)
//             .AddTransform(cr::Crop::Random().SideRatio(0.5f, 1).Jitter())
//             .AddTransform(cr::Scale(224, 224, 3))
//             .AddTransform(cr::Transpose()));
//
// Whatever is not set has the default that docs/configuration.md says.
//
// A part of <cntk_reader.hpp>, which is the one to include.

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

/// What all transforms of the library have: methods return a changed copy, so that calls can be chained.
template <typename Derived>
class TransformBase {
 public:
  /// The section that a configuration would have in `transforms`.
  std::string Text() const { return options_.Write(true); }

 protected:
  explicit TransformBase(const char* type) : options_(std::string(type)) {}

  /// A copy with an option set by one of the setters of Options.
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

/// Cuts a part out of images, whose size is either given (Size) or a share of the image's. Without either it
/// is the whole image. Methods return a changed copy.
class Crop : public detail::TransformBase<Crop> {
 public:
  /// The middle of the image (`cropType = "Center"`).
  static Crop Center() { return Crop("Center"); }
  /// A part at a random place (`cropType = "RandomSide"`); half of the images are mirrored unless Flip says
  /// otherwise.
  static Crop Random() { return Crop("RandomSide"); }
  /// Corners and middle, plain and mirrored, one after the other (`cropType = "MultiView10"`): of the ten
  /// sequences that each image has with ImageDeserializer::MultiView.
  static Crop MultiView() { return Crop("MultiView10"); }

  /// Columns and rows, at most those of the image (`cropSize`; default: not given).
  [[nodiscard]] Crop Size(std::uint32_t width, std::uint32_t height) const {
    return With(&detail::Options::Pair, "cropSize", width, height);
  }
  /// Both sides' length as a share of the image's shorter side, above 0 and up to 1 (`sideRatio`; default:
  /// not given). Only with Jitter it is drawn between the two numbers; otherwise it is `least`.
  [[nodiscard]] Crop SideRatio(float least, float greatest) const {
    return Between("sideRatio", least, greatest);
  }
  /// The area as a share of the image's, above 0 and up to 1 (`areaRatio`; default: not given). Only with
  /// Jitter it is drawn between the two numbers; otherwise it is `least`.
  [[nodiscard]] Crop AreaRatio(float least, float greatest) const {
    return Between("areaRatio", least, greatest);
  }
  /// The longer side divided by the shorter one or the other way round, at random (`aspectRatio`; default:
  /// 1). Only with Jitter it is drawn between the two numbers; otherwise it is `least`.
  [[nodiscard]] Crop AspectRatio(float least, float greatest) const {
    return Between("aspectRatio", least, greatest);
  }
  /// Ratios are drawn between their bounds (`jitterType = "UniRatio"`; default: false).
  [[nodiscard]] Crop Jitter(bool jitter = true) const {
    return With(&detail::Options::Text, "jitterType", jitter ? "UniRatio" : "None");
  }
  /// Half of the images are mirrored (`hflip`; default: true for Random, else false).
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

/// How values between pixels come about.
enum class Interpolation {
  kNearest,  ///< The pixel to the left and above.
  kLinear,   ///< Of 2 times 2 pixels.
  kCubic,    ///< Of 4 times 4 pixels.
  kLanczos,  ///< Of 8 times 8 pixels.
};

/// What becomes of an image that has other proportions than its new size.
enum class ScaleMode {
  kFill,  ///< It is stretched.
  kCrop,  ///< Its middle is taken.
  kPad,   ///< The rest is filled: see Scale::PadValue.
};

/// Gives images a size. Methods return a changed copy.
class Scale : public detail::TransformBase<Scale> {
 public:
  /// Columns, rows, and the number of channels that the images have.
  Scale(std::uint32_t width, std::uint32_t height, std::uint32_t channels) : TransformBase("Scale") {
    options_.Whole("width", width);
    options_.Whole("height", height);
    options_.Whole("channels", channels);
  }

  /// How values between pixels come about (`interpolations`; default: linear).
  [[nodiscard]] Scale Interpolate(Interpolation interpolation) const {
    static constexpr const char* kWords[] = {"nearest", "linear", "cubic", "lanczos"};
    return With(&detail::Options::Text, "interpolations", kWords[static_cast<int>(interpolation)]);
  }
  /// What becomes of images with other proportions (`scaleMode`; default: fill).
  [[nodiscard]] Scale Mode(ScaleMode mode) const {
    static constexpr const char* kWords[] = {"fill", "crop", "pad"};
    return With(&detail::Options::Text, "scaleMode", kWords[static_cast<int>(mode)]);
  }
  /// What ScaleMode::kPad fills the rest with (`padValue`; default: the values at the border).
  [[nodiscard]] Scale PadValue(std::uint32_t value) const {
    return With(&detail::Options::Whole, "padValue", value);
  }
};

/// Subtracts a mean image.
class Mean : public detail::TransformBase<Mean> {
 public:
  /// `path`: of the file with the mean image (`meanFile`), in OpenCV's XML or YAML.
  explicit Mean(std::string_view path) : TransformBase("Mean") {
    options_.Path("meanFile", std::string(path));
  }
};

/// Changes colors at random. Each radius is from 0, which changes nothing, to 1. Methods return a changed
/// copy.
class Color : public detail::TransformBase<Color> {
 public:
  Color() : TransformBase("Color") {}

  /// Adds up to this share of the image's mean, or subtracts it (`brightnessRadius`; default: 0).
  [[nodiscard]] Color Brightness(double radius) const {
    return With(&detail::Options::Real, "brightnessRadius", radius);
  }
  /// Multiplies values by 1, more or less up to this (`contrastRadius`; default: 0).
  [[nodiscard]] Color Contrast(double radius) const {
    return With(&detail::Options::Real, "contrastRadius", radius);
  }
  /// Multiplies the saturation by 1, more or less up to this (`saturationRadius`; default: 0).
  [[nodiscard]] Color Saturation(double radius) const {
    return With(&detail::Options::Real, "saturationRadius", radius);
  }
  /// Seed of the random draws (`seed`; default: 0). Transforms with equal seeds draw equal numbers.
  [[nodiscard]] Color Seed(std::uint32_t seed) const { return With(&detail::Options::Whole, "seed", seed); }
};

/// Changes the intensity at random, along the principal components of colors. Methods return a changed copy.
class Intensity : public detail::TransformBase<Intensity> {
 public:
  /// `std_dev`: standard deviation of what is drawn (`intensityStdDev`). `path`: of the file with `EigVal`
  /// and `EigVec` (`intensityFile`), in OpenCV's XML or YAML.
  Intensity(double std_dev, std::string_view path) : TransformBase("Intensity") {
    options_.Real("intensityStdDev", std_dev);
    options_.Path("intensityFile", std::string(path));
  }

  /// Seed of the random draws (`seed`; default: 0). Transforms with equal seeds draw equal numbers.
  [[nodiscard]] Intensity Seed(std::uint32_t seed) const {
    return With(&detail::Options::Whole, "seed", seed);
  }
};

/// Makes planes of images: channel after channel instead of pixel after pixel. Only Cast may follow.
class Transpose : public detail::TransformBase<Transpose> {
 public:
  Transpose() : TransformBase("Transpose") {}
};

/// Makes numbers of the stream's element type of an image's bytes. It is always the last transform, whether
/// it is added or not; only Transpose may follow another one.
class Cast : public detail::TransformBase<Cast> {
 public:
  Cast() : TransformBase("Cast") {}
};

namespace detail {

/// What both deserializers of images have.
template <typename Derived>
class ImageDeserializerBase {
 public:
  /// Adds a transform, which follows those added before. None is added by itself: without a Transpose,
  /// samples have their values pixel after pixel.
  template <typename T>
  Derived& AddTransform(const TransformBase<T>& transform) & {
    transforms_.push_back(transform.options_);
    return Self();
  }
  /// Adds a transform of the user's own, under a name that no other transform of the reader has.
  Derived& AddTransform(std::string name, std::shared_ptr<Transform> transform) & {
    transforms_.emplace_back(name);
    users_.emplace_back(std::move(name), std::move(transform));
    return Self();
  }
  /// Type of the values of images (`element`; default: the reader's `precision`). With kUInt8 pixels stay the
  /// bytes that they are; Mean, Color and Intensity are refused then.
  Derived& Element(ElementType element) & {
    element_ = element;
    return Self();
  }
  /// Decodes images to one channel (`grayscale`; default: false).
  Derived& Grayscale(bool grayscale = true) & { return Flag("grayscale", grayscale); }
  /// Each image stands for ten sequences, the views of Crop::MultiView (`multiViewCrop`; default: false).
  Derived& MultiView(bool multi_view = true) & { return Flag("multiViewCrop", multi_view); }
  /// Most columns times rows of an image that are decoded; a larger one is an error (`maxPixels`; default:
  /// 2^28).
  Derived& MaxPixels(std::uint64_t pixels) & {
    options_.Whole("maxPixels", pixels);
    return Self();
  }
  /// Random transforms depend on nothing but their seed, the sweep and the sequence
  /// (`reproducibleTransforms`; default: that of the ReaderOptions). Otherwise they draw what CNTK draws,
  /// which depends on all minibatches read before.
  Derived& ReproducibleTransforms(bool reproducible = true) & {
    return Flag("reproducibleTransforms", reproducible);
  }
  /// Adds a dense stream with a sample of seven numbers for each image, so that targets can follow crops and
  /// flips: what the transforms show of it, as the members of Draw: left, top, width, height, 1 if mirrored
  /// or 0, source_width, source_height (`draw`; default: no such stream).
  Derived& Draws(std::string stream) & {
    draws_ = std::move(stream);
    return Self();
  }

  // The same for temporary objects, so that calls can be chained.
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

  /// The section that a configuration would have in `deserializers`. Throws if a name cannot be written
  /// there.
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
    Options features, labels, draws;
    for (const Options& transform : transforms_) features.AddSection("transforms", transform);
    if (transforms_.empty()) features.Text("transforms", "()");  // The key marks the stream of images.
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

/// Images in files, or in zip files, which a map file lists with their classes.
class ImageDeserializer : public detail::ImageDeserializerBase<ImageDeserializer> {
 public:
  /// Reads images as the dense stream `features` and their classes, numbers below `classes`, as the sparse
  /// stream `labels`.
  ImageDeserializer(const std::string& file, std::string features, std::string labels, std::size_t classes)
      : ImageDeserializerBase("ImageDeserializer", file, std::move(features), std::move(labels), classes) {}
};

/// Images in the lines of a file, encoded as Base64, with their classes.
class Base64ImageDeserializer : public detail::ImageDeserializerBase<Base64ImageDeserializer> {
 public:
  /// Reads images as the dense stream `features` and their classes, numbers below `classes`, as the sparse
  /// stream `labels`.
  Base64ImageDeserializer(const std::string& file, std::string features, std::string labels,
                          std::size_t classes)
      : ImageDeserializerBase("Base64ImageDeserializer", file, std::move(features), std::move(labels),
                              classes) {}

  /// Keeps the index in a file beside the data, in CNTK's format (`cacheIndex`; default: false).
  Base64ImageDeserializer& CacheIndex(bool cache = true) & { return Flag("cacheIndex", cache); }
  Base64ImageDeserializer&& CacheIndex(bool cache = true) && { return std::move(CacheIndex(cache)); }
};

}  // namespace reader
}  // namespace cntk

#endif  // CNTK_READER_IMAGES_HPP
