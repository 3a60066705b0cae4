// Images: typed configurations, and user-defined transforms.

#include <algorithm>

#include "data.hpp"

namespace {

// Returns a text without blanks and quotes, with ';' between lines.
std::string Dense(const std::string& text) {
  std::string dense;
  for (const char c : text) {
    if (c == '\n' && !dense.empty() && dense.back() != '[' && dense.back() != ';') dense += ';';
    if (c == ']' && !dense.empty() && dense.back() == ';') dense.pop_back();
    if (c != '\n' && c != ' ' && c != '"') dense += c;
  }
  return dense;
}

TEST(ImageConfiguration, SectionsOfTransforms) {
  EXPECT_EQ(Dense(cr::Crop::Center().Size(4, 5).Text()), "[type=Crop;cropType=Center;cropSize=4:5]");
  EXPECT_EQ(Dense(cr::Crop::Random()
                      .AreaRatio(0.25f, 1)
                      .AspectRatio(0.75f, 1.5f)
                      .Jitter()
                      .Flip(false)
                      .Seed(3)
                      .Text()),
            "[type=Crop;cropType=RandomSide;areaRatio=0.25:1;aspectRatio=0.75:1.5;jitterType=UniRatio;"
            "hflip=false;seed=3]");
  EXPECT_EQ(Dense(cr::Crop::MultiView().SideRatio(0.5f, 0.5f).Text()),
            "[type=Crop;cropType=MultiView10;sideRatio=0.5:0.5]");
  EXPECT_EQ(Dense(cr::Scale(4, 3, 1)
                      .Interpolate(cr::Interpolation::kLanczos)
                      .Mode(cr::ScaleMode::kPad)
                      .PadValue(9)
                      .Text()),
            "[type=Scale;width=4;height=3;channels=1;interpolations=lanczos;scaleMode=pad;padValue=9]");
  EXPECT_EQ(Dense(cr::Mean("mean.xml").Text()), "[type=Mean;meanFile=mean.xml]");
  EXPECT_EQ(Dense(cr::Color().Brightness(0.25).Contrast(0.5).Saturation(1).Seed(4).Text()),
            "[type=Color;brightnessRadius=0.25;contrastRadius=0.5;saturationRadius=1;seed=4]");
  EXPECT_EQ(Dense(cr::Intensity(0.5, "i.xml").Seed(5).Text()),
            "[type=Intensity;intensityStdDev=0.5;intensityFile=i.xml;seed=5]");
  EXPECT_EQ(Dense(cr::Mean("a\"b").Text()), "[type=Mean;meanFile=file:a%22b]");
  const auto minus = static_cast<std::uint32_t>(-1);
  EXPECT_THROW(cr::Scale(minus, 1, 1), cr::Error);
  EXPECT_THROW(cr::Scale(1, 1, 1).PadValue(minus).Text(), cr::Error);
  EXPECT_THROW(cr::Crop::Center().Size(1, minus).Text(), cr::Error);
  EXPECT_NO_THROW(cr::Crop::Random().Seed(minus).Text());
}

TEST(ImageConfiguration, SectionsOfDeserializers) {
  const auto images = cr::ImageDeserializer("train.map", "pixels", "classes", 7)
                          .Grayscale()
                          .MultiView()
                          .MaxPixels(99)
                          .ReproducibleTransforms()
                          .AddTransform(cr::Scale(4, 3, 1))
                          .AddTransform(cr::Transpose())
                          .AddTransform(cr::Cast());
  EXPECT_EQ(
      Dense(images.Text()),
      "[type=ImageDeserializer;module=ImageReader;file=train.map;grayscale=true;multiViewCrop=true;"
      "maxPixels=99;reproducibleTransforms=true;input=[pixels=[transforms=([type=Scale;width=4;height=3;"
      "channels=1]:[type=Transpose]:[type=Cast])];classes=[labelDim=7]]]");
  const auto base64 = cr::Base64ImageDeserializer("train.txt", "x", "y", 2).CacheIndex();
  EXPECT_EQ(Dense(base64.Text()),
            "[type=Base64ImageDeserializer;module=ImageReader;file=train.txt;cacheIndex=true;"
            "input=[x=[transforms=()];y=[labelDim=2]]]");
  EXPECT_THROW(cr::ImageDeserializer("m", "x", "x", 2).Text(), cr::Error);
  EXPECT_THROW(cr::ImageDeserializer("m", "x", "y", static_cast<std::size_t>(-1)).Text(), cr::Error);
  EXPECT_EQ(Dense(cr::ImageDeserializer("m", "x", "y", 2).Draws("d").Text()),
            "[type=ImageDeserializer;module=ImageReader;file=m;input=[x=[transforms=()];y=[labelDim=2];"
            "d=[draw=true]]]");
  EXPECT_EQ(Dense(cr::ImageDeserializer("m", "x", "y", 2).Element(cr::ElementType::kUInt8).Text()),
            "[type=ImageDeserializer;module=ImageReader;file=m;input=[x=[transforms=();element=uint8];"
            "y=[labelDim=2]]]");
  EXPECT_THROW(cr::ImageDeserializer("m", "x", "y", 2).Draws("").Text(), cr::Error);
  EXPECT_THROW(cr::ImageDeserializer("m", "x", "y", 2).Draws("Y").Text(), cr::Error);
}

// Records the draw of each image.
class Watch : public cr::Transform {
 public:
  void ApplyDrawn(const cr::ConstImage& image, const cr::MutableImage& result, std::uint64_t,
                  const cr::Draw& draw) override {
    std::copy_n(image.Bytes(), image.Info().ValueCount(), result.Bytes());
    draws.push_back(draw);
  }

