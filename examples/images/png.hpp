// Writes PNG files with 8-bit red, green and blue, uncompressed, without other libraries.

#ifndef EXAMPLES_PNG_HPP
#define EXAMPLES_PNG_HPP

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

// A picture: rows of pixels, each red, green, blue.
struct Picture {
  Picture(std::size_t columns, std::size_t rows, std::uint8_t gray)
      : width(columns), height(rows), pixels(3 * columns * rows, gray) {}

  std::uint8_t* At(std::size_t x, std::size_t y) { return &pixels[3 * (y * width + x)]; }

  std::size_t width, height;
  std::vector<std::uint8_t> pixels;
};

namespace png {

// Returns the checksum of a chunk.
inline std::uint32_t Crc(const std::string& bytes) {
  std::uint32_t crc = 0xffffffff;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return ~crc;
}

// Returns the checksum of a deflate stream.
inline std::uint32_t Adler(const std::string& bytes) {
  std::uint32_t a = 1, b = 0;
  for (const char byte : bytes) {
    a = (a + static_cast<unsigned char>(byte)) % 65521;
    b = (b + a) % 65521;
  }
  return b << 16 | a;
}

inline std::string BigEndian(std::size_t number) {
  std::string bytes(4, '\0');
  for (int i = 0; i < 4; ++i) bytes[3 - i] = static_cast<char>(number >> (8 * i));
  return bytes;
}

inline std::string Chunk(const std::string& kind, const std::string& data) {
  return BigEndian(data.size()) + kind + data + BigEndian(Crc(kind + data));
}

// Returns a deflate stream of stored blocks.
inline std::string Stored(const std::string& bytes) {
  std::string stream = "\x78\x01";
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t size = std::min<std::size_t>(bytes.size() - at, 65535);
    stream += at + size == bytes.size() ? '\1' : '\0';
    for (const std::size_t number : {size, ~size}) {
      stream += static_cast<char>(number);
      stream += static_cast<char>(number >> 8);
    }
    stream.append(bytes, at, size);
    at += size;
  }
  return stream + BigEndian(Adler(bytes));
}

}  // namespace png

// Throws if the file cannot be written.
inline void WritePng(const std::string& path, const Picture& picture) {
  std::string lines;
  const std::size_t stride = 3 * picture.width;
  for (std::size_t y = 0; y < picture.height; ++y) {
    lines += '\0';  // The line is not filtered.
    lines.append(reinterpret_cast<const char*>(picture.pixels.data()) + y * stride, stride);
  }
  // 8 bits, three channels, not interlaced.
  const std::string header =
      png::BigEndian(picture.width) + png::BigEndian(picture.height) + std::string("\x8\x2\0\0\0", 5);
  std::ofstream file(path, std::ios::binary);
  file << "\x89PNG\r\n\x1a\n"
       << png::Chunk("IHDR", header) << png::Chunk("IDAT", png::Stored(lines)) << png::Chunk("IEND", "");
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
}

#endif  // EXAMPLES_PNG_HPP
