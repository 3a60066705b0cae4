// Configurations written in C++ instead of CNTK's language: the same keys, with types.
//
//     cr::Reader reader = cr::Reader::Open(
//         cr::ReaderOptions{.randomization_seed = 7},
//         {cr::CtfDeserializer("train.ctf").Dense("features", 784).Sparse("labels", 10).Alias("l")});
//
// Whatever is not set has the default that docs/configuration.md says.
//
// A part of <cntk_reader.hpp>, which is the one to include.

#ifndef CNTK_READER_CONFIGURATION_HPP
#define CNTK_READER_CONFIGURATION_HPP

#include <cntk_reader.h>

#include <cntk_reader/error.hpp>
#include <cntk_reader/images.hpp>
#include <cntk_reader/section.hpp>
#include <cntk_reader/speech.hpp>
#include <cntk_reader/stream.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cntk {
namespace reader {

class Deserializer;
class UserDeserializer;

namespace detail {

/// The section of the C interface that a deserializer stands for, valid as long as the deserializer.
const cntk_reader_section* SectionOf(const Deserializer& deserializer) noexcept;

}  // namespace detail

/// What a reader does with the sequences of its deserializers: order, modes, tolerance. An aggregate: set
/// what is to differ from the default, in C++20 also by designated initializers.
struct ReaderOptions {
  /// Sequences come in random order, another one in every sweep (`randomize`; default: true); else in the
  /// data's order.
  std::optional<bool> randomize = {};
  /// Randomizes within windows of this many chunks (`randomizationWindow`; default with text: 128 chunks of
  /// 32 MiB).
  std::optional<std::uint64_t> randomization_window_in_chunks = {};
  /// Randomizes within windows of this many samples (`randomizationWindow`,
  /// `sampleBasedRandomizationWindow`).
  std::optional<std::uint64_t> randomization_window_in_samples = {};
  /// Added to the number of the sweep to seed its order (`randomizationSeed`; default: 0).
  std::optional<std::uint64_t> randomization_seed = {};
  /// Every sequence is one sample (`frameMode`; default: false).
  std::optional<bool> frame_mode = {};
  /// Truncated back-propagation: minibatches of this many steps (`truncated`, `truncationLength`).
  std::optional<std::uint64_t> truncation_length = {};
  /// Steps by which truncated minibatches of one sequence overlap (`rightSplice`; default: 0).
  std::optional<std::uint64_t> right_splice = {};
  /// Each worker fills its share of the minibatch (`localTimeline`; default: true); else all walk one global
  /// minibatch.
  std::optional<bool> local_timeline = {};
  /// Every worker reads as many minibatches as the others (`lockstep`; default: false), with `local_timeline`
  /// false. A worker whose share of a minibatch is empty gets one without data, instead of reading on until
  /// it has some, as in CNTK.
  std::optional<bool> lockstep = {};
  /// Type of the values (`precision`; default: float).
  std::optional<ElementType> precision = {};
  /// Invalid sequences that are tolerated (`maxErrors` of the reader; default: 0).
  std::optional<std::uint32_t> max_errors = {};
  /// Random transforms of images depend on nothing but their seed, the sweep and the sequence
  /// (`reproducibleTransforms`; default: false). Otherwise they draw what CNTK draws, which depends on all
  /// minibatches read before.
  std::optional<bool> reproducible_transforms = {};
  /// Images, and sequences of users that are fetched one by one, are worked on by several threads
  /// (`multiThreadedDeserialization`; default: true with ImageDeserializer, else false).
  std::optional<bool> multithreaded = {};
  /// What is logged: 0 errors, 1 warnings, 2 information (`traceLevel`; default: 1).
  std::optional<std::uint32_t> trace_level = {};
  /// Sequence keys are numbers in the data (`useNumericSequenceKeys`; default: true); else texts.
  std::optional<bool> numeric_keys = {};
  /// Textual keys are numbered by a hash of them (`hashSequenceKeys`; default: false).
  std::optional<bool> hash_keys = {};
  /// Scales the default window, 4 GiB of chunks of this size (`chunkSizeInBytes` of the reader; default: 32
  /// MiB). The size of the chunks themselves is CtfDeserializer::ChunkSize.
  std::optional<std::uint64_t> window_chunk_size = {};
  /// Minibatches are packed ahead (`prefetch`; default: true).
  std::optional<bool> prefetch = {};
  /// Paths that data files name (script files, map files, lists) must lead to the folder of the file that
  /// names them, or to one of these, once symbolic links and `..` are resolved (`confinePaths`,
  /// `allowedFolders`; default: they may lead anywhere).
  std::optional<std::vector<std::string>> confine_paths = {};
  /// Accepted, as CNTK accepts it (`checkData`); sequences are checked in any case.
  std::optional<bool> check_data = {};

