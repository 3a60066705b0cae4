// Typed options of speech deserializers: HTK features, labels (MLF), lattices, Kaldi archives.
//
//     cr::Reader reader = cr::Reader::Open(
//         {cr::HtkFeatureDeserializer("features", "train.scp", 40).ContextWindow(5, 5),
//          cr::HtkMlfDeserializer("labels", "train.mlf", 132).StateList("states.list")});
//
// Options that are not set have the defaults in docs/configuration.md.
//
// Part of <cntk_reader.hpp>; include that.

#ifndef CNTK_READER_SPEECH_HPP
#define CNTK_READER_SPEECH_HPP

#include <cntk_reader/options.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace cntk {
namespace reader {

class Deserializer;

namespace detail {

/// The options of a deserializer with one stream.
class OneStream {
 public:
  /// `key` is the option for a single path, `list_key` the option for several.
  OneStream(Options deserializer, std::string name, const char* key, const char* list_key, std::string path)
      : outer(std::move(deserializer)),
        name_(std::move(name)),
        key_(key),
        list_key_(list_key),
        paths_{std::move(path)} {}

  /// Options of the deserializer.
  Options outer;
  /// Options of the stream.
  Options inner;

  void AddPath(std::string path) {
    outer.Check();
    paths_.push_back(std::move(path));
  }

  Options All() const {
    Options stream = inner;
    if (paths_.size() == 1)
      stream.Path(key_, paths_.front());
    else
      for (const std::string& path : paths_) stream.AddPath(list_key_, path);
    return WithStreams(outer, {{name_, std::move(stream)}});
  }

  std::string Text() const { return All().Write(true); }

 private:
  std::string name_;
  const char* key_;
  const char* list_key_;
  std::vector<std::string> paths_;
};

/// Returns the options of a label deserializer.
inline OneStream MlfStream(const char* type, std::string name, std::string path, std::size_t classes) {
  OneStream labels({type, "HTKDeserializers"}, std::move(name), "mlfFile", "mlfFileList", std::move(path));
  labels.inner.Whole("labelDim", classes);
  return labels;
}

}  // namespace detail

/// Features in HTK archives, listed by a script file: one dense stream.
class HtkFeatureDeserializer {
 public:
  /// `dim` is the number of values per frame. Without ContextWindow it may be an odd multiple of
  /// that, which implies the context window.
  HtkFeatureDeserializer(std::string stream, std::string scp_file, std::size_t dim)
      : options_({"HTKFeatureDeserializer", "HTKDeserializers"}, std::move(stream), "scpFile", "scpFile",
                 std::move(scp_file)) {
    options_.inner.Whole("dim", dim);
  }

  /// Appends a script file after the previous ones.
  HtkFeatureDeserializer& AddScpFile(std::string scp_file) & {
    options_.AddPath(std::move(scp_file));
    return *this;
  }
  /// Sets the numbers of neighbouring frames before and after the frame of a sample
  /// (`contextWindow`; default: none).
  HtkFeatureDeserializer& ContextWindow(std::uint32_t before, std::uint32_t after) & {
    options_.inner.Pair("contextWindow", before, after);
    return *this;
  }
  /// Sets a prefix for each path in the script (`prefixPathInSCP`; default: none). Without it,
  /// `...` in a line stands for the folder of the script.
  HtkFeatureDeserializer& PrefixPath(const std::string& prefix) & {
    options_.inner.Path("prefixPathInSCP", prefix);
    return *this;
  }
  /// Repeats the single frame of each utterance, such as an i-vector, for every sample of the
  /// reader's first deserializer (`expandToUtterance`; default: false).
  HtkFeatureDeserializer& ExpandToUtterance(bool expand = true) & {
    options_.inner.Flag("expandToUtterance", expand);
    return *this;
  }
  /// Leaves out utterances with more frames (`maxSequenceSize`; default: no limit).
  HtkFeatureDeserializer& MaxSequenceSize(std::uint64_t frames) & {
    options_.outer.Whole("maxSequenceSize", frames);
    return *this;
  }
  /// Measures minibatch sizes in frames of this stream (`definesMBSize`; default: in those of the
  /// longest stream).
  HtkFeatureDeserializer& DefinesMinibatchSize(bool defines = true) & {
    options_.outer.Flag("definesMBSize", defines);
    return *this;
  }

