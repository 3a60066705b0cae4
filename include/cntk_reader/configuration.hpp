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

#include <algorithm>
#include <cntk_reader/error.hpp>
#include <cntk_reader/images.hpp>
#include <cntk_reader/options.hpp>
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

class UserDeserializer;

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
  std::string Text() const { return All().Write(false); }

 private:
  friend class Reader;

  detail::Options All() const {
    if (randomization_window_in_chunks && randomization_window_in_samples)
      throw Error(ErrorKind::kConfig,
                  "The randomization window is given in chunks and in samples: set one of "
                  "randomization_window_in_chunks and randomization_window_in_samples.");
    detail::Options all;
    all.Flag("randomize", randomize);
    all.Whole("randomizationWindow", randomization_window_in_chunks);
    if (randomization_window_in_chunks) all.Flag("sampleBasedRandomizationWindow", false);
    all.Whole("randomizationWindow", randomization_window_in_samples);
    if (randomization_window_in_samples) all.Flag("sampleBasedRandomizationWindow", true);
    all.Whole("randomizationSeed", randomization_seed);
    all.Flag("frameMode", frame_mode);
    if (truncation_length) all.Flag("truncated", true);
    all.Whole("truncationLength", truncation_length);
    all.Whole("rightSplice", right_splice);
    all.Flag("localTimeline", local_timeline);
    all.Flag("lockstep", lockstep);
    if (precision) all.Text("precision", *precision == ElementType::kDouble ? "double" : "float");
    all.Whole("maxErrors", max_errors);
    all.Flag("reproducibleTransforms", reproducible_transforms);
    all.Flag("multiThreadedDeserialization", multithreaded);
    all.Whole("traceLevel", trace_level);
    all.Flag("useNumericSequenceKeys", numeric_keys);
    all.Flag("hashSequenceKeys", hash_keys);
    all.Whole("chunkSizeInBytes", window_chunk_size);
    all.Flag("prefetch", prefetch);
    if (confine_paths) {
      all.Flag("confinePaths", true);
      for (const std::string& folder : *confine_paths) all.AddPath("allowedFolders", folder);
    }
    all.Flag("checkData", check_data);
    return all;
  }
};

/// One or several files in CNTK's text format, and the streams to read from them. Streams are numbered in the
/// alphabetical order of their names, whatever the order here.
class CtfDeserializer {
 public:
  /// A file, or the files that match a pattern, `train-*.ctf`. A path that exists is no pattern.
  explicit CtfDeserializer(const std::string& file)
      : options_("CNTKTextFormatDeserializer", "CNTKTextFormatReader") {
    AddFile(file);
  }

