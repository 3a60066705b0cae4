// Writes a small text file, and reads it.

#include <cntk_reader.hpp>
#include <cstdio>
#include <fstream>

int main() {
  using namespace cntk::reader;
  std::ofstream("read.ctf") << "|x 1 2\n|x 3 4\n|x 5 6\n";
  CtfDeserializer data("read.ctf");
  Reader reader = Reader::Open({data.Dense("x", 2)});
  EpochConfiguration epoch;
  epoch.minibatch_size = 3;
  epoch.sweeps = 1;
  reader.StartEpoch(epoch);
  double sum = 0;
  size_t samples = 0;
  for (const Minibatch& minibatch : reader.Minibatches()) {
    StreamMinibatch x = minibatch["x"];
    samples += x.Samples();
    for (float value : x.Values<float>()) sum += value;
  }
  std::printf("%zu samples, sum %g\n", samples, sum);
  return samples == 3 && sum == 21 ? 0 : 1;
}