  /// The lines that a configuration would have.
  std::string Text() const {
    if (randomization_window_in_chunks && randomization_window_in_samples)
      throw Error(ErrorKind::kConfig,
                  "The randomization window is given in chunks and in samples: set one of "
                  "randomization_window_in_chunks and randomization_window_in_samples.");
    detail::Keys keys;
    keys.Set("randomize", randomize);
    keys.Set("randomizationWindow", randomization_window_in_chunks);
    if (randomization_window_in_chunks) keys.Set("sampleBasedRandomizationWindow", false);
    keys.Set("randomizationWindow", randomization_window_in_samples);
    if (randomization_window_in_samples) keys.Set("sampleBasedRandomizationWindow", true);
    keys.Set("randomizationSeed", randomization_seed);
    keys.Set("frameMode", frame_mode);
    if (truncation_length) keys.Set("truncated", true);
    keys.Set("truncationLength", truncation_length);
    keys.Set("rightSplice", right_splice);
    keys.Set("localTimeline", local_timeline);
    keys.Set("lockstep", lockstep);
    if (precision)
      keys.Set("precision", std::string(*precision == ElementType::kDouble ? "double" : "float"));
    keys.Set("maxErrors", max_errors);
    keys.Set("reproducibleTransforms", reproducible_transforms);
    keys.Set("multiThreadedDeserialization", multithreaded);
    keys.Set("traceLevel", trace_level);
    keys.Set("useNumericSequenceKeys", numeric_keys);
    keys.Set("hashSequenceKeys", hash_keys);
    keys.Set("chunkSizeInBytes", window_chunk_size);
    keys.Set("prefetch", prefetch);
    if (confine_paths) {
      keys.Set("confinePaths", true);
      keys.Set("allowedFolders", detail::QuotedArray(*confine_paths));
    }
    keys.Set("checkData", check_data);
    return keys.Text("");
  }
};

/// One or several files in CNTK's text format, and the streams to read from them. Streams are numbered in the
/// alphabetical order of their names, whatever the order here.
class CtfDeserializer {
 public:
  /// A file, or the files that match a pattern, `train-*.ctf`. A path that exists is no pattern.
  explicit CtfDeserializer(std::string file) : files_(std::move(file)) {}

