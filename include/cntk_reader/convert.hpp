// Conversions between CNTK's text format and its binary one.
//
// A part of <cntk_reader.hpp>, which is the one to include.

#ifndef CNTK_READER_CONVERT_HPP
#define CNTK_READER_CONVERT_HPP

#include <cntk_reader.h>

#include <cntk_reader/error.hpp>
#include <cstdint>
#include <exception>
#include <functional>
#include <string>

namespace cntk {
namespace reader {

/// Called with how far a conversion has come: bytes of the input that are done, bytes that it has, sequences
/// written. Returns false to stop.
using ProgressCallback =
    std::function<bool(std::uint64_t bytes, std::uint64_t total, std::uint64_t sequences)>;

/// How ConvertTextToBinary writes.
struct ConversionOptions {
  std::uint64_t chunk_size = 32 << 20;  ///< Bytes of a chunk; 0 makes every sequence a chunk.
  bool double_precision = false;        ///< Values are doubles.
  bool ctf2bin_compatible = false;  ///< Cut chunks as ctf2bin.py does, one sequence to each after the first.
};

namespace detail {

inline void Convert(cntk_reader_direction direction, const std::string& input, const std::string& output,
                    const std::string* streams, const ConversionOptions& options,
                    const ProgressCallback& progress) {
  struct State {
    const ProgressCallback& progress;
    std::exception_ptr thrown;
  } state{progress, nullptr};
  cntk_reader_conversion conversion = CNTK_READER_CONVERSION_INIT;
  conversion.direction = static_cast<std::uint32_t>(direction);
  conversion.input = input.c_str();
  conversion.output = output.c_str();
  conversion.streams = streams ? streams->c_str() : nullptr;
  conversion.chunk_size = options.chunk_size;
  conversion.double_precision = options.double_precision;
  conversion.ctf2bin_compatible = options.ctf2bin_compatible;
  conversion.userdata = &state;
  if (progress) {
    conversion.progress = [](void* userdata, std::uint64_t bytes, std::uint64_t total,
                             std::uint64_t sequences) -> std::uint32_t {
      auto* own = static_cast<State*>(userdata);
      try {
        return own->progress(bytes, total, sequences) ? 0 : 1;
      } catch (...) {
        own->thrown = std::current_exception();
        return 1;
      }
    };
  }
  try {
    Call(cntk_reader_conversion_run, &conversion);
  } catch (...) {
    if (state.thrown) std::rethrow_exception(state.thrown);
    throw;
  }
}

}  // namespace detail

/// Converts a text file (CTF) to a binary one (CBF); `streams` has a line `name alias dense|sparse dimension`
/// for each stream. The output appears when it is complete. An exception of `progress` stops the conversion
/// and comes through.
inline void ConvertTextToBinary(const std::string& input, const std::string& output,
                                const std::string& streams, const ConversionOptions& options = {},
                                const ProgressCallback& progress = {}) {
  detail::Convert(CNTK_READER_DIRECTION_TEXT_TO_BINARY, input, output, &streams, options, progress);
}

/// Converts a binary file to a text one that reads back to the same bits. Otherwise as ConvertTextToBinary.
inline void ConvertBinaryToText(const std::string& input, const std::string& output,
                                const ProgressCallback& progress = {}) {
  detail::Convert(CNTK_READER_DIRECTION_BINARY_TO_TEXT, input, output, nullptr, {}, progress);
}

}  // namespace reader
}  // namespace cntk

#endif  // CNTK_READER_CONVERT_HPP