  /// Another file, or those that match a pattern: their data follow those of the ones before.
  CtfDeserializer& AddFile(const std::string& file) & {
    options_.AddFile("file", file);
    return *this;
  }
  /// Adds a stream of dense samples of `dim` values.
  CtfDeserializer& Dense(std::string name, std::size_t dim) & { return Add(std::move(name), dim, "dense"); }
  /// Adds a stream of sparse samples: pairs `index:value` with indices below `dim`.
  CtfDeserializer& Sparse(std::string name, std::size_t dim) & { return Add(std::move(name), dim, "sparse"); }
  /// What the stream added last is called in the file (`alias`); without it the file has the stream's name.
  CtfDeserializer& Alias(const std::string& alias) & {
    Last("Alias").Text("alias", alias);
    return *this;
  }
  /// Minibatch sizes are measured in samples of the stream added last (`definesMBSize`); without such a
  /// stream a sequence counts as long as its longest stream.
  CtfDeserializer& DefinesMinibatchSize() & {
    Last("DefinesMinibatchSize").Flag("definesMBSize", true);
    return *this;
  }
  /// Type of the values of the stream added last, which is dense (`element`; default: the reader's
  /// `precision`). A number that is no value of a type of integers is malformed.
  CtfDeserializer& Element(ElementType element) & {
    Last("Element").Text("element", detail::WordOf(element));
    return *this;
  }
  /// Delivers the index of each sample of the stream added last, which is sparse with one entry
  /// `index:1` a sample, as a dense integer: `kInt32` or `kInt64` (`ids`).
  CtfDeserializer& Ids(ElementType element) & {
    Last("Ids").Text("ids", detail::WordOf(element));
    return *this;
  }
  /// The value that gaps of truncated minibatches have in the stream added last, which has Ids (`padding`;
  /// default: 0).
  CtfDeserializer& Padding(std::int64_t value) & {
    Last("Padding").Text("padding", std::to_string(value));
    return *this;
  }
  /// Bytes of a chunk, the unit of loading, randomizing and sharing out (`chunkSizeInBytes`; default: 32
  /// MiB).
  CtfDeserializer& ChunkSize(std::uint64_t bytes) & {
    options_.Whole("chunkSizeInBytes", bytes);
    return *this;
  }
  /// Malformed values, lines and sequences that are tolerated over all sweeps (`maxErrors`; default: 0).
  CtfDeserializer& MaxErrors(std::uint32_t errors) & {
    options_.Whole("maxErrors", errors);
    return *this;
  }
  /// Every line is a sequence, whatever ids there are (`skipSequenceIds`; default: false).
  CtfDeserializer& SkipSequenceIds(bool skip = true) & { return Flag("skipSequenceIds", skip); }
  /// Keeps the index in a file beside the data, in CNTK's format (`cacheIndex`; default: false).
  CtfDeserializer& CacheIndex(bool cache = true) & { return Flag("cacheIndex", cache); }
  /// Chunks stay in memory once they were loaded (`keepDataInMemory`; default: false).
  CtfDeserializer& KeepDataInMemory(bool keep = true) & { return Flag("keepDataInMemory", keep); }
  /// CNTK's rules for the lines of a sequence (`strictSequences`; default: true); else samples of a stream
  /// may stand on any line, and a sequence in which a stream has no sample is skipped.
  CtfDeserializer& StrictSequences(bool strict) & { return Flag("strictSequences", strict); }
  /// The ids of several files are one numbering (`sharedIds`; default: false); else each file has its own.
  CtfDeserializer& SharedIds(bool shared = true) & { return Flag("sharedIds", shared); }

  // The same for temporary objects, so that calls can be chained.
  CtfDeserializer&& AddFile(const std::string& file) && { return std::move(AddFile(file)); }
  CtfDeserializer&& Dense(std::string name, std::size_t dim) && {
    return std::move(Dense(std::move(name), dim));
  }
  CtfDeserializer&& Sparse(std::string name, std::size_t dim) && {
    return std::move(Sparse(std::move(name), dim));
  }
  CtfDeserializer&& Alias(const std::string& alias) && { return std::move(Alias(alias)); }
  CtfDeserializer&& DefinesMinibatchSize() && { return std::move(DefinesMinibatchSize()); }
  CtfDeserializer&& Element(ElementType element) && { return std::move(Element(element)); }
  CtfDeserializer&& Ids(ElementType element) && { return std::move(Ids(element)); }
  CtfDeserializer&& Padding(std::int64_t value) && { return std::move(Padding(value)); }
  CtfDeserializer&& ChunkSize(std::uint64_t bytes) && { return std::move(ChunkSize(bytes)); }
  CtfDeserializer&& MaxErrors(std::uint32_t errors) && { return std::move(MaxErrors(errors)); }
  CtfDeserializer&& SkipSequenceIds(bool skip = true) && { return std::move(SkipSequenceIds(skip)); }
  CtfDeserializer&& CacheIndex(bool cache = true) && { return std::move(CacheIndex(cache)); }
  CtfDeserializer&& KeepDataInMemory(bool keep = true) && { return std::move(KeepDataInMemory(keep)); }
  CtfDeserializer&& StrictSequences(bool strict) && { return std::move(StrictSequences(strict)); }
  CtfDeserializer&& SharedIds(bool shared = true) && { return std::move(SharedIds(shared)); }

  /// The section that a configuration would have in `deserializers`. Throws if a name cannot be written
  /// there.
  std::string Text() const { return All().Write(true); }

 private:
  friend class Deserializer;

  CtfDeserializer& Add(std::string name, std::size_t dim, const char* format) {
    detail::Options stream;
    stream.Whole("dim", dim);
    stream.Text("format", format);
    streams_.emplace_back(std::move(name), std::move(stream));
    return *this;
  }