  /// Another file, or those that match a pattern: their data follow those of the ones before.
  CtfDeserializer& AddFile(std::string file) & {
    files_.Add(std::move(file));
    return *this;
  }
  /// Adds a stream of dense samples of `dim` values.
  CtfDeserializer& Dense(std::string name, std::size_t dim) & { return Add(std::move(name), dim, "dense"); }
  /// Adds a stream of sparse samples: pairs `index:value` with indices below `dim`.
  CtfDeserializer& Sparse(std::string name, std::size_t dim) & { return Add(std::move(name), dim, "sparse"); }
  /// What the stream added last is called in the file (`alias`); without it the file has the stream's name.
  CtfDeserializer& Alias(std::string alias) & {
    Last("Alias").alias = std::move(alias);
    return *this;
  }
  /// Minibatch sizes are measured in samples of the stream added last (`definesMBSize`); without such a
  /// stream a sequence counts as long as its longest stream.
  CtfDeserializer& DefinesMinibatchSize() & {
    Last("DefinesMinibatchSize").defines_mb_size = true;
    return *this;
  }
  /// Bytes of a chunk, the unit of loading, randomizing and sharing out (`chunkSizeInBytes`; default: 32
  /// MiB).
  CtfDeserializer& ChunkSize(std::uint64_t bytes) & { return Set("chunkSizeInBytes", bytes); }
  /// Malformed values, lines and sequences that are tolerated over all sweeps (`maxErrors`; default: 0).
  CtfDeserializer& MaxErrors(std::uint32_t errors) & { return Set("maxErrors", errors); }
  /// Every line is a sequence, whatever ids there are (`skipSequenceIds`; default: false).
  CtfDeserializer& SkipSequenceIds(bool skip = true) & { return Set("skipSequenceIds", skip); }
  /// Keeps the index in a file beside the data, in CNTK's format (`cacheIndex`; default: false).
  CtfDeserializer& CacheIndex(bool cache = true) & { return Set("cacheIndex", cache); }
  /// Chunks stay in memory once they were loaded (`keepDataInMemory`; default: false).
  CtfDeserializer& KeepDataInMemory(bool keep = true) & { return Set("keepDataInMemory", keep); }
  /// CNTK's rules for the lines of a sequence (`strictSequences`; default: true); else samples of a stream
  /// may stand on any line, and a sequence in which a stream has no sample is skipped.
  CtfDeserializer& StrictSequences(bool strict) & { return Set("strictSequences", strict); }
  /// The ids of several files are one numbering (`sharedIds`; default: false); else each file has its own.
  CtfDeserializer& SharedIds(bool shared = true) & { return Set("sharedIds", shared); }

  // The same for temporary objects, so that calls can be chained.
  CtfDeserializer&& AddFile(std::string file) && { return std::move(AddFile(std::move(file))); }
  CtfDeserializer&& Dense(std::string name, std::size_t dim) && {
    return std::move(Dense(std::move(name), dim));
  }
  CtfDeserializer&& Sparse(std::string name, std::size_t dim) && {
    return std::move(Sparse(std::move(name), dim));
  }
  CtfDeserializer&& Alias(std::string alias) && { return std::move(Alias(std::move(alias))); }
  CtfDeserializer&& DefinesMinibatchSize() && { return std::move(DefinesMinibatchSize()); }
  CtfDeserializer&& ChunkSize(std::uint64_t bytes) && { return std::move(ChunkSize(bytes)); }
  CtfDeserializer&& MaxErrors(std::uint32_t errors) && { return std::move(MaxErrors(errors)); }
  CtfDeserializer&& SkipSequenceIds(bool skip = true) && { return std::move(SkipSequenceIds(skip)); }
  CtfDeserializer&& CacheIndex(bool cache = true) && { return std::move(CacheIndex(cache)); }
  CtfDeserializer&& KeepDataInMemory(bool keep = true) && { return std::move(KeepDataInMemory(keep)); }
  CtfDeserializer&& StrictSequences(bool strict) && { return std::move(StrictSequences(strict)); }
  CtfDeserializer&& SharedIds(bool shared = true) && { return std::move(SharedIds(shared)); }

  /// The section that a configuration would have in `deserializers`. Throws if a name cannot be written
  /// there.
  std::string Text() const {
    detail::Keys keys = KeysButFile();
    files_.Write(keys);
    return "[\n" + keys.Text("  ") + "]";
  }

 private:
  friend class Deserializer;

  struct Stream {
    std::string name;
    std::size_t dim = 0;
    const char* format = "";
    std::optional<std::string> alias = {};
    bool defines_mb_size = false;
  };

  CtfDeserializer& Add(std::string name, std::size_t dim, const char* format) {
    detail::SizeText("dim", dim);
    streams_.push_back({std::move(name), dim, format});
    return *this;
  }