  std::vector<cr::Draw> draws;
};

// Images of 8 columns and 6 rows whose pixels have their column as blue and their row as green.
class Draws : public DataTest {
 protected:
  std::string Map(int images) const {
    const std::uint32_t width = 8, height = 6, offset = 54, size = offset + width * height * 3;
    std::string bytes = "BM";
    const auto put = [&](std::uint32_t number) {
      for (int i = 0; i < 4; ++i) bytes += static_cast<char>(number >> (8 * i));
    };
    for (const std::uint32_t number :
         {size, 0u, offset, 40u, width, height, 1u | 24u << 16, 0u, size - offset, 0u, 0u, 0u, 0u})
      put(number);
    // Rows from the bottom up.
    for (std::uint32_t row = height; row-- > 0;)
      for (std::uint32_t column = 0; column < width; ++column)
        bytes += {static_cast<char>(column), static_cast<char>(row), '\0'};
    const std::string path = Write("image.bmp", bytes);
    std::string map;
    for (int i = 0; i < images; ++i) map += path + "\t0\n";
    return Write("images.map", map);
  }
};

TEST_F(Draws, MatchInTheStreamAndInTransforms) {
  const auto watch = std::make_shared<Watch>();
  cr::ReaderOptions options;
  options.randomize = false;
  options.multithreaded = false;
  cr::Reader reader = cr::Reader::Open(options, cr::ImageDeserializer(Map(20), "x", "y", 2)
                                                    .AddTransform(cr::Crop::Random().SideRatio(0.5f, 0.5f))
                                                    .AddTransform("Watch", watch)
                                                    .Draws("d"));
  cr::EpochConfiguration epoch;
  epoch.minibatch_size = 20;
  epoch.sweeps = 1;
  reader.StartEpoch(epoch);
  const cr::Minibatch minibatch = reader.GetMinibatch();
  const cr::StreamMinibatch d = minibatch["d"], x = minibatch["x"];
  ASSERT_EQ(d.Columns(), 20u);
  ASSERT_EQ(watch->draws.size(), 20u);
  int mirrored = 0;
  for (std::size_t i = 0; i < 20; ++i) {
    const auto numbers = d.Column<float>(i);
    const cr::Draw& draw = watch->draws[i];
    EXPECT_EQ(std::vector<double>(numbers.begin(), numbers.end()),
              (std::vector<double>{draw.left, draw.top, draw.width, draw.height, draw.is_mirrored ? 1.0 : 0.0,
                                   static_cast<double>(draw.source_width),
                                   static_cast<double>(draw.source_height)}));
    EXPECT_EQ((std::pair{draw.width, draw.height}), (std::pair{3.0, 3.0}));
    EXPECT_EQ((std::pair{draw.source_width, draw.source_height}), (std::pair{8u, 6u}));
    // The first pixel comes from the corner of the draw.
    const auto pixels = x.Column<float>(i);
    EXPECT_EQ(pixels[0], draw.is_mirrored ? draw.left + 2 : draw.left);
    EXPECT_EQ(pixels[1], draw.top);
    // The center of the part's left pixel is at 1/6, or at 5/6 if mirrored.
    const auto [across, down] = draw.Place(draw.left + 0.5, draw.top + 1.5);
    EXPECT_DOUBLE_EQ(across, draw.is_mirrored ? 5.0 / 6 : 1.0 / 6);
    EXPECT_DOUBLE_EQ(down, 0.5);
    mirrored += draw.is_mirrored ? 1 : 0;
  }
  EXPECT_TRUE(mirrored > 0 && mirrored < 20) << mirrored;
}

TEST_F(Draws, ImagesMayStayBytes) {
  const auto images = [&] {
    return cr::ImageDeserializer(Map(2), "x", "y", 2)
        .AddTransform(cr::Scale(8, 6, 3))
        .Element(cr::ElementType::kUInt8);
  };
  cr::Reader reader = cr::Reader::Open(images());
  reader.StartEpoch(Sweep(2));
  const cr::Minibatch minibatch = reader.GetMinibatch();
  EXPECT_EQ(minibatch["x"].Element(), cr::ElementType::kUInt8);
  EXPECT_EQ(minibatch["y"].Element(), cr::ElementType::kFloat);
  // Blue is the column, green the row: of the second pixel of the first row.
  const auto pixels = minibatch["x"].Column<std::uint8_t>(1);
  EXPECT_EQ(pixels.size(), 8u * 6 * 3);
  EXPECT_EQ((std::vector<int>(pixels.begin() + 3, pixels.begin() + 6)), (std::vector<int>{1, 0, 0}));
  const cr::Error error =
      ErrorOf([&] { cr::Reader::Open(images().AddTransform(cr::Color().Brightness(0.5))); });
  EXPECT_NE(std::string(error.what()).find("'Color'"), std::string::npos) << error.what();
}

// Without transforms images are delivered as decoded.
TEST_F(Draws, StreamNamesMayHaveAnyCharacters) {
  cr::Reader reader = cr::Reader::Open(cr::ImageDeserializer(Map(1), "a=b", "c d", 2).Draws("\"e;f\""));
  reader.StartEpoch(Sweep(1));
  const cr::Minibatch minibatch = reader.GetMinibatch();
  EXPECT_EQ(minibatch["a=b"].Column<float>(0).size(), 8u * 6 * 3);
  EXPECT_EQ(minibatch["c d"].Columns(), 1u);
  EXPECT_EQ(minibatch["\"e;f\""].Column<float>(0)[2], 8);
}

TEST_F(Draws, EveryTransformOfTheLibrary) {
  const std::string mean = Write("mean #\".xml",
                                 "<?xml version=\"1.0\"?><opencv_storage><MeanImg type_id=\"opencv-matrix\">"
                                 "<rows>1</rows><cols>12</cols><dt>f</dt><data>1 1 1 1 1 1 1 1 1 1 1 1</data>"
                                 "</MeanImg><Channel>3</Channel><Row>2</Row><Col>2</Col></opencv_storage>");
  const auto images = cr::ImageDeserializer(Map(3), "x", "y", 2)
                          .AddTransform(cr::Crop::Center().Size(4, 4).AspectRatio(1, 1).Jitter(false))
                          .AddTransform(cr::Scale(2, 2, 3).Mode(cr::ScaleMode::kPad).PadValue(3))
                          .AddTransform(cr::Color().Brightness(0).Contrast(1e-9).Saturation(0).Seed(1))
                          .AddTransform(cr::Mean(mean))
                          .AddTransform(cr::Transpose())
                          .AddTransform(cr::Cast());
  const auto values = [&](cr::Reader reader) {
    reader.StartEpoch(Sweep(3));
    const cr::Minibatch minibatch = reader.GetMinibatch();
    const auto sample = minibatch["x"].Column<float>(0);
    EXPECT_EQ(reader.GetStreamDescription("x").shape, (std::vector<std::size_t>{2, 2, 3}));
    return std::vector<float>(sample.begin(), sample.end());
  };
  const std::vector<float> by_types = values(cr::Reader::Open(images));
  EXPECT_EQ(by_types.size(), 12u);
  EXPECT_EQ(by_types, values(cr::Reader::FromText("deserializers = ( " + images.Text() + " )")));
}

// Overrides neither Apply nor ApplyDrawn.
TEST_F(Draws, TransformWithoutApplyIsAnError) {
  const auto nothing = std::make_shared<cr::Transform>();
  cr::Reader reader =
      cr::Reader::Open(cr::ImageDeserializer(Map(1), "x", "y", 2).AddTransform("No", nothing));
  reader.StartEpoch(Sweep(1));
  const cr::Error error = ErrorOf([&] { reader.GetMinibatch(); });
  EXPECT_EQ(error.Kind(), cr::ErrorKind::kUser);
  EXPECT_NE(std::string(error.what()).find("neither Apply nor ApplyDrawn"), std::string::npos)
      << error.what();
}

// Adds 100 to each value, and removes one row.
class Shift : public cr::Transform {
 public:
  cr::ImageInfo GetResult(const cr::ImageInfo& image) override {
    cr::ImageInfo result = image;
    --result.height;
    return result;
  }
  void Apply(const cr::ConstImage& image, const cr::MutableImage& result, std::uint64_t random) override {
    randoms.push_back(random);
    if (fail) throw std::runtime_error("no shift today");
    std::transform(image.Floats(), image.Floats() + result.Info().ValueCount(), result.Floats(),
                   [](float value) { return value + 100; });
  }