  detail::Options& Last(const char* method) {
    if (streams_.empty())
      throw Error(ErrorKind::kConfig, std::string("CtfDeserializer::") + method +
                                          " describes the stream added last: call it after Dense or Sparse.");
    return streams_.back().second;
  }

  CtfDeserializer& Flag(const char* key, bool flag) {
    options_.Flag(key, flag);
    return *this;
  }

  detail::Options All() const { return detail::WithStreams(options_, streams_); }

  detail::Options options_;
  detail::Streams streams_;
};

/// One or several files in CNTK's binary format. The files describe their streams themselves; all are read.
class CbfDeserializer {
 public:
  /// A file, or the files that match a pattern, `train-*.cbf`. A path that exists is no pattern.
  explicit CbfDeserializer(const std::string& file)
      : options_("CNTKBinaryFormatDeserializer", "CNTKBinaryReader") {
    AddFile(file);
  }

  /// Another file with the same streams, or those that match a pattern: their data follow those of the ones
  /// before.
  CbfDeserializer& AddFile(const std::string& file) & {
    options_.AddFile("file", file);
    return *this;
  }
  /// Delivers the stream that the file calls `in_file` as `name`.
  CbfDeserializer& Rename(const std::string& name, const std::string& in_file) & {
    // A second name in the file for one stream is refused when the reader is opened.
    if (std::find(renamed_.begin(), renamed_.end(), name) != renamed_.end())
      streams_.emplace_back(name, detail::Options());
    renamed_.push_back(name);
    Stream(name).Text("alias", in_file);
    return *this;
  }
  /// Delivers the index of each sample of the stream `name`, which is sparse in the file, as a dense integer:
  /// `kInt32` or `kInt64` (`ids`). Another sample than one entry of value 1 is an error.
  CbfDeserializer& Ids(const std::string& name, ElementType element) & {
    Stream(name).Text("ids", detail::WordOf(element));
    return *this;
  }
  /// The value that gaps of truncated minibatches have in the stream `name`, which has Ids (`padding`;
  /// default: 0).
  CbfDeserializer& Padding(const std::string& name, std::int64_t value) & {
    Stream(name).Text("padding", std::to_string(value));
    return *this;
  }
  /// Chunks stay in memory once they were loaded (`keepDataInMemory`; default: false).
  CbfDeserializer& KeepDataInMemory(bool keep = true) & {
    options_.Flag("keepDataInMemory", keep);
    return *this;
  }
  /// The sequences of several files are numbered from the first to the last (`sharedIds`; default: false);
  /// else each file has its own numbering.
  CbfDeserializer& SharedIds(bool shared = true) & {
    options_.Flag("sharedIds", shared);
    return *this;
  }

  // The same for temporary objects, so that calls can be chained.
  CbfDeserializer&& AddFile(const std::string& file) && { return std::move(AddFile(file)); }
  CbfDeserializer&& Rename(const std::string& name, const std::string& in_file) && {
    return std::move(Rename(name, in_file));
  }
  CbfDeserializer&& Ids(const std::string& name, ElementType element) && {
    return std::move(Ids(name, element));
  }
  CbfDeserializer&& Padding(const std::string& name, std::int64_t value) && {
    return std::move(Padding(name, value));
  }
  CbfDeserializer&& KeepDataInMemory(bool keep = true) && { return std::move(KeepDataInMemory(keep)); }
  CbfDeserializer&& SharedIds(bool shared = true) && { return std::move(SharedIds(shared)); }

  /// The section that a configuration would have in `deserializers`. Throws if a name cannot be written
  /// there.
  std::string Text() const { return All().Write(true); }

 private:
  friend class Deserializer;

  detail::Options All() const {
    return streams_.empty() ? options_ : detail::WithStreams(options_, streams_);
  }

  /// The options of a stream, by its delivered name.
  detail::Options& Stream(const std::string& name) {
    for (auto& [known, stream] : streams_)
      if (known == name) return stream;
    streams_.emplace_back(name, detail::Options());
    return streams_.back().second;
  }

  detail::Options options_;
  detail::Streams streams_;
  std::vector<std::string> renamed_;
};