  // The same for temporaries, so that calls can be chained.
  HtkFeatureDeserializer&& AddScpFile(std::string scp_file) && {
    return std::move(AddScpFile(std::move(scp_file)));
  }
  HtkFeatureDeserializer&& ContextWindow(std::uint32_t before, std::uint32_t after) && {
    return std::move(ContextWindow(before, after));
  }
  HtkFeatureDeserializer&& PrefixPath(const std::string& prefix) && { return std::move(PrefixPath(prefix)); }
  HtkFeatureDeserializer&& ExpandToUtterance(bool expand = true) && {
    return std::move(ExpandToUtterance(expand));
  }
  HtkFeatureDeserializer&& MaxSequenceSize(std::uint64_t frames) && {
    return std::move(MaxSequenceSize(frames));
  }
  HtkFeatureDeserializer&& DefinesMinibatchSize(bool defines = true) && {
    return std::move(DefinesMinibatchSize(defines));
  }

  /// Returns the section as an element of `deserializers` in a configuration. Throws if a name
  /// cannot be written there.
  std::string Text() const { return options_.Text(); }

 private:
  friend class Deserializer;

  detail::OneStream options_;
};

/// Frame labels in text files in HTK's master label format: one sparse stream of class numbers. It
/// must follow a deserializer of features.
class HtkMlfDeserializer {
 public:
  /// `classes` is the number of classes, which is the size of a sample.
  HtkMlfDeserializer(std::string stream, std::string mlf_file, std::size_t classes)
      : options_(detail::MlfStream("HTKMLFDeserializer", std::move(stream), std::move(mlf_file), classes)) {}

  /// Appends a label file after the previous ones (`mlfFileList`).
  HtkMlfDeserializer& AddMlfFile(std::string mlf_file) & {
    options_.AddPath(std::move(mlf_file));
    return *this;
  }
  /// Sets the list of states, whose lines are the names of classes (`labelMappingFile`). Without
  /// it, each line of labels has the class number in its fourth column.
  HtkMlfDeserializer& StateList(const std::string& path) & {
    options_.inner.Path("labelMappingFile", path);
    return *this;
  }
  /// Delivers the value 2 instead of 1 in the first frame of each range (`phoneBoundaries`;
  /// default: false). Not in frame mode.
  HtkMlfDeserializer& PhoneBoundaries(bool boundaries = true) & {
    options_.inner.Flag("phoneBoundaries", boundaries);
    return *this;
  }
  /// Caches the index in a file next to the data, in CNTK's format (`cacheIndex`; default: false).
  /// Only used if keys are hashed: see ReaderOptions::hash_keys.
  HtkMlfDeserializer& CacheIndex(bool cache = true) & {
    options_.inner.Flag("cacheIndex", cache);
    return *this;
  }
  /// Sets the size of chunks in bytes, the units of loading (`chunkSizeInBytes`; default: 64 MiB).
  HtkMlfDeserializer& ChunkSize(std::uint64_t bytes) & {
    options_.outer.Whole("chunkSizeInBytes", bytes);
    return *this;
  }
  /// Delivers class numbers as dense integers, `kInt32` or `kInt64` (`ids`).
  HtkMlfDeserializer& Ids(ElementType element) & {
    options_.inner.Text("ids", detail::WordOf(element));
    return *this;
  }
  /// Sets the value of gaps in truncated minibatches with Ids (`padding`; default: 0).
  HtkMlfDeserializer& Padding(std::int64_t value) & {
    options_.inner.Text("padding", std::to_string(value));
    return *this;
  }

  // The same for temporaries, so that calls can be chained.
  HtkMlfDeserializer&& Ids(ElementType element) && { return std::move(Ids(element)); }
  HtkMlfDeserializer&& Padding(std::int64_t value) && { return std::move(Padding(value)); }
  HtkMlfDeserializer&& AddMlfFile(std::string mlf_file) && {
    return std::move(AddMlfFile(std::move(mlf_file)));
  }
  HtkMlfDeserializer&& StateList(const std::string& path) && { return std::move(StateList(path)); }
  HtkMlfDeserializer&& PhoneBoundaries(bool boundaries = true) && {
    return std::move(PhoneBoundaries(boundaries));
  }
  HtkMlfDeserializer&& CacheIndex(bool cache = true) && { return std::move(CacheIndex(cache)); }
  HtkMlfDeserializer&& ChunkSize(std::uint64_t bytes) && { return std::move(ChunkSize(bytes)); }

