// Files of a user-defined file system, and compressed files.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cntk_reader.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace cr = cntk::reader;

namespace {

struct Counts {
  std::atomic<int> open{0};
  std::atomic<int> systems{0};
  std::atomic<int> busy{0};
  std::atomic<bool> is_broken{false};
};

std::string Lines() {
  std::string lines;
  for (int i = 0; i < 5000; ++i) lines += "|x " + std::to_string(i) + "\n";
  return lines;
}

class MemoryFile : public cr::RemoteFile {
 public:
  explicit MemoryFile(Counts& counts) : counts_(counts), content_(Lines()) { ++counts_.open; }
  ~MemoryFile() override { --counts_.open; }

  std::uint64_t Size() const override { return content_.size(); }
  std::size_t ReadAt(std::uint64_t offset, void* buffer, std::size_t capacity) const override {
    if (counts_.busy > 0 && counts_.busy-- > 0) throw cr::TryAgain("busy");
    if (counts_.is_broken) throw std::runtime_error("a broken line");
    const std::size_t count = std::min<std::size_t>({capacity, content_.size() - offset, 1000});
    std::memcpy(buffer, content_.data() + offset, count);
    return count;
  }
  std::string Identity() const override { return "v1"; }

 private:
  Counts& counts_;
  std::string content_;
};

class Memory : public cr::FileSystem {
 public:
  explicit Memory(Counts& counts) : counts_(counts) { ++counts_.systems; }
  ~Memory() override { --counts_.systems; }

  std::unique_ptr<cr::RemoteFile> Open(const std::string& path) const override {
    if (path != "cpp-test://lines") throw std::runtime_error("there is no " + path);
    return std::make_unique<MemoryFile>(counts_);
  }

 private:
  Counts& counts_;
};

std::vector<float> Values(const std::string& path) {
  auto reader = cr::Reader::FromText(
      "deserializers = [[ type = \"CNTKTextFormatDeserializer\" ; module = \"CNTKTextFormatReader\" ; file = "
      "\"" +
      path + "\" ; input = [ x = [ dim = 1 ; format = \"dense\" ] ] ]]");
  cr::EpochConfiguration epoch;
  epoch.minibatch_size = 100;
  epoch.sweeps = 1;
  reader.StartEpoch(epoch);
  std::vector<float> values;
  while (true) {
    const auto minibatch = reader.GetMinibatch();
    for (const float value : minibatch["x"].Values<float>()) values.push_back(value);
    if (minibatch.EndOfEpoch()) return values;
  }
}

TEST(Files, ComeFromAMountedFileSystem) {
  Counts counts;
  cr::MountFileSystem("cpp-test", std::make_shared<Memory>(counts));
  counts.busy = 3;
  auto values = Values("cpp-test://lines");
  ASSERT_EQ(values.size(), 5000u);
  std::sort(values.begin(), values.end());
  EXPECT_EQ(values.front(), 0);
  EXPECT_EQ(values.back(), 4999);
  EXPECT_EQ(counts.open, 0);
  EXPECT_EQ(counts.busy, 0);
  try {
    Values("cpp-test://nothing");
    FAIL() << "there is no such file";
  } catch (const cr::Error& error) {
    EXPECT_NE(std::string(error.what()).find("there is no cpp-test://nothing"), std::string::npos)
        << error.what();
  }
  counts.is_broken = true;
  try {
    Values("cpp-test://lines");
    FAIL() << "it cannot be read";
  } catch (const cr::Error& error) {
    EXPECT_EQ(error.Message(), "Error reading file 'cpp-test://lines': a broken line.");
  }
  EXPECT_THROW(cr::MountFileSystem("no scheme", std::make_shared<Memory>(counts)), cr::Error);
  EXPECT_EQ(counts.systems, 1);
  cr::MountFileSystem("cpp-test", nullptr);
  EXPECT_EQ(counts.systems, 0);
}

TEST(Files, AreCompressed) {
  const auto folder = std::filesystem::temp_directory_path() / "cntk_reader_files_test";
  std::filesystem::create_directories(folder);
  const std::string path = (folder / "lines.ctf").string();
  std::ofstream(path) << Lines();
  std::uint64_t done = 0;
  cr::CompressFile(path, path + ".zst", [&](std::uint64_t bytes, std::uint64_t, std::uint64_t) {
    done = bytes;
    return true;
  });
  EXPECT_EQ(done, std::filesystem::file_size(path));
  EXPECT_EQ(Values(path + ".zst"), Values(path));
  std::filesystem::remove_all(folder);
}

}  // namespace
