// Conversions between CNTK's text and binary formats, and between speech formats.
//
// Part of <cntk_reader.hpp>; include that.

#ifndef CNTK_READER_CONVERT_HPP
#define CNTK_READER_CONVERT_HPP

#include <cntk_reader.h>

#include <cntk_reader/callback.hpp>
#include <cntk_reader/error.hpp>
#include <cstdint>
#include <exception>
#include <functional>
#include <string>

namespace cntk {
namespace reader {

/// Reports the progress of a conversion: bytes of the input processed, total bytes of the input,
/// and sequences written. Returns false to stop.
using ProgressCallback =
    std::function<bool(std::uint64_t bytes, std::uint64_t total, std::uint64_t sequences)>;

/// Options of ConvertTextToBinary.
struct ConversionOptions {
  std::uint64_t chunk_size = 32 << 20;  ///< Bytes per chunk; 0 makes every sequence a chunk.
  bool double_precision = false;        ///< Writes values as doubles.
  /// Forms chunks as CNTK's ctf2bin.py does: one sequence per chunk after the first chunk.
  bool ctf2bin_compatible = false;
};

/// Options of speech conversions. Empty strings are ignored.
struct SpeechConversionOptions {
  /// Path of the script to write, which lists the utterances of an HTK or Kaldi archive.
  std::string script;
  /// Path of the list of states of a label file. Without it the file must have class numbers.
  std::string states;
  /// Numbers the sequences of a text file from 0 instead of using the utterances' keys as ids.
  bool number_ids = false;
};

namespace detail {

inline void Convert(cntk_reader_direction direction, const std::string& input, const std::string& output,
                    cntk_reader_conversion conversion, const ProgressCallback& progress) {
  struct RunState {
    const ProgressCallback& progress;
    std::exception_ptr thrown;
  } state{progress, nullptr};
  conversion.direction = static_cast<std::uint32_t>(direction);
  conversion.input = input.c_str();
  conversion.output = output.c_str();
  conversion.userdata = &state;
  if (progress) {
    conversion.progress = Callback(+[](void* userdata, std::uint64_t bytes, std::uint64_t total,
                                       std::uint64_t sequences) noexcept -> std::uint32_t {
      auto* own = static_cast<RunState*>(userdata);
      try {
        return own->progress(bytes, total, sequences) ? 0 : 1;
      }
      CNTK_READER_CATCH_THREAD_END
      catch (...) {
        own->thrown = std::current_exception();
      }
      return 1;
    });
  }
  try {
    Call(cntk_reader_conversion_run, &conversion);
  } catch (...) {
    if (state.thrown) std::rethrow_exception(state.thrown);
    throw;
  }
}

inline void ConvertSpeech(cntk_reader_direction direction, const std::string& input,
                          const std::string& output, const std::string& stream,
                          const SpeechConversionOptions& options, const ProgressCallback& progress) {
  cntk_reader_conversion conversion = CNTK_READER_CONVERSION_INIT;
  conversion.streams = stream.empty() ? nullptr : stream.c_str();
  conversion.script = options.script.empty() ? nullptr : options.script.c_str();
  conversion.states = options.states.empty() ? nullptr : options.states.c_str();
  conversion.number_ids = options.number_ids;
  Convert(direction, input, output, conversion, progress);
}

}  // namespace detail

/// Converts a text file (CTF) to a binary file (CBF). `streams` has one line
/// `name alias dense|sparse dimension` per stream. The output appears only when complete. An
/// exception thrown by `progress` stops the conversion and is rethrown.
inline void ConvertTextToBinary(const std::string& input, const std::string& output,
                                const std::string& streams, const ConversionOptions& options = {},
                                const ProgressCallback& progress = {}) {
  cntk_reader_conversion conversion = CNTK_READER_CONVERSION_INIT;
  conversion.streams = streams.c_str();
  conversion.chunk_size = options.chunk_size;
  conversion.double_precision = options.double_precision;
  conversion.ctf2bin_compatible = options.ctf2bin_compatible;
  detail::Convert(CNTK_READER_DIRECTION_TEXT_TO_BINARY, input, output, conversion, progress);
}

/// Converts a binary file to a text file that reads back to the same bits. Otherwise like
/// ConvertTextToBinary.
inline void ConvertBinaryToText(const std::string& input, const std::string& output,
                                const ProgressCallback& progress = {}) {
  cntk_reader_conversion conversion = CNTK_READER_CONVERSION_INIT;
  detail::Convert(CNTK_READER_DIRECTION_BINARY_TO_TEXT, input, output, conversion, progress);
}

/// Converts HTK features, listed by the script `input`, to a Kaldi archive of float matrices, and
/// optionally writes its script `options.script`. Otherwise, this and all functions below are like
/// ConvertTextToBinary.
inline void ConvertHtkToKaldi(const std::string& input, const std::string& output,
                              const SpeechConversionOptions& options = {},
                              const ProgressCallback& progress = {}) {
  detail::ConvertSpeech(CNTK_READER_DIRECTION_HTK_TO_KALDI, input, output, {}, options, progress);
}

/// Converts features of a Kaldi script (`.scp`) or archive to one big-endian HTK archive with 10 ms
/// per frame. Its script `options.script` is required.
inline void ConvertKaldiToHtk(const std::string& input, const std::string& output,
                              const SpeechConversionOptions& options, const ProgressCallback& progress = {}) {
  detail::ConvertSpeech(CNTK_READER_DIRECTION_KALDI_TO_HTK, input, output, {}, options, progress);
}

/// Converts HTK features to a NumPy archive (`.npz`): one float32 array of frames times values per
/// utterance, named by its key.
inline void ConvertHtkToNumpy(const std::string& input, const std::string& output,
                              const ProgressCallback& progress = {}) {
  detail::ConvertSpeech(CNTK_READER_DIRECTION_HTK_TO_NUMPY, input, output, {}, {}, progress);
}

/// Converts features of a Kaldi script or archive to a NumPy archive, like ConvertHtkToNumpy.
inline void ConvertKaldiToNumpy(const std::string& input, const std::string& output,
                                const ProgressCallback& progress = {}) {
  detail::ConvertSpeech(CNTK_READER_DIRECTION_KALDI_TO_NUMPY, input, output, {}, {}, progress);
}

/// Converts a label file (MLF), text or binary, to a Kaldi archive of int32 vectors.
inline void ConvertMlfToKaldi(const std::string& input, const std::string& output,
                              const SpeechConversionOptions& options = {},
                              const ProgressCallback& progress = {}) {
  detail::ConvertSpeech(CNTK_READER_DIRECTION_MLF_TO_KALDI, input, output, {}, options, progress);
}

/// Converts int32 vectors of a Kaldi script or archive to a textual label file with 10 ms per
/// frame.
inline void ConvertKaldiToMlf(const std::string& input, const std::string& output,
                              const SpeechConversionOptions& options = {},
                              const ProgressCallback& progress = {}) {
  detail::ConvertSpeech(CNTK_READER_DIRECTION_KALDI_TO_MLF, input, output, {}, options, progress);
}

/// Converts a label file to a text file (CTF) with one sparse stream named `stream`, one line per
/// frame.
inline void ConvertMlfToText(const std::string& input, const std::string& output, const std::string& stream,
                             const SpeechConversionOptions& options = {},
                             const ProgressCallback& progress = {}) {
  detail::ConvertSpeech(CNTK_READER_DIRECTION_MLF_TO_TEXT, input, output, stream, options, progress);
}

/// Converts the one-hot stream `stream` of a text file to a label file. Ids become keys.
inline void ConvertTextToMlf(const std::string& input, const std::string& output, const std::string& stream,
                             const SpeechConversionOptions& options = {},
                             const ProgressCallback& progress = {}) {
  detail::ConvertSpeech(CNTK_READER_DIRECTION_TEXT_TO_MLF, input, output, stream, options, progress);
}

/// Converts a label file to a NumPy archive: one int32 array per utterance, with a class number for
/// each frame.
inline void ConvertMlfToNumpy(const std::string& input, const std::string& output,
                              const SpeechConversionOptions& options = {},
                              const ProgressCallback& progress = {}) {
  detail::ConvertSpeech(CNTK_READER_DIRECTION_MLF_TO_NUMPY, input, output, {}, options, progress);
}

}  // namespace reader
}  // namespace cntk

#endif  // CNTK_READER_CONVERT_HPP