  /// Returns the section as an element of `deserializers` in a configuration. Throws if a name
  /// cannot be written there.
  std::string Text() const { return options_.Text(); }

 private:
  friend class Deserializer;

  detail::OneStream options_;
};

/// Frame labels in CNTK's binary files: one sparse stream of class numbers. It must follow a
/// deserializer of features.
class HtkMlfBinaryDeserializer {
 public:
  /// `classes` is the number of classes, which is the size of a sample.
  HtkMlfBinaryDeserializer(std::string stream, std::string mlf_file, std::size_t classes)
      : options_(
            detail::MlfStream("HTKMLFBinaryDeserializer", std::move(stream), std::move(mlf_file), classes)) {}

  /// Appends a label file after the previous ones (`mlfFileList`).
  HtkMlfBinaryDeserializer& AddMlfFile(std::string mlf_file) & {
    options_.AddPath(std::move(mlf_file));
    return *this;
  }
  /// Caches the index in a file next to the data, in CNTK's format (`cacheIndex`; default: false).
  /// Only used if keys are hashed: see ReaderOptions::hash_keys.
  HtkMlfBinaryDeserializer& CacheIndex(bool cache = true) & {
    options_.inner.Flag("cacheIndex", cache);
    return *this;
  }
  /// Sets the size of chunks in bytes, the units of loading (`chunkSizeInBytes`; default: 64 MiB).
  HtkMlfBinaryDeserializer& ChunkSize(std::uint64_t bytes) & {
    options_.outer.Whole("chunkSizeInBytes", bytes);
    return *this;
  }
  /// Delivers class numbers as dense integers, `kInt32` or `kInt64` (`ids`).
  HtkMlfBinaryDeserializer& Ids(ElementType element) & {
    options_.inner.Text("ids", detail::WordOf(element));
    return *this;
  }
  /// Sets the value of gaps in truncated minibatches with Ids (`padding`; default: 0).
  HtkMlfBinaryDeserializer& Padding(std::int64_t value) & {
    options_.inner.Text("padding", std::to_string(value));
    return *this;
  }

  // The same for temporaries, so that calls can be chained.
  HtkMlfBinaryDeserializer&& Ids(ElementType element) && { return std::move(Ids(element)); }
  HtkMlfBinaryDeserializer&& Padding(std::int64_t value) && { return std::move(Padding(value)); }
  HtkMlfBinaryDeserializer&& AddMlfFile(std::string mlf_file) && {
    return std::move(AddMlfFile(std::move(mlf_file)));
  }
  HtkMlfBinaryDeserializer&& CacheIndex(bool cache = true) && { return std::move(CacheIndex(cache)); }
  HtkMlfBinaryDeserializer&& ChunkSize(std::uint64_t bytes) && { return std::move(ChunkSize(bytes)); }

  /// Returns the section as an element of `deserializers` in a configuration. Throws if a name
  /// cannot be written there.
  std::string Text() const { return options_.Text(); }

 private:
  friend class Deserializer;

  detail::OneStream options_;
};

/// Lattices: one stream of opaque bytes per utterance. It must follow a deserializer of features.
class LatticeDeserializer {
 public:
  /// `index_file` lists the tables of contents.
  LatticeDeserializer(std::string stream, std::string index_file)
      : options_({"LatticeDeserializer", "HTKDeserializers"}, std::move(stream), "latticeIndexFile",
                 "latticeIndexFile", std::move(index_file)) {}

  /// Caches the index in a file next to the data, in CNTK's format (`cacheIndex`; default: false).
  /// Only used if keys are hashed: see ReaderOptions::hash_keys.
  LatticeDeserializer& CacheIndex(bool cache = true) & {
    options_.inner.Flag("cacheIndex", cache);
    return *this;
  }
  /// Sets the size of chunks in bytes, the units of loading (`chunkSizeInBytes`; default: 64 MiB).
  LatticeDeserializer& ChunkSize(std::uint64_t bytes) & {
    options_.outer.Whole("chunkSizeInBytes", bytes);
    return *this;
  }

  // The same for temporaries, so that calls can be chained.
  LatticeDeserializer&& CacheIndex(bool cache = true) && { return std::move(CacheIndex(cache)); }
  LatticeDeserializer&& ChunkSize(std::uint64_t bytes) && { return std::move(ChunkSize(bytes)); }

