// Checkpoint files of a training: consecutive arrays of plain values, after a header with a
// checksum.
//
// A file is either complete or missing: it is written under a temporary name, flushed to disk, and
// renamed.

#ifndef EXAMPLES_ARCHIVE_HPP
#define EXAMPLES_ARCHIVE_HPP

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

// The FNV-1a hash, which suffices to detect damage and to compare results.
inline std::uint64_t Hash(const void* bytes, std::size_t size) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (std::size_t i = 0; i < size; ++i)
    hash = (hash ^ static_cast<const unsigned char*>(bytes)[i]) * 0x100000001b3;
  return hash;
}

class ArchiveWriter {
 public:
  // Appends an array of plain values.
  template <typename T>
  void Put(const T* values, std::size_t count) {
    const std::uint64_t size = count * sizeof(T);
    content_.append(reinterpret_cast<const char*>(&size), sizeof size);
    content_.append(reinterpret_cast<const char*>(values), size);
  }

  // Replaces the file atomically; on failure leaves it unchanged.
  void Save(const std::string& path) const {
    const std::string temporary = path + ".new";
    const std::uint64_t hash = Hash(content_.data(), content_.size());
    std::FILE* file = std::fopen(temporary.c_str(), "wb");
    bool good = file != nullptr;
    good = good && std::fwrite(&hash, sizeof hash, 1, file) == 1;
    good = good && std::fwrite(content_.data(), content_.size(), 1, file) == 1;
    good = good && std::fflush(file) == 0 && fsync(fileno(file)) == 0;
    if (file != nullptr) good = std::fclose(file) == 0 && good;
    if (!good || std::rename(temporary.c_str(), path.c_str()) != 0)
      throw std::runtime_error("cannot write '" + path + "'");
  }

 private:
  std::string content_;
};

class ArchiveReader {
 public:
  explicit ArchiveReader(const std::string& path) : path_(path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw std::runtime_error("cannot open '" + path + "'");
    content_.assign(std::istreambuf_iterator<char>(file), {});
    std::uint64_t hash = 0;
    Take(&hash, sizeof hash);
    if (hash != Hash(content_.data() + place_, content_.size() - place_)) Refuse();
  }

  // Reads the next array, whose size the caller knows.
  template <typename T>
  void Get(T* values, std::size_t count) {
    const std::string_view bytes = GetBytes();
    if (bytes.size() != count * sizeof(T)) Refuse();
    std::memcpy(values, bytes.data(), bytes.size());
  }

  // Returns the next array as bytes that are valid as long as this object.
  std::string_view GetBytes() {
    std::uint64_t size = 0;
    Take(&size, sizeof size);
    if (size > content_.size() - place_) Refuse();
    place_ += size;
    return std::string_view(content_).substr(place_ - size, size);
  }

 private:
  void Take(void* value, std::size_t size) {
    if (size > content_.size() - place_) Refuse();
    std::memcpy(value, content_.data() + place_, size);
    place_ += size;
  }

  [[noreturn]] void Refuse() const {
    throw std::runtime_error("'" + path_ + "' is damaged, or not a checkpoint of this program");
  }

  std::string path_, content_;
  std::size_t place_ = 0;
};

#endif  // EXAMPLES_ARCHIVE_HPP
