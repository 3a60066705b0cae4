// Typed options of readers and deserializers, with the keys of CNTK's configuration language.
//
//     cr::Reader reader = cr::Reader::Open(
//         cr::ReaderOptions{.randomization_seed = 7},
//         cr::CtfDeserializer("train.ctf")
//             .Dense("features", 784)
//             .Sparse("labels", 10).Alias("l"));
//
// Options that are not set have the defaults in docs/configuration.md.
//
// Part of <cntk_reader.hpp>; include that.

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

/// Options of a reader: order, modes, tolerated errors. An aggregate: set the members that differ
/// from their defaults, in C++20 with designated initializers.
struct ReaderOptions {
  /// Delivers sequences in random order, different in every sweep (`randomize`; default: true);
  /// else in the data's order.
  std::optional<bool> randomize = {};
  /// Randomizes within windows of this many chunks (`randomizationWindow`; default with text: 128
  /// chunks of 32 MiB).
  std::optional<std::uint64_t> randomization_window_in_chunks = {};
  /// Randomizes within windows of this many samples (`randomizationWindow`,
  /// `sampleBasedRandomizationWindow`).
  std::optional<std::uint64_t> randomization_window_in_samples = {};
  /// Seeds the order of a sweep, together with its number (`randomizationSeed`; default: 0).
  std::optional<std::uint64_t> randomization_seed = {};
  /// Treats every sequence as one sample (`frameMode`; default: false).
  std::optional<bool> frame_mode = {};
  /// Truncated backpropagation: minibatches of this many steps (`truncated`, `truncationLength`).
  /// Sparse streams stay sparse, unless expand_sparse is set.
  std::optional<std::uint64_t> truncation_length = {};
  /// Overlap of truncated minibatches of a sequence, in steps (`rightSplice`; default: 0).
  std::optional<std::uint64_t> right_splice = {};
  /// Makes sparse streams dense in truncated minibatches, as in CNTK (`expandSparse`; default:
  /// false).
  std::optional<bool> expand_sparse = {};
  /// Each worker fills its own share of the minibatch (`localTimeline`; default: true); else all
  /// workers share one global timeline.
  std::optional<bool> local_timeline = {};
  /// All workers read the same number of minibatches (`lockstep`; default: false). Implies a global
  /// timeline; `local_timeline` = true is refused. A worker whose share of a minibatch is empty
  /// gets one without data instead of reading on. CNTK has no such mode.
  std::optional<bool> lockstep = {};
  /// Type of the values, kFloat or kDouble (`precision`; default: kFloat). Other types are set for
  /// each stream, with Element of its deserializer.
  std::optional<ElementType> precision = {};
  /// Number of invalid sequences that are tolerated (`maxErrors` of the reader; default: 0). Errors
  /// in text count against CtfDeserializer::MaxErrors instead.
  std::optional<std::uint32_t> max_errors = {};
  /// Makes random image transforms depend only on their seed, the sweep and the sequence
  /// (`reproducibleTransforms`; default: false). Otherwise they draw what CNTK draws, which depends
  /// on all minibatches read before.
  std::optional<bool> reproducible_transforms = {};
  /// Processes images and fetched user-defined sequences on several threads
  /// (`multiThreadedDeserialization`; default: true with ImageDeserializer, else false).
  std::optional<bool> multithreaded = {};
  /// Log level: 0 errors, 1 warnings, 2 information (`traceLevel`; default: 1).
  std::optional<std::uint32_t> trace_level = {};
  /// Sequence keys are numbers in the data (`useNumericSequenceKeys`; default: true); else texts.
  std::optional<bool> numeric_keys = {};
  /// Maps textual keys to numbers by a hash (`hashSequenceKeys`; default: false).
  std::optional<bool> hash_keys = {};
  /// Scales the default randomization window, 4 GiB in chunks of this size (`chunkSizeInBytes` of
  /// the reader; default: 32 MiB). CtfDeserializer::ChunkSize sets the size of the chunks
  /// themselves.
  std::optional<std::uint64_t> window_chunk_size = {};
  /// Packs minibatches in advance (`prefetch`; default: true).
  std::optional<bool> prefetch = {};
  /// Restricts paths in data files (script files, map files, lists): after resolving symbolic links
  /// and `..` they must be in the folder of the file that contains them, or in one of these
  /// (`confinePaths`, `allowedFolders`; default: unrestricted).
  std::optional<std::vector<std::string>> confine_paths = {};
  /// Accepted for compatibility with CNTK (`checkData`); sequences are always checked.
  std::optional<bool> check_data = {};