  /// Returns the section as an element of `deserializers` in a configuration. Throws if a name
  /// cannot be written there.
  std::string Text() const { return options_.Text(); }

 private:
  friend class Deserializer;

  detail::OneStream options_;
};

/// Kaldi archives: feature matrices as a dense stream, or integer vectors of class numbers as a
/// sparse one. CNTK has no such deserializer.
class KaldiDeserializer {
 public:
  /// Reads the utterances that a script file (`.scp`) lists. `dim` is the number of values per
  /// frame, or of classes.
  static KaldiDeserializer Script(std::string stream, std::string path, std::size_t dim) {
    return KaldiDeserializer(std::move(stream), "scpFile", std::move(path), dim);
  }
  /// Reads the utterances of an archive (`.ark`).
  static KaldiDeserializer Archive(std::string stream, std::string path, std::size_t dim) {
    return KaldiDeserializer(std::move(stream), "arkFile", std::move(path), dim);
  }

  /// Expects integer vectors of class numbers below `dim` (`format = "sparse"`).
  KaldiDeserializer& Sparse() & {
    options_.inner.Text("format", "sparse");
    return *this;
  }
  /// Sets the numbers of neighbouring frames before and after the frame of a sample
  /// (`contextWindow`; default: none).
  KaldiDeserializer& ContextWindow(std::uint32_t before, std::uint32_t after) & {
    options_.inner.Pair("contextWindow", before, after);
    return *this;
  }
  /// Repeats the single frame of each utterance, such as an i-vector, for every sample of the
  /// reader's first deserializer (`expandToUtterance`; default: false).
  KaldiDeserializer& ExpandToUtterance(bool expand = true) & {
    options_.inner.Flag("expandToUtterance", expand);
    return *this;
  }
  /// Leaves out utterances with more frames (`maxSequenceSize`; default: no limit).
  KaldiDeserializer& MaxSequenceSize(std::uint64_t frames) & {
    options_.outer.Whole("maxSequenceSize", frames);
    return *this;
  }
  /// Measures minibatch sizes in frames of this stream (`definesMBSize`; default: in those of the
  /// longest stream).
  KaldiDeserializer& DefinesMinibatchSize(bool defines = true) & {
    options_.outer.Flag("definesMBSize", defines);
    return *this;
  }
  /// Delivers class numbers as dense integers, `kInt32` or `kInt64` (`ids`).
  KaldiDeserializer& Ids(ElementType element) & {
    options_.inner.Text("ids", detail::WordOf(element));
    return *this;
  }
  /// Sets the value of gaps in truncated minibatches with Ids (`padding`; default: 0).
  KaldiDeserializer& Padding(std::int64_t value) & {
    options_.inner.Text("padding", std::to_string(value));
    return *this;
  }

  // The same for temporaries, so that calls can be chained.
  KaldiDeserializer&& Ids(ElementType element) && { return std::move(Ids(element)); }
  KaldiDeserializer&& Padding(std::int64_t value) && { return std::move(Padding(value)); }
  KaldiDeserializer&& Sparse() && { return std::move(Sparse()); }
  KaldiDeserializer&& ContextWindow(std::uint32_t before, std::uint32_t after) && {
    return std::move(ContextWindow(before, after));
  }
  KaldiDeserializer&& ExpandToUtterance(bool expand = true) && {
    return std::move(ExpandToUtterance(expand));
  }
  KaldiDeserializer&& MaxSequenceSize(std::uint64_t frames) && { return std::move(MaxSequenceSize(frames)); }
  KaldiDeserializer&& DefinesMinibatchSize(bool defines = true) && {
    return std::move(DefinesMinibatchSize(defines));
  }

  /// Returns the section as an element of `deserializers` in a configuration. Throws if a name
  /// cannot be written there.
  std::string Text() const { return options_.Text(); }

 private:
  friend class Deserializer;

  KaldiDeserializer(std::string stream, const char* key, std::string path, std::size_t dim)
      : options_(detail::Options("KaldiDeserializer"), std::move(stream), key, key, std::move(path)) {
    options_.inner.Whole("dim", dim);
  }

  detail::OneStream options_;
};

}  // namespace reader
}  // namespace cntk

#endif  // CNTK_READER_SPEECH_HPP
