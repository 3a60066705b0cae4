// Conversions between CNTK's text format and its binary one, and between formats of speech data.
//
// A part of <cntk_reader.hpp>, which is the one to include.

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

/// What conversions of speech data take besides input and output. What is empty is not used.
struct SpeechConversionOptions {
  std::string script;  ///< Path of the script to write that names the utterances of an HTK or Kaldi archive.
  std::string states;  ///< Path of the list of states of a label file; without one it has class numbers.
  bool number_ids =
      false;  ///< Sequences of a text file get the ids 0, 1, 2 ... in place of utterances' keys.
};

namespace detail {

inline void Convert(cntk_reader_direction direction, const std::string& input, const std::string& output,
                    cntk_reader_conversion conversion, const ProgressCallback& progress) {
  struct State {
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
      auto* own = static_cast<State*>(userdata);
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

/// Converts a text file (CTF) to a binary one (CBF); `streams` has a line `name alias dense|sparse dimension`
/// for each stream. The output appears when it is complete. An exception of `progress` stops the conversion
/// and comes through.
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

/// Converts a binary file to a text one that reads back to the same bits. Otherwise as ConvertTextToBinary.
inline void ConvertBinaryToText(const std::string& input, const std::string& output,
                                const ProgressCallback& progress = {}) {
  cntk_reader_conversion conversion = CNTK_READER_CONVERSION_INIT;
  detail::Convert(CNTK_READER_DIRECTION_BINARY_TO_TEXT, input, output, conversion, progress);
}

/// Converts HTK features, named by the script `input`, to a Kaldi archive of float matrices; `options.script`
/// names a script to write, if there is to be one. Otherwise as ConvertTextToBinary, like all that follow.
inline void ConvertHtkToKaldi(const std::string& input, const std::string& output,
                              const SpeechConversionOptions& options = {},
                              const ProgressCallback& progress = {}) {
  detail::ConvertSpeech(CNTK_READER_DIRECTION_HTK_TO_KALDI, input, output, {}, options, progress);
}

/// Converts features of a Kaldi script (`.scp`) or archive to one big-endian HTK archive of 10 ms a frame,
/// and to its script `options.script`, which is required.
inline void ConvertKaldiToHtk(const std::string& input, const std::string& output,
                              const SpeechConversionOptions& options, const ProgressCallback& progress = {}) {
  detail::ConvertSpeech(CNTK_READER_DIRECTION_KALDI_TO_HTK, input, output, {}, options, progress);
}

/// Converts HTK features to a NumPy archive (`.npz`): for each utterance, by its key, a float32 array of
/// frames times values.
inline void ConvertHtkToNumpy(const std::string& input, const std::string& output,
                              const ProgressCallback& progress = {}) {
  detail::ConvertSpeech(CNTK_READER_DIRECTION_HTK_TO_NUMPY, input, output, {}, {}, progress);
}

/// Converts features of a Kaldi script or archive to a NumPy archive, as ConvertHtkToNumpy writes it.
inline void ConvertKaldiToNumpy(const std::string& input, const std::string& output,
                                const ProgressCallback& progress = {}) {
  detail::ConvertSpeech(CNTK_READER_DIRECTION_KALDI_TO_NUMPY, input, output, {}, {}, progress);
}

/// Converts a label file (MLF), as text or binary, to a Kaldi archive of int32 vectors.
inline void ConvertMlfToKaldi(const std::string& input, const std::string& output,
                              const SpeechConversionOptions& options = {},
                              const ProgressCallback& progress = {}) {
  detail::ConvertSpeech(CNTK_READER_DIRECTION_MLF_TO_KALDI, input, output, {}, options, progress);
}

/// Converts int32 vectors of a Kaldi script or archive to a label file as text, of 10 ms a frame.
inline void ConvertKaldiToMlf(const std::string& input, const std::string& output,
                              const SpeechConversionOptions& options = {},
                              const ProgressCallback& progress = {}) {
  detail::ConvertSpeech(CNTK_READER_DIRECTION_KALDI_TO_MLF, input, output, {}, options, progress);
}

/// Converts a label file to a text file (CTF) with one sparse stream of the name `stream`: a line for each
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

/// Converts a label file to a NumPy archive: for each utterance an int32 array with a class number for each
/// frame.
inline void ConvertMlfToNumpy(const std::string& input, const std::string& output,
                              const SpeechConversionOptions& options = {},
                              const ProgressCallback& progress = {}) {
  detail::ConvertSpeech(CNTK_READER_DIRECTION_MLF_TO_NUMPY, input, output, {}, options, progress);
}

}  // namespace reader
}  // namespace cntk

#endif  // CNTK_READER_CONVERT_HPP