  /// Returns the options as lines of a configuration.
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
    // CNTK's language expands them by default, as CNTK does.
    if (truncation_length || expand_sparse) all.Flag("expandSparse", expand_sparse.value_or(false));
    all.Flag("localTimeline", local_timeline);
    all.Flag("lockstep", lockstep);
    if (precision) {
      if (*precision != ElementType::kFloat && *precision != ElementType::kDouble)
        throw Error(ErrorKind::kConfig,
                    std::string("precision is ") + detail::NameOf(*precision) +
                        ". Expected ElementType::kFloat or kDouble. Other types are set for "
                        "each stream, with Element of its deserializer.");
      all.Text("precision", *precision == ElementType::kDouble ? "double" : "float");
    }
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

/// One or more files in CNTK's text format, and the streams to read from them. Streams are numbered
/// in the alphabetical order of their names, regardless of the order here.
class CtfDeserializer {
 public:
  /// Creates a deserializer of a file, or of the files that match a pattern such as `train-*.ctf`
  /// or `train-*.cbf`. A path that exists is never a pattern.
  explicit CtfDeserializer(const std::string& file)
      : options_("CNTKTextFormatDeserializer", "CNTKTextFormatReader") {
    AddFile(file);
  }

  /// Appends a file, or the files that match a pattern, after the previous ones.
  CtfDeserializer& AddFile(const std::string& file) & {
    options_.AddFile("file", file);
    return *this;
  }
  /// Adds a stream of dense samples of `dim` values.
  CtfDeserializer& Dense(std::string name, std::size_t dim) & { return Add(std::move(name), dim, "dense"); }
  /// Adds a stream of sparse samples: pairs `index:value` with indices below `dim`.
  CtfDeserializer& Sparse(std::string name, std::size_t dim) & { return Add(std::move(name), dim, "sparse"); }
  /// Sets the name of the stream added last in the file (`alias`; default: the stream's name).
  CtfDeserializer& Alias(const std::string& alias) & {
    Last("Alias").Text("alias", alias);
    return *this;
  }
  /// Measures minibatch sizes in samples of the stream added last (`definesMBSize`). Without such a
  /// stream, a sequence counts as long as its longest stream.
  CtfDeserializer& DefinesMinibatchSize() & {
    Last("DefinesMinibatchSize").Flag("definesMBSize", true);
    return *this;
  }
  /// Sets the element type of the stream added last, which must be dense (`element`; default: the
  /// reader's `precision`). Numbers that an integer type cannot represent are malformed.
  CtfDeserializer& Element(ElementType element) & {
    Last("Element").Text("element", detail::WordOf(element));
    return *this;
  }
  /// Delivers the class index of each sample of the stream added last as a dense integer, `kInt32`
  /// or `kInt64` (`ids`). The stream must be sparse with one entry `index:1` per sample.
  CtfDeserializer& Ids(ElementType element) & {
    Last("Ids").Text("ids", detail::WordOf(element));
    return *this;
  }
  /// Sets the value of gaps in truncated minibatches for the stream added last, which must have Ids
  /// (`padding`; default: 0).
  CtfDeserializer& Padding(std::int64_t value) & {
    Last("Padding").Text("padding", std::to_string(value));
    return *this;
  }
  /// Sets the size of chunks in bytes, the units of loading, randomizing and distribution
  /// (`chunkSizeInBytes`; default: 32 MiB).
  CtfDeserializer& ChunkSize(std::uint64_t bytes) & {
    options_.Whole("chunkSizeInBytes", bytes);
    return *this;
  }
  /// Sets the number of malformed values, lines and sequences that are tolerated over all sweeps
  /// (`maxErrors`; default: 0).
  CtfDeserializer& MaxErrors(std::uint32_t errors) & {
    options_.Whole("maxErrors", errors);
    return *this;
  }
  /// Treats every line as a sequence, ignoring ids (`skipSequenceIds`; default: false).
  CtfDeserializer& SkipSequenceIds(bool skip = true) & { return Flag("skipSequenceIds", skip); }
  /// Caches the index in a file next to the data, in CNTK's format (`cacheIndex`; default: false).
  CtfDeserializer& CacheIndex(bool cache = true) & { return Flag("cacheIndex", cache); }
  /// Keeps loaded chunks in memory (`keepDataInMemory`; default: false).
  CtfDeserializer& KeepDataInMemory(bool keep = true) & { return Flag("keepDataInMemory", keep); }
  /// Applies CNTK's rules for the lines of a sequence (`strictSequences`; default: true). Otherwise
  /// samples of a stream may be on any line, and a sequence in which a stream has no sample is
  /// skipped.
  CtfDeserializer& StrictSequences(bool strict) & { return Flag("strictSequences", strict); }
  /// Treats the ids of all files as one numbering (`sharedIds`; default: false); else each file has
  /// its own.
  CtfDeserializer& SharedIds(bool shared = true) & { return Flag("sharedIds", shared); }

