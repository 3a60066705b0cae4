#include "deserializer.hpp"

#include <exception>
#include <stdexcept>

namespace cntk_dropin {
namespace {

namespace host = cntk_host;
using Streams = std::shared_ptr<const std::vector<host::StreamInformation>>;

// Numbers keys by the host's corpus, and keeps the message of an exception that the corpus throws: exceptions
// must not unwind the engine. (An exception_ptr would need a newer libstdc++ than the oldest hosts have.)
struct Numbering {
  std::shared_ptr<host::CorpusDescriptor> corpus;
  std::string failure;

  static int32_t number(void* self, const char* text, size_t length, uint64_t* out) {
    auto& numbering = *static_cast<Numbering*>(self);
    try {
      *out = numbering.corpus->key_to_id(std::string(text, length));
      return 0;
    } catch (const std::exception& error) {
      numbering.failure = error.what();
    } catch (...) {
      numbering.failure = "The corpus cannot number a sequence key.";
    }
    return 1;
  }
};

DeserializerHandle open(const Format& format, const std::string& name, const host::ConfigParameters& config,
                        Numbering& numbering) {
  if (name != format.type) throw std::invalid_argument("Unknown deserializer type '" + name + "'");
  const SectionHandle section = make_section(config);
  cntk_reader_corpus corpus = CNTK_READER_CORPUS_INIT;
  if (numbering.corpus != nullptr) {
    corpus.numeric_keys = numbering.corpus->numeric_keys ? 1 : 0;
    corpus.hash_keys = numbering.corpus->hash_keys ? 1 : 0;
    corpus.userdata = &numbering;
    corpus.number = Numbering::number;
  }
  cntk_reader_deserializer* deserializer = nullptr;
  try {
    call(cntk_reader_deserializer_open, name.data(), name.size(), section.get(), &corpus, &deserializer);
  } catch (...) {
    if (!numbering.failure.empty()) throw std::runtime_error(numbering.failure);
    throw;
  }
  return DeserializerHandle(deserializer);
}

// The data of one chunk. Sequences keep it alive.
class EngineChunk : public host::Chunk, public std::enable_shared_from_this<EngineChunk> {
 public:
  // `keys` are the keys that the sequences report, by their index in the chunk.
  EngineChunk(ChunkHandle chunk, Streams streams, std::vector<uint64_t> keys)
      : chunk_(std::move(chunk)), streams_(std::move(streams)), keys_(std::move(keys)) {}

  void GetSequence(size_t index, std::vector<std::shared_ptr<host::SequenceData>>& out) override;

 private:
  const ChunkHandle chunk_;
  const Streams streams_;
  const std::vector<uint64_t> keys_;
};

// A sequence whose values lie in a chunk.
template <typename Base>
class Sequence : public Base {
 public:
  Sequence(std::shared_ptr<const EngineChunk> chunk, const host::StreamInformation& stream,
           const cntk_reader_sequence& view, size_t key)
      : chunk_(std::move(chunk)), shape_(stream.shape), values_(view.values) {
    this->samples = view.samples;
    this->element = stream.element;
    this->valid = view.presence == CNTK_READER_PRESENCE_PRESENT;
    this->key.sequence = key;
  }

  const host::Shape& GetSampleShape() override { return shape_; }
  const void* GetDataBuffer() override { return values_; }

