// Test data: small text files in a folder that is removed after the test.

#ifndef CNTK_READER_CPP_TESTS_DATA_HPP
#define CNTK_READER_CPP_TESTS_DATA_HPP

#include <gtest/gtest.h>

#include <cntk_reader.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace cr = cntk::reader;

// A test with its own folder.
class DataTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "cntk-reader-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }

  void TearDown() override {
    cr::SetLogCallback({});
    std::filesystem::remove_all(folder_);
  }

  std::string Path(const std::string& name) const { return (folder_ / name).string(); }

  std::string Write(const std::string& name, const std::string& content) const {
    std::ofstream(Path(name), std::ios::binary) << content;
    return Path(name);
  }

  // Returns a configuration with a dense stream x of 2 values and a sparse stream y of 5, in the
  // order of the file. `deserializer` goes into the deserializer's section, `options` into the
  // reader's.
  std::string Configuration(const std::string& content, const std::string& options = "",
                            const std::string& deserializer = "") const {
    const std::string file = Write("data.ctf", content);
    return "randomize = false\n" + options + R"(
      deserializers = ( [
        type = "CNTKTextFormatDeserializer" ; module = "CNTKTextFormatReader"
        file = ")" +
           file + "\"\n" + deserializer + R"(
        input = [ x = [ dim = 2 ; format = "dense" ] ; y = [ dim = 5 ; format = "sparse" ] ]
      ] ))";
  }

  cr::Reader Open(const std::string& content, const std::string& options = "",
                  const std::string& deserializer = "") const {
    return cr::Reader::FromText(Configuration(content, options, deserializer));
  }

  // Returns an epoch of one sweep.
  static cr::EpochConfiguration Sweep(std::uint64_t minibatch_size) {
    cr::EpochConfiguration epoch;
    epoch.minibatch_size = minibatch_size;
    epoch.sweeps = 1;
    return epoch;
  }

  // Reads the rest of the epoch; returns the first value of stream x of every sample.
  static std::vector<float> Rest(cr::Reader& reader) {
    std::vector<float> values;
    for (const cr::Minibatch& minibatch : reader.Minibatches()) {
      const cr::StreamMinibatch x = minibatch["x"];
      for (const cr::Sequence& sequence : x.Sequences())
        for (std::size_t step = 0; step < sequence.Steps(); ++step)
          values.push_back(x.Column<float>(sequence.Column(step))[0]);
    }
    return values;
  }

  // Returns lines of one sample each, numbered from 0.
  static std::string Lines(int count) {
    std::string lines;
    for (int i = 0; i < count; ++i)
      lines += "|x " + std::to_string(i) + " " + std::to_string(-i) + " |y " + std::to_string(i % 5) + ":1\n";
    return lines;
  }

 private:
  std::filesystem::path folder_;
};

// Returns the error that some work throws.
template <typename Work>
cr::Error ErrorOf(Work&& work) {
  try {
    work();
  } catch (const cr::Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return cr::Error(cr::ErrorKind::kInternal, "no error");
}

#endif  // CNTK_READER_CPP_TESTS_DATA_HPP
