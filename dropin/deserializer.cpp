#include "deserializer.hpp"

#include <cxxabi.h>

#include <exception>
#include <stdexcept>

#include "image_chunk.hpp"
#include "sequences.hpp"

namespace cntk_dropin {
namespace {

namespace host = cntk_host;
// Copies of each image (`multiViewCrop`).
constexpr uint32_t kCopies = 10;

using Streams = std::shared_ptr<const std::vector<host::StreamInformation>>;

// Maps keys to numbers with the host's corpus, and keeps the message of an exception that it
// throws: exceptions must not unwind the engine. (std::exception_ptr needs a newer libstdc++ than
// the oldest hosts have.)
struct Numbering {
  std::shared_ptr<host::CorpusDescriptor> corpus;
  std::string failure;

  static int32_t number(void* self, const char* text, size_t length, uint64_t* out) {
    auto& numbering = *static_cast<Numbering*>(self);
    try {
      *out = numbering.corpus->key_to_id(std::string(text, length));
      return 0;
    } catch (abi::__forced_unwind&) {
      cntk_reader_thread_park();
    } catch (const std::exception& error) {
      numbering.failure = error.what();
    } catch (...) {
      numbering.failure = "The corpus cannot number a sequence key.";
    }
    return 1;
  }
};

DeserializerHandle open(const std::string& name, const host::ConfigParameters& config, Numbering& numbering,
                        bool is_primary) {
  const SectionHandle section = make_section(config);
  cntk_reader_corpus corpus = CNTK_READER_CORPUS_INIT;
  if (numbering.corpus != nullptr) {
    corpus.numeric_keys = numbering.corpus->numeric_keys ? 1 : 0;
    corpus.hash_keys = numbering.corpus->hash_keys ? 1 : 0;
    corpus.userdata = &numbering;
    corpus.number = Numbering::number;
  }
  corpus.is_primary = is_primary ? 1 : 0;
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
  // `keys` are the keys that sequences report, by their index in the chunk.
  EngineChunk(ChunkHandle chunk, Streams streams, std::vector<uint64_t> keys, bool is_expanded)
      : chunk_(std::move(chunk)),
        streams_(std::move(streams)),
        keys_(std::move(keys)),
        is_expanded_(is_expanded) {}

  void GetSequence(size_t index, std::vector<std::shared_ptr<host::SequenceData>>& out) override;

 private:
  const ChunkHandle chunk_;
  const Streams streams_;
  const std::vector<uint64_t> keys_;
  const bool is_expanded_;
};

void EngineChunk::GetSequence(size_t index, std::vector<std::shared_ptr<host::SequenceData>>& out) {
  // The reader's first stream comes before this deserializer's.
  const uint32_t length = out.empty() ? 1 : out.front()->samples;
  // A frame past the end of its labels has an index outside the chunk, and is invalid.
  const bool exists = index < keys_.size();
  out.reserve(out.size() + streams_->size());
  for (const host::StreamInformation& stream : *streams_) {
    Decoded decoded;
    decoded.view.struct_size = sizeof decoded.view;
    decoded.view.presence = CNTK_READER_PRESENCE_INVALID;
    if (exists) {
      cntk_reader_decoded* numbers = nullptr;
      call(cntk_reader_chunk_decode_sequence, chunk_.get(), stream.id, static_cast<uint32_t>(index),
           &decoded.view, &numbers);
      decoded.numbers.reset(numbers);
    }
    const size_t key = exists ? keys_[index] : 0;
    if (is_expanded_) {
      out.push_back(std::make_shared<RepeatedSequence>(stream, decoded.view, length, key));
    } else if (stream.storage == host::Storage::dense) {
      out.push_back(std::make_shared<DenseSequence>(shared_from_this(), stream, std::move(decoded), key));
    } else {
      out.push_back(std::make_shared<SparseSequence>(shared_from_this(), stream, std::move(decoded), key));
    }
  }
}

host::SequenceInfo convert(const cntk_reader_sequence_info& from) {
  host::SequenceInfo to;
  to.index = from.index;
  to.samples = from.samples;
  to.chunk = from.chunk;
  to.key.sequence = from.key;
  to.key.sample = from.sample;
  return to;
}

}  // namespace

const Type* Format::find(const std::string& name) const {
  for (const Type& type : types) {
    if (name == type.name) return &type;
  }
  return nullptr;
}

EngineDeserializer::EngineDeserializer(const Type& type, const host::ConfigParameters& config,
                                       std::shared_ptr<host::CorpusDescriptor> corpus, bool is_primary)
    : type_(type) {
  Numbering numbering{std::move(corpus), {}};
  deserializer_ = open(type.name, config, numbering, is_primary);
  cntk_reader_deserializer_info whole = {};
  whole.struct_size = sizeof whole;
  call(cntk_reader_deserializer_describe, deserializer_.get(), &whole);
  chunk_count_ = whole.chunk_count;
  is_expanded_ = whole.is_expanded != 0;
  if (type.images != Images::none) is_multi_view_ = flag(make_section(config).get(), "multiViewCrop", false);
  auto streams = std::make_shared<std::vector<host::StreamInformation>>();
  for (size_t i = 0; i < whole.stream_count; ++i) {
    cntk_reader_stream_info info = {};
    info.struct_size = sizeof info;
    call(cntk_reader_deserializer_describe_stream, deserializer_.get(), i, &info);
    streams->push_back(describe(info));
    // Images stay bytes until a transform needs another type.
    if (type.images != Images::none && is_unknown(streams->back().shape))
      streams->back().element = host::Element::unknown;
  }
  streams_ = std::move(streams);
}

uint32_t EngineDeserializer::copy_of(const cntk_reader_sequence_info& info) const {
  if (!is_multi_view_) return 0;
  return (type_.images == Images::of_chunks ? info.chunk : info.index) % kCopies;
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
  cntk_reader_sequence_info of = {};
  of.samples = primary.samples;
  of.sample = primary.key.sample;
  of.key = primary.key.sequence;
  uint32_t found = 0;
  cntk_reader_sequence_info info = {};
  call(cntk_reader_deserializer_match_sequence, deserializer_.get(), &of, &found, &info);
  if (found == 0) return false;
  out = convert(info);
  return true;
}

std::shared_ptr<host::Chunk> EngineDeserializer::GetChunk(uint32_t chunk) {
  cntk_reader_chunk* loaded = nullptr;
  call(cntk_reader_deserializer_load_chunk, deserializer_.get(), chunk, &loaded);
  ChunkHandle handle(loaded);
  std::vector<uint64_t> keys;
  std::vector<uint32_t> copies;
  for (const cntk_reader_sequence_info& info : sequences(chunk)) {
    keys.push_back(type_.marks_keys ? info.key : 0);
    if (type_.images != Images::none) copies.push_back(copy_of(info));
  }
  if (type_.images != Images::none)
    return std::make_shared<ImageChunk>(std::move(handle), streams_, std::move(keys), std::move(copies));
  return std::make_shared<EngineChunk>(std::move(handle), streams_, std::move(keys), is_expanded_);
}

}  // namespace cntk_dropin