  Stream& Last(const char* method) {
    if (streams_.empty())
      throw Error(ErrorKind::kConfig, std::string("CtfDeserializer::") + method +
                                          " describes the stream added last: call it after Dense or Sparse.");
    return streams_.back();
  }

  template <typename T>
  CtfDeserializer& Set(const char* key, T value) {
    keys_.Set(key, value);
    return *this;
  }

  /// All keys but a single path.
  detail::Keys AllKeys() const {
    detail::Keys keys = KeysButFile();
    if (files_.LiteralKey().empty()) files_.Write(keys);
    return keys;
  }

  detail::Keys KeysButFile() const {
    detail::Keys keys;
    keys.Set("type", std::string("CNTKTextFormatDeserializer"));
    keys.Set("module", std::string("CNTKTextFormatReader"));
    for (const auto& [key, value] : keys_.All()) keys.Set(key, value);
    std::string input = "[";
    detail::DistinctStreams names;
    for (const Stream& stream : streams_) {
      names.Add(stream.name);
      input += (input.size() == 1 ? " " : " ; ") + detail::StreamKey(stream.name) +
               " = [ dim = " + std::to_string(stream.dim) + " ; format = \"" + stream.format + "\"";
      if (stream.alias) input += " ; alias = " + detail::Quoted("alias", *stream.alias);
      if (stream.defines_mb_size) input += " ; definesMBSize = true";
      input += " ]";
    }
    keys.Set("input", input + " ]");
    return keys;
  }

  detail::Files files_;
  detail::Keys keys_;
  std::vector<Stream> streams_;
};

/// One or several files in CNTK's binary format. The files describe their streams themselves; all are read.
class CbfDeserializer {
 public:
  /// A file, or the files that match a pattern, `train-*.cbf`. A path that exists is no pattern.
  explicit CbfDeserializer(std::string file) : files_(std::move(file)) {}

  /// Another file with the same streams, or those that match a pattern: their data follow those of the ones
  /// before.
  CbfDeserializer& AddFile(std::string file) & {
    files_.Add(std::move(file));
    return *this;
  }
  /// Delivers the stream that the file calls `in_file` as `name`.
  CbfDeserializer& Rename(std::string name, std::string in_file) & {
    renamed_.emplace_back(std::move(name), std::move(in_file));
    return *this;
  }
  /// Chunks stay in memory once they were loaded (`keepDataInMemory`; default: false).
  CbfDeserializer& KeepDataInMemory(bool keep = true) & {
    keys_.Set("keepDataInMemory", keep);
    return *this;
  }
  /// The sequences of several files are numbered from the first to the last (`sharedIds`; default: false);
  /// else each file has its own numbering.
  CbfDeserializer& SharedIds(bool shared = true) & {
    keys_.Set("sharedIds", shared);
    return *this;
  }

  // The same for temporary objects, so that calls can be chained.
  CbfDeserializer&& AddFile(std::string file) && { return std::move(AddFile(std::move(file))); }
  CbfDeserializer&& Rename(std::string name, std::string in_file) && {
    return std::move(Rename(std::move(name), std::move(in_file)));
  }
  CbfDeserializer&& KeepDataInMemory(bool keep = true) && { return std::move(KeepDataInMemory(keep)); }
  CbfDeserializer&& SharedIds(bool shared = true) && { return std::move(SharedIds(shared)); }

  /// The section that a configuration would have in `deserializers`. Throws if a name cannot be written
  /// there.
  std::string Text() const {
    detail::Keys keys = KeysButFile();
    files_.Write(keys);
    return "[\n" + keys.Text("  ") + "]";
  }

 private:
  friend class Deserializer;

  /// All keys but a single path.
  detail::Keys AllKeys() const {
    detail::Keys keys = KeysButFile();
    if (files_.LiteralKey().empty()) files_.Write(keys);
    return keys;
  }

