// Uses everything in the headers once, so that compilers instantiate their templates. Compiled with
// many warnings, never run.

#include <cntk_reader.hpp>

namespace cr = cntk::reader;

namespace {

class Numbers : public cr::UserDeserializer {
 public:
  std::vector<cr::UserStream> GetStreams() override { return {}; }
  std::uint32_t GetChunkCount() override { return 1; }
  cr::UserChunk GetChunk(std::uint32_t) override { return {}; }
};

}  // namespace

int main() {
  cr::ReaderOptions options;
  options.randomization_seed = 7;
  cr::EpochConfiguration epoch;
  epoch.minibatch_size = 32;
#if __cplusplus >= 202002L
  options = cr::ReaderOptions{.randomize = false, .precision = cr::ElementType::kDouble};
  epoch = cr::EpochConfiguration{.minibatch_size = 32, .sweeps = 1};
#endif
  cr::Reader reader = cr::Reader::Open(
      options,
      {cr::CtfDeserializer("train.ctf").Dense("x", 3).Sparse("y", 4).Alias("l").DefinesMinibatchSize(),
       cr::CbfDeserializer("train.cbf").Rename("a", "b").KeepDataInMemory(),
       cr::HtkFeatureDeserializer("features", "train.scp", 40).ContextWindow(5, 5).AddScpFile("more.scp"),
       cr::HtkMlfDeserializer("labels", "train.mlf", 132).StateList("states.list").PhoneBoundaries(),
       cr::HtkMlfBinaryDeserializer("more", "train.bin", 132).AddMlfFile("more.bin").CacheIndex(),
       cr::LatticeDeserializer("lattices", "train.idx").ChunkSize(1 << 20),
       cr::KaldiDeserializer::Archive("kaldi", "train.ark", 40).Sparse().MaxSequenceSize(1000),
       cr::NumpyDeserializer().Array("a", "train.npy").DefinesMinibatchSize().Lengths("lengths.npy"),
       {"numbers", std::make_shared<Numbers>()}});
  static_cast<void>(cr::Reader::Open(options, cr::CtfDeserializer("train.ctf").Dense("x", 3)));
  reader.StartEpoch(epoch);
  for (const cr::Minibatch& minibatch : reader.Minibatches()) {
    const cr::StreamMinibatch x = minibatch["x"];
    x.ForEachValue<float>(0, [](std::size_t, float) {});
    for (const cr::Sequence& sequence : x.Sequences())
      static_cast<void>(x.Column<double>(sequence.Column(0)));
  }
  reader.SetConfiguration(reader.GetConfiguration());
  reader.SetState(reader.GetState());
  reader.RestoreCheckpoint(reader.SaveCheckpoint());
  cr::SetLogCallback([](cr::LogLevel, std::string_view) {});
  cr::ConvertTextToBinary("a", "b", "c");
  cr::ConvertHtkToKaldi("a", "b");
  cr::ConvertKaldiToHtk("a", "b", {"c", "", false});
  cr::ConvertHtkToNumpy("a", "b");
  cr::ConvertKaldiToNumpy("a", "b");
  cr::ConvertMlfToKaldi("a", "b");
  cr::ConvertKaldiToMlf("a", "b");
  cr::ConvertMlfToText("a", "b", "c");
  cr::ConvertTextToMlf("a", "b", "c");
  cr::ConvertMlfToNumpy("a", "b");
  return static_cast<int>(reader.GetProgress().delivered + reader.GetMemory().Total() +
                          reader.SuggestChunkSize(2) + reader.GetMembers().size() +
                          reader.GetSizes().samples.value_or(0));
}
