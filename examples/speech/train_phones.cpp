// train_phones: learns which phone a frame of speech belongs to, and can be stopped and resumed at
// any minibatch.
//
//   train_phones [--data DIR] [--epochs N] [--checkpoint FILE [--checkpoint-every N]] [--resume]
//   [--stop-after N]
//
// DIR contains the output of make_speech.py: HTK archives with script files, labels, and the list
// of phones. A sample is a frame with five neighbours on each side, of 20 values each; frames are
// read in random order. The options are those of train_digits: a training that was stopped and
// resumed ends with the same weights.
//
// The program fails unless it recognizes 95 % of the test part's frames after the last epoch.

#include <cntk_reader.hpp>
#include <cstdio>
#include <exception>
#include <string>

#include "options.hpp"
#include "training.hpp"

namespace {

namespace cr = cntk::reader;

constexpr std::size_t kValues = 20;  // Per frame.
constexpr std::size_t kNeighbours = 5;
constexpr std::size_t kInputs = kValues * (2 * kNeighbours + 1);
constexpr std::size_t kPhones = 10;

constexpr Training::Task kTask = {"train_phones",
                                  kInputs,
                                  /* hidden */ 48,
                                  kPhones,
                                  /* minibatch */ 64,
                                  /* learning rate */ 0.02F,
                                  /* accuracy */ 95};

// Opens a part of the corpus, `train` or `test`, in frame mode. Labels are sparse: one value per
// frame.
cr::Reader OpenPart(const std::string& folder, const std::string& part, bool randomize) {
  const std::string at = folder + "/";
  const std::string context = std::to_string(kNeighbours) + ":" + std::to_string(kNeighbours);
  return cr::Reader::FromText("frameMode = true ; randomize = " + std::string(randomize ? "true" : "false") +
                              R"(
    deserializers = (
      [ type = "HTKFeatureDeserializer" ; module = "HTKDeserializers"
        input = [ features = [
          scpFile = ")" + at + part +
                              R"(.scp"
          dim = )" + std::to_string(kValues) +
                              R"(
          contextWindow = ()" +
                              context +
                              R"()
        ] ] ] :
      [ type = "HTKMLFDeserializer" ; module = "HTKDeserializers"
        input = [ labels = [
          mlfFile = ")" + at + part +
                              R"(.mlf"
          labelMappingFile = ")" +
                              at + R"(phones.list"
          labelDim = )" + std::to_string(kPhones) +
                              R"(
        ] ] ] ))");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    Options defaults;
    defaults.data = "target/speech";
    defaults.epochs = 6;
    const Options options = ParseOptions(argc, argv, defaults);
    Training training(kTask, options, OpenPart(options.data, "train", true),
                      OpenPart(options.data, "test", false));
    return training.Run() ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train_phones: %s\n", error.what());
    return 1;
  }
}