/// Arrays of NumPy (`.npy`), each a dense stream. Row `i` of each is a sample of the sequence with the key
/// `i`. CNTK has no such deserializer.
///
/// The shape of a sample has the dimensions of a row in the reverse order, as CNTK has them.
class NumpyDeserializer {
 public:
  /// No arrays; they are still to be added.
  NumpyDeserializer() : options_("NumpyDeserializer") {}

  /// Adds a file of one array as the stream `name`. All arrays have the same number of rows.
  NumpyDeserializer& Array(std::string name, const std::string& file) & {
    detail::Options stream;
    stream.Path("file", file);
    streams_.emplace_back(std::move(name), std::move(stream));
    return *this;
  }
  /// Minibatch sizes are measured in samples of the array added last (`definesMBSize`; default: in those of
  /// the longest stream).
  NumpyDeserializer& DefinesMinibatchSize() & {
    if (streams_.empty())
      throw Error(
          ErrorKind::kConfig,
          "NumpyDeserializer::DefinesMinibatchSize describes the array added last: call it after Array.");
    streams_.back().second.Flag("definesMBSize", true);
    return *this;
  }
  /// An array of integers with the lengths of sequences, in rows (`lengths`; default: each row is a
  /// sequence). Their sum is the number of rows.
  NumpyDeserializer& Lengths(const std::string& file) & {
    options_.Path("lengths", file);
    return *this;
  }
  /// Bytes of a chunk, the unit of loading, randomizing and sharing out (`chunkSizeInBytes`; default: 32
  /// MiB).
  NumpyDeserializer& ChunkSize(std::uint64_t bytes) & {
    options_.Whole("chunkSizeInBytes", bytes);
    return *this;
  }

  // The same for temporary objects, so that calls can be chained.
  NumpyDeserializer&& Array(std::string name, const std::string& file) && {
    return std::move(Array(std::move(name), file));
  }
  NumpyDeserializer&& DefinesMinibatchSize() && { return std::move(DefinesMinibatchSize()); }
  NumpyDeserializer&& Lengths(const std::string& file) && { return std::move(Lengths(file)); }
  NumpyDeserializer&& ChunkSize(std::uint64_t bytes) && { return std::move(ChunkSize(bytes)); }

  /// The section that a configuration would have in `deserializers`. Throws if a name cannot be written
  /// there.
  std::string Text() const { return All().Write(true); }

 private:
  friend class Deserializer;

  detail::Options All() const { return detail::WithStreams(options_, streams_); }

  detail::Options options_;
  detail::Streams streams_;
};

/// One of the deserializers of a reader: a file, or a format of the user's own with the name that messages
/// call it by.
class Deserializer {
 public:
  // NOLINTBEGIN(google-explicit-constructor): a builder can be given wherever a deserializer is expected.
  Deserializer(const CtfDeserializer& ctf) : options_(ctf.All()) {}
  Deserializer(const CbfDeserializer& cbf) : options_(cbf.All()) {}
  Deserializer(const NumpyDeserializer& arrays) : options_(arrays.All()) {}
  Deserializer(const HtkFeatureDeserializer& features) : options_(features.options_.All()) {}
  Deserializer(const HtkMlfDeserializer& labels) : options_(labels.options_.All()) {}
  Deserializer(const HtkMlfBinaryDeserializer& labels) : options_(labels.options_.All()) {}
  Deserializer(const LatticeDeserializer& lattices) : options_(lattices.options_.All()) {}
  Deserializer(const KaldiDeserializer& archives) : options_(archives.options_.All()) {}
  Deserializer(const ImageDeserializer& images) : options_(images.All()), transforms_(images.users_) {}
  Deserializer(const Base64ImageDeserializer& images) : options_(images.All()), transforms_(images.users_) {}
  // NOLINTEND(google-explicit-constructor)
  Deserializer(std::string name, std::shared_ptr<UserDeserializer> user)
      : options_(name), name_(std::move(name)), user_(std::move(user)) {}

 private:
  friend class Reader;

  detail::Options options_;
  std::string name_;
  std::shared_ptr<UserDeserializer> user_;
  Transforms transforms_;  // Those of the user's own.
};

}  // namespace reader
}  // namespace cntk

#endif  // CNTK_READER_CONFIGURATION_HPP
