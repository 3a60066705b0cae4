// contact_sheet: shows the effect of transforms on images.
//
//   contact_sheet MAP SHEET.png [TRANSFORMS [COUNT]]
//
// MAP is a map file of images. SHEET.png gets two rows: the first COUNT (6) images, scaled to 96 x
// 72 pixels, and below each the result of TRANSFORMS, a file with `transforms = ( ... )` in the
// configuration language. The resulting images must have one size and be interleaved, so without
// `Transpose`. By default each image is cropped and mirrored at random, scaled, and its colors are
// changed.

#include <algorithm>
#include <cntk_reader.hpp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "png.hpp"

namespace {

namespace cr = cntk::reader;

constexpr std::size_t kGap = 4;  // Pixels around each image.
constexpr std::uint8_t kWhite = 255;

constexpr char kBefore[] = R"(transforms = ( [ type = "Scale" ; width = 96 ; height = 72 ; channels = 3 ] ))";

constexpr char kAfter[] = R"(
  transforms = (
    [ type = "Crop" ; cropType = "RandomSide" ; sideRatio = 0.5:0.9 ; jitterType = "UniRatio" ] :
    [ type = "Scale" ; width = 72 ; height = 72 ; channels = 3 ] :
    [ type = "Color" ; brightnessRadius = 0.2 ; contrastRadius = 0.2 ; saturationRadius = 0.4 ] ))";

// The first minibatch of images, in the order of the map file. Values are floats, interleaved: row
// by row, with the blue, green and red of a pixel next to each other.
struct Images {
  std::size_t width = 0, height = 0;
  cr::Minibatch minibatch;
};

Images Read(const std::string& map, const std::string& transforms, std::uint64_t count) {
  cr::Reader reader = cr::Reader::FromText(
      "randomize = false\n"
      "deserializers = ( [ type = \"ImageDeserializer\" ; module = \"ImageReader\" ; file = \"" +
      map + "\"\n  input = [ features = [ " + transforms +
      " ]\n            labels = [ labelDim = 1000 ] ] ] )\n");
  const std::vector<std::size_t> shape = reader.GetStreamDescriptions()[0].shape;
  if (shape.size() != 3 || shape[0] != 3)
    throw std::runtime_error(
        "the transforms must end with images of one size, in three colors, without Transpose");
  cr::EpochConfiguration epoch;
  epoch.minibatch_size = count;
  epoch.sweeps = 1;
  reader.StartEpoch(epoch);
  return {shape[1], shape[2], reader.GetMinibatch()};
}

// Copies images into the sheet, each centered in a cell, from row `top` on.
void Paint(const Images& images, std::size_t top, std::size_t cell, Picture& sheet) {
  const cr::StreamMinibatch features = images.minibatch["features"];
  for (std::size_t column = 0; column < features.Columns(); ++column) {
    const cr::Span<const float> values = features.Column<float>(column);
    const std::size_t left = kGap + column * (cell + kGap) + (cell - images.width) / 2;
    for (std::size_t y = 0; y < images.height; ++y) {
      for (std::size_t x = 0; x < images.width; ++x) {
        const float* const from = &values[3 * (y * images.width + x)];
        std::uint8_t* const to = sheet.At(left + x, top + y);
        for (std::size_t c = 0; c < 3; ++c)
          to[2 - c] = static_cast<std::uint8_t>(std::clamp(from[c], 0.0F, 255.0F) + 0.5F);
      }
    }
  }
}

std::string ReadText(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3 || argc > 5) {
    std::fprintf(stderr, "usage: contact_sheet MAP SHEET.png [TRANSFORMS [COUNT]]\n");
    return 2;
  }
  try {
    const std::uint64_t count = argc > 4 ? std::strtoull(argv[4], nullptr, 10) : 6;
    const Images before = Read(argv[1], kBefore, count);
    const Images after = Read(argv[1], argc > 3 ? ReadText(argv[3]) : kAfter, count);
    const std::size_t images = before.minibatch["features"].Columns();
    const std::size_t cell = std::max(before.width, after.width);
    Picture sheet(kGap + images * (cell + kGap), before.height + after.height + 3 * kGap, kWhite);
    Paint(before, kGap, cell, sheet);
    Paint(after, before.height + 2 * kGap, cell, sheet);
    WritePng(argv[2], sheet);
    std::printf("%zu images, a sheet of %zu x %zu pixels\n", images, sheet.width, sheet.height);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "contact_sheet: %s\n", error.what());
    return 1;
  }
}