  // The same for temporaries, so that calls can be chained.
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

  /// Returns the section as an element of `deserializers` in a configuration. Throws if a name
  /// cannot be written there.
  std::string Text() const { return All().Write(true); }

 private:
  friend class Deserializer;

  CtfDeserializer& Add(std::string name, std::size_t dim, const char* format) {
    options_.Check();
    detail::Options stream;
    stream.Whole("dim", dim);
    stream.Text("format", format);
    streams_.emplace_back(std::move(name), std::move(stream));
    return *this;
  }

  detail::Options& Last(const char* method) {
    options_.Check();
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

/// One or more files in CNTK's binary format. The files describe their streams; all of them are
/// read.
class CbfDeserializer {
 public:
  /// Creates a deserializer of a file, or of the files that match a pattern such as `train-*.ctf`
  /// or `train-*.cbf`. A path that exists is never a pattern.
  explicit CbfDeserializer(const std::string& file)
      : options_("CNTKBinaryFormatDeserializer", "CNTKBinaryReader") {
    AddFile(file);
  }

  /// Appends a file with the same streams, or the files that match a pattern, after the previous
  /// ones.
  CbfDeserializer& AddFile(const std::string& file) & {
    options_.AddFile("file", file);
    return *this;
  }
  /// Delivers the stream named `in_file` in the file as `name`.
  CbfDeserializer& Rename(const std::string& name, const std::string& in_file) & {
    // Opening the reader refuses two names in the file for one stream.
    if (std::find(renamed_.begin(), renamed_.end(), name) != renamed_.end())
      streams_.emplace_back(name, detail::Options());
    renamed_.push_back(name);
    Stream(name).Text("alias", in_file);
    return *this;
  }
  /// Delivers the class index of each sample of the stream `name`, which is sparse in the file, as
  /// a dense integer, `kInt32` or `kInt64` (`ids`). A sample other than a single entry of value 1
  /// is an error.
  CbfDeserializer& Ids(const std::string& name, ElementType element) & {
    Stream(name).Text("ids", detail::WordOf(element));
    return *this;
  }
  /// Sets the value of gaps in truncated minibatches for the stream `name`, which must have Ids
  /// (`padding`; default: 0).
  CbfDeserializer& Padding(const std::string& name, std::int64_t value) & {
    Stream(name).Text("padding", std::to_string(value));
    return *this;
  }
  /// Keeps loaded chunks in memory (`keepDataInMemory`; default: false).
  CbfDeserializer& KeepDataInMemory(bool keep = true) & {
    options_.Flag("keepDataInMemory", keep);
    return *this;
  }
  /// Numbers the sequences of all files consecutively (`sharedIds`; default: false); else each file
  /// has its own numbering.
  CbfDeserializer& SharedIds(bool shared = true) & {
    options_.Flag("sharedIds", shared);
    return *this;
  }

  // The same for temporaries, so that calls can be chained.
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

  /// Returns the section as an element of `deserializers` in a configuration. Throws if a name
  /// cannot be written there.
  std::string Text() const { return All().Write(true); }

 private:
  friend class Deserializer;

  detail::Options All() const {
    return streams_.empty() ? options_ : detail::WithStreams(options_, streams_);
  }

  /// Returns the options of a stream by its delivered name.
  detail::Options& Stream(const std::string& name) {
    options_.Check();
    for (auto& [known, stream] : streams_)
      if (known == name) return stream;
    streams_.emplace_back(name, detail::Options());
    return streams_.back().second;
  }

  detail::Options options_;
  detail::Streams streams_;
  std::vector<std::string> renamed_;
};

/// NumPy arrays (`.npy`), each a dense stream. Row `i` of each array is a sample of the sequence
/// with the key `i`. CNTK has no such deserializer.
///
/// The shape of a sample has the dimensions of a row in reverse order, which is CNTK's.
class NumpyDeserializer {
 public:
  /// Creates a deserializer without arrays.
  NumpyDeserializer() : options_("NumpyDeserializer") {}

  /// Adds a file with one array as the stream `name`. All arrays must have the same number of rows.
  NumpyDeserializer& Array(std::string name, const std::string& file) & {
    options_.Check();
    detail::Options stream;
    stream.Path("file", file);
    streams_.emplace_back(std::move(name), std::move(stream));
    return *this;
  }
  /// Measures minibatch sizes in samples of the array added last (`definesMBSize`; default: in
  /// those of the longest stream).
  NumpyDeserializer& DefinesMinibatchSize() & {
    options_.Check();
    if (streams_.empty())
      throw Error(
          ErrorKind::kConfig,
          "NumpyDeserializer::DefinesMinibatchSize describes the array added last: call it after Array.");
    streams_.back().second.Flag("definesMBSize", true);
    return *this;
  }
  /// Sets an integer array with the lengths of sequences in rows, whose sum must be the number of
  /// rows (`lengths`; default: each row is a sequence).
  NumpyDeserializer& Lengths(const std::string& file) & {
    options_.Path("lengths", file);
    return *this;
  }
  /// Sets the size of chunks in bytes, the units of loading, randomizing and distribution
  /// (`chunkSizeInBytes`; default: 32 MiB).
  NumpyDeserializer& ChunkSize(std::uint64_t bytes) & {
    options_.Whole("chunkSizeInBytes", bytes);
    return *this;
  }

  // The same for temporaries, so that calls can be chained.
  NumpyDeserializer&& Array(std::string name, const std::string& file) && {
    return std::move(Array(std::move(name), file));
  }
  NumpyDeserializer&& DefinesMinibatchSize() && { return std::move(DefinesMinibatchSize()); }
  NumpyDeserializer&& Lengths(const std::string& file) && { return std::move(Lengths(file)); }
  NumpyDeserializer&& ChunkSize(std::uint64_t bytes) && { return std::move(ChunkSize(bytes)); }

  /// Returns the section as an element of `deserializers` in a configuration. Throws if a name
  /// cannot be written there.
  std::string Text() const { return All().Write(true); }

 private:
  friend class Deserializer;

  detail::Options All() const { return detail::WithStreams(options_, streams_); }

  detail::Options options_;
  detail::Streams streams_;
};

/// A deserializer of a reader: one of the builders, or a user-defined deserializer.
class Deserializer {
 public:
  // NOLINTBEGIN(google-explicit-constructor): builders convert to deserializers.
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
  /// `name` is the deserializer's in Reader::GetMembers. It must not be empty.
  Deserializer(std::string name, std::shared_ptr<UserDeserializer> user)
      : options_(name), name_(std::move(name)), user_(std::move(user)) {
    if (name_.empty())
      throw Error(ErrorKind::kInvalidArgument,
                  "The name of a user-defined deserializer is empty. Pass any other name, as in "
                  "`Deserializer(\"mine\", deserializer)`.");
  }

 private:
  friend class Reader;

  detail::Options options_;
  std::string name_;
  std::shared_ptr<UserDeserializer> user_;
  Transforms transforms_;  // User-defined.
};

}  // namespace reader
}  // namespace cntk

#endif  // CNTK_READER_CONFIGURATION_HPP