 private:
  const std::shared_ptr<const EngineChunk> chunk_;
  const host::Shape& shape_;
  const void* const values_;
};

using DenseSequence = Sequence<host::SequenceData>;

class SparseSequence : public Sequence<host::SparseSequenceData> {
 public:
  SparseSequence(std::shared_ptr<const EngineChunk> chunk, const host::StreamInformation& stream,
                 const cntk_reader_sequence& view, size_t key)
      : Sequence(std::move(chunk), stream, view, key) {
    rows = view.indices;
    total = static_cast<int32_t>(view.value_count);
    counts.reserve(view.samples);
    for (uint32_t i = 0; i < view.samples; ++i) {
      counts.push_back(static_cast<int32_t>(view.sample_offsets[i + 1] - view.sample_offsets[i]));
    }
  }
};

void EngineChunk::GetSequence(size_t index, std::vector<std::shared_ptr<host::SequenceData>>& out) {
  out.reserve(out.size() + streams_->size());
  for (const host::StreamInformation& stream : *streams_) {
    cntk_reader_sequence view = {};
    view.struct_size = sizeof view;
    call(cntk_reader_chunk_get_sequence, chunk_.get(), stream.id, static_cast<uint32_t>(index), &view);
    if (stream.storage == host::Storage::dense) {
      out.push_back(std::make_shared<DenseSequence>(shared_from_this(), stream, view, keys_[index]));
    } else {
      out.push_back(std::make_shared<SparseSequence>(shared_from_this(), stream, view, keys_[index]));
    }
  }
}

host::SequenceInfo convert(const cntk_reader_sequence_info& from) {
  host::SequenceInfo to;
  to.index = from.index;
  to.samples = from.samples;
  to.chunk = from.chunk;
  to.key.sequence = from.key;
  return to;
}

}  // namespace

EngineDeserializer::EngineDeserializer(const Format& format, const std::string& name,
                                       const host::ConfigParameters& config,
                                       std::shared_ptr<host::CorpusDescriptor> corpus)
    : format_(format) {
  Numbering numbering{std::move(corpus), {}};
  deserializer_ = open(format, name, config, numbering);
  cntk_reader_deserializer_info whole = {};
  whole.struct_size = sizeof whole;
  call(cntk_reader_deserializer_describe, deserializer_.get(), &whole);
  chunk_count_ = whole.chunk_count;
  auto streams = std::make_shared<std::vector<host::StreamInformation>>();
  for (size_t i = 0; i < whole.stream_count; ++i) {
    cntk_reader_stream_info info = {};
    info.struct_size = sizeof info;
    call(cntk_reader_deserializer_describe_stream, deserializer_.get(), i, &info);
    streams->push_back(describe(info));
  }
  streams_ = std::move(streams);
}

std::vector<host::StreamInformation> EngineDeserializer::StreamInfos() { return *streams_; }

std::vector<host::ChunkInfo> EngineDeserializer::ChunkInfos() {
  std::vector<host::ChunkInfo> chunks;
  chunks.reserve(chunk_count_);
  for (uint32_t id = 0; id < chunk_count_; ++id) {
    cntk_reader_chunk_info info = {};
    info.struct_size = sizeof info;
    call(cntk_reader_deserializer_describe_chunk, deserializer_.get(), id, &info);
    chunks.push_back({id, info.samples, info.sequences});
  }
  return chunks;
}

std::vector<cntk_reader_sequence_info> EngineDeserializer::sequences(uint32_t chunk) const {
  size_t count = 0;
  call(cntk_reader_deserializer_list_sequences, deserializer_.get(), chunk, nullptr, size_t{0}, &count);
  std::vector<cntk_reader_sequence_info> infos(count);
  call(cntk_reader_deserializer_list_sequences, deserializer_.get(), chunk, infos.data(), infos.size(),
       &count);
  return infos;
}

void EngineDeserializer::SequenceInfosForChunk(uint32_t chunk, std::vector<host::SequenceInfo>& out) {
  const std::vector<cntk_reader_sequence_info> infos = sequences(chunk);
  out.reserve(out.size() + infos.size());
  for (const cntk_reader_sequence_info& info : infos) out.push_back(convert(info));
}

bool EngineDeserializer::GetSequenceInfo(const host::SequenceInfo& primary, host::SequenceInfo& out) {
  uint32_t found = 0;
  cntk_reader_sequence_info info = {};
  call(cntk_reader_deserializer_find_sequence, deserializer_.get(), primary.key.sequence, &found, &info);
  if (found == 0) return false;
  out = convert(info);
  return true;
}

std::shared_ptr<host::Chunk> EngineDeserializer::GetChunk(uint32_t chunk) {
  cntk_reader_chunk* loaded = nullptr;
  call(cntk_reader_deserializer_load_chunk, deserializer_.get(), chunk, &loaded);
  ChunkHandle handle(loaded);
  std::vector<uint64_t> keys;
  for (const cntk_reader_sequence_info& info : sequences(chunk)) {
    keys.push_back(format_.marks_keys ? info.key : 0);
  }
  return std::make_shared<EngineChunk>(std::move(handle), streams_, std::move(keys));
}

}  // namespace cntk_dropin