  std::vector<std::uint64_t> randoms;
  bool fail = false;
};

// Two sequences, of one and of two images, with 1 channel, 2 columns and 2 rows.
class Squares : public cr::UserDeserializer {
 public:
  std::vector<cr::UserStream> GetStreams() override { return {{"squares", {1, 2, 2}}}; }
  std::uint32_t GetChunkCount() override { return 1; }
  std::optional<cr::UserSequences> GetSequences(std::uint32_t) override {
    cr::UserSequences sequences;
    sequences.count = 2;
    sequences.lengths = {1, 2};
    return sequences;
  }
  cr::UserChunk GetChunk(std::uint32_t) override {
    const std::vector<float> values = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    return cr::UserChunk({cr::UserStreamData::Sequences(cr::DenseArray<float>(values), {1, 2})});
  }
};

constexpr char kText[] =
    "randomize = false\n"
    "deserializers = ( [ type = \"Squares\" ; input = [ squares = [ transforms = ( [ type = \"Shift\" ] ) ] "
    "] ] )";

std::vector<float> Read(cr::Reader reader) {
  cr::EpochConfiguration epoch;
  epoch.minibatch_size = 10;
  epoch.sweeps = 1;
  reader.StartEpoch(epoch);
  std::vector<float> values;
  for (const cr::Minibatch& minibatch : reader.Minibatches()) {
    const cr::StreamMinibatch squares = minibatch["squares"];
    EXPECT_EQ(reader.GetStreamDescription("squares").shape, (std::vector<std::size_t>{1, 2, 1}));
    for (std::size_t column = 0; column < squares.Columns(); ++column) {
      const auto sample = squares.Column<float>(column);
      values.insert(values.end(), sample.begin(), sample.end());
    }
  }
  return values;
}

TEST(UserTransforms, ApplyToAnyDenseStream) {
  const auto shift = std::make_shared<Shift>();
  std::vector<float> values =
      Read(cr::Reader::FromText(kText, {{"Squares", std::make_shared<Squares>()}}, {{"Shift", shift}}));
  std::sort(values.begin(), values.end());
  EXPECT_EQ(values, (std::vector<float>{0, 0, 100, 101, 104, 105, 108, 109}));  // With a gap.
  EXPECT_EQ(shift->randoms.size(), 3u);
  EXPECT_NE(shift->randoms[0], shift->randoms[1]);
  EXPECT_EQ(shift.use_count(), 1);
}

TEST(UserTransforms, ErrorsNameTheStream) {
  const auto shift = std::make_shared<Shift>();
  shift->fail = true;
  try {
    Read(cr::Reader::FromText(kText, {{"Squares", std::make_shared<Squares>()}}, {{"Shift", shift}}));
    FAIL();
  } catch (const cr::Error& error) {
    EXPECT_EQ(error.Kind(), cr::ErrorKind::kUser);
    EXPECT_NE(std::string(error.what()).find("no shift today"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("squares"), std::string::npos) << error.what();
  }
}

TEST(UserTransforms, AreSelectedByName) {
  const cr::UserDeserializers users = {{"Squares", std::make_shared<Squares>()}};
  EXPECT_THROW(cr::Reader::FromText(kText, users), cr::Error);
  EXPECT_THROW(cr::Reader::FromText(kText, users, {{"Shift", nullptr}}), cr::Error);
  const auto shift = std::make_shared<Shift>();
  EXPECT_THROW(cr::Reader::FromText(kText, users, {{"Shift", shift}, {"Shift", shift}}), cr::Error);
  EXPECT_EQ(shift.use_count(), 1);
}

}  // namespace