  detail::Keys KeysButFile() const {
    detail::Keys keys;
    keys.Set("type", std::string("CNTKBinaryFormatDeserializer"));
    keys.Set("module", std::string("CNTKBinaryReader"));
    for (const auto& [key, value] : keys_.All()) keys.Set(key, value);
    if (renamed_.empty()) return keys;
    std::string input = "[";
    detail::DistinctStreams names;
    for (const auto& [name, in_file] : renamed_) {
      names.Add(name);
      input += (input.size() == 1 ? " " : " ; ") + detail::StreamKey(name) +
               " = [ alias = " + detail::Quoted("name of a stream in the file", in_file) + " ]";
    }
    keys.Set("input", input + " ]");
    return keys;
  }

  detail::Files files_;
  detail::Keys keys_;
  std::vector<std::pair<std::string, std::string>> renamed_;
};

/// One of the deserializers of a reader: a file, or a format of the user's own with the name that messages
/// call it by.
class Deserializer {
 public:
  Deserializer(const CtfDeserializer& ctf)  // NOLINT: stands for one
      : section_(std::make_shared<detail::SectionHandle>("CtfDeserializer", ctf.AllKeys(),
                                                         ctf.files_.LiteralKey(), ctf.files_.Literal())) {}
  Deserializer(const CbfDeserializer& cbf)  // NOLINT: stands for one
      : section_(std::make_shared<detail::SectionHandle>("CbfDeserializer", cbf.AllKeys(),
                                                         cbf.files_.LiteralKey(), cbf.files_.Literal())) {}
  Deserializer(const HtkFeatureDeserializer& features)  // NOLINT: stands for one
      : Deserializer("HtkFeatureDeserializer", features.section_) {}
  Deserializer(const HtkMlfDeserializer& labels)  // NOLINT: stands for one
      : Deserializer("HtkMlfDeserializer", labels.section_) {}
  Deserializer(const HtkMlfBinaryDeserializer& labels)  // NOLINT: stands for one
      : Deserializer("HtkMlfBinaryDeserializer", labels.section_) {}
  Deserializer(const LatticeDeserializer& lattices)  // NOLINT: stands for one
      : Deserializer("LatticeDeserializer", lattices.section_) {}
  Deserializer(const KaldiDeserializer& archives)  // NOLINT: stands for one
      : Deserializer("KaldiDeserializer", archives.section_) {}
  Deserializer(const ImageDeserializer& images)  // NOLINT: stands for one
      : Deserializer("ImageDeserializer", images) {}
  Deserializer(const Base64ImageDeserializer& images)  // NOLINT: stands for one
      : Deserializer("Base64ImageDeserializer", images) {}
  Deserializer(std::string name, std::shared_ptr<UserDeserializer> user)
      : section_(std::make_shared<detail::SectionHandle>("UserDeserializer", detail::Keys(), "type", name)),
        name_(std::move(name)),
        user_(std::move(user)) {}

 private:
  friend class Reader;
  friend const cntk_reader_section* detail::SectionOf(const Deserializer& deserializer) noexcept;

  Deserializer(const char* path, const detail::StreamSection& section)
      : section_(std::make_shared<detail::SectionHandle>(path, section.AllKeys(), section.FileKey(),
                                                         section.File())) {}
  template <typename Images>
  Deserializer(const char* path, const detail::ImageDeserializerBase<Images>& images)
      : section_(std::make_shared<detail::SectionHandle>(path, images.AllKeys(), "file", images.file_)),
        transforms_(images.users_) {}

  std::shared_ptr<const detail::SectionHandle> section_;
  std::string name_;
  std::shared_ptr<UserDeserializer> user_;
  Transforms transforms_;  // Those of the user's own.
};

inline const cntk_reader_section* detail::SectionOf(const Deserializer& deserializer) noexcept {
  return deserializer.section_->get();
}

}  // namespace reader
}  // namespace cntk

#endif  // CNTK_READER_CONFIGURATION_HPP
