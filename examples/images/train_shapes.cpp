// train_shapes: learns which shape a small picture shows, and can be stopped and resumed at any
// minibatch.
//
//   train_shapes [--data DIR] [--epochs N] [--checkpoint FILE [--checkpoint-every N]] [--resume]
//   [--stop-after N]
//
// DIR contains the output of make_images.py: pictures in a zip file, and map files. Each time a
// picture is read, it is cropped, mirrored and colored anew. With `reproducibleTransforms` the
// random draws depend only on the picture and the sweep: a training that was stopped and resumed
// reads the same pixels, and ends with bit-identical weights.
//
// The program fails unless it recognizes 95 % of the test part's pictures after the last epoch.

#include <cntk_reader.hpp>
#include <cstdio>
#include <exception>
#include <string>

#include "options.hpp"
#include "training.hpp"

namespace {

namespace cr = cntk::reader;

constexpr std::size_t kSide = 16;  // Columns and rows of a picture.
constexpr std::size_t kShapes = 6;

constexpr Training::Task kTask = {"train_shapes",     /* inputs */ 3 * kSide* kSide,
                                  /* hidden */ 48,    kShapes,
                                  /* minibatch */ 32, /* learning rate */ 0.02F,
                                  /* accuracy */ 95};

// Transforms of the training part. (Pictures of the test part are not changed.)
constexpr char kAugmentation[] = R"(
  [ type = "Crop" ; cropType = "RandomSide" ; sideRatio = 0.8:1 ; jitterType = "UniRatio" ] :
  [ type = "Scale" ; width = 16 ; height = 16 ; channels = 3 ] :
  [ type = "Color" ; brightnessRadius = 0.2 ; contrastRadius = 0.2 ; saturationRadius = 0.2 ] :)";

// Opens a part of the pictures, `train` or `test`. Labels are sparse: one value per picture.
cr::Reader OpenPart(const std::string& folder, const std::string& part) {
  const bool is_training = part == "train";
  return cr::Reader::FromText("randomize = " + std::string(is_training ? "true" : "false") + R"(
    reproducibleTransforms = true
    deserializers = ( [
      type = "ImageDeserializer" ; module = "ImageReader"
      file = ")" + folder + "/" +
                              part + R"(.txt"
      input = [
        features = [ transforms = ( )" +
                              std::string(is_training ? kAugmentation : "") + R"( [ type = "Transpose" ] ) ]
        labels = [ labelDim = )" +
                              std::to_string(kShapes) + R"( ]
      ] ] ))");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    Options defaults;
    defaults.data = "target/images";
    defaults.epochs = 20;
    const Options options = ParseOptions(argc, argv, defaults);
    Training training(kTask, options, OpenPart(options.data, "train"), OpenPart(options.data, "test"));
    return training.Run() ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train_shapes: %s\n", error.what());
    return 1;
  }
}
