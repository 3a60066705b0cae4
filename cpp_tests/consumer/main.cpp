// A minimal program that uses the library: reads three samples and adds them up.

#include <cntk_reader.hpp>
#include <cstdio>
#include <fstream>

int main() {
  std::ofstream("consumer.ctf") << "|x 1\n|x 2\n|x 4\n";
  cntk::reader::Reader reader = cntk::reader::Reader::FromText(R"(
    randomize = false
    deserializers = ( [ type = "CNTKTextFormatDeserializer" ; module = "CNTKTextFormatReader" ; file = "consumer.ctf" ;
                        input = [ x = [ dim = 1 ; format = "dense" ] ] ] ))");
  cntk::reader::EpochConfiguration epoch;
  epoch.minibatch_size = 2;
  epoch.sweeps = 1;
  reader.StartEpoch(epoch);
  float sum = 0;
  for (const cntk::reader::Minibatch& minibatch : reader.Minibatches())
    for (const float value : minibatch["x"].Values<float>()) sum += value;
  std::printf("cntk_reader %s: the sum is %g\n", cntk::reader::Version(), static_cast<double>(sum));
  return sum == 7 ? 0 : 1;
}
