// The types that a host's composite reader and its modules of deserializers exchange.
#pragma once

#include <deque>
#include <stdexcept>

#include "host_types.hpp"

namespace cntk_host {

struct SequenceKey {
  size_t sequence = 0;
  uint32_t sample = 0;
};
static_assert(sizeof(SequenceKey) == 16);

struct SequenceInfo {
  size_t index = 0;  // within the chunk
  uint32_t samples = 0;
  uint32_t chunk = 0;
  SequenceKey key;
};
static_assert(sizeof(SequenceInfo) == 32 && offsetof(SequenceInfo, key) == 16);

struct ChunkInfo {
  uint32_t id = 0;
  size_t samples = 0;
  size_t sequences = 0;
};
static_assert(sizeof(ChunkInfo) == 24);

// One sequence of one stream. The destructors come first in the virtual table.
class SequenceData {
 public:
  virtual ~SequenceData() = default;
  virtual const Shape& GetSampleShape() = 0;
  virtual const void* GetDataBuffer() = 0;

  uint32_t samples = 0;
  Element element = Element::unknown;
  bool valid = true;
  SequenceKey key;
  [[no_unique_address]] MemberIf<kHasHeldBuffer, std::shared_ptr<uint8_t>> held;
};
static_assert(sizeof(SequenceData) == (kHasHeldBuffer ? 56 : 40) && alignof(SequenceData) == 8);

class SparseSequenceData : public SequenceData {
 public:
  const int32_t* rows = nullptr;
  std::vector<int32_t> counts;  // values of each sample
  int32_t total = 0;
};
static_assert(sizeof(SparseSequenceData) == (kHasHeldBuffer ? 96 : 80));

class Chunk {
 public:
  // Appends the sequence's data in each stream.
  virtual void GetSequence(size_t index, std::vector<std::shared_ptr<SequenceData>>& out) = 0;
  virtual void SequenceInfos(std::vector<SequenceInfo>&) { throw std::logic_error("Not implemented."); }
  virtual ~Chunk() = default;
};
static_assert(sizeof(Chunk) == 8);

class DataDeserializer {
 public:
  virtual std::vector<StreamInformation> StreamInfos() = 0;
  virtual std::vector<ChunkInfo> ChunkInfos() = 0;
  virtual void SequenceInfosForChunk(uint32_t chunk, std::vector<SequenceInfo>& out) = 0;
  virtual bool GetSequenceInfo(const SequenceInfo& primary, SequenceInfo& out) = 0;
  virtual std::shared_ptr<Chunk> GetChunk(uint32_t chunk) = 0;
  virtual ~DataDeserializer() = default;
};
static_assert(sizeof(DataDeserializer) == 8);

// Changes sequences before they are packed.
class Transformer {
 public:
  virtual void StartEpoch(const void* epoch_configuration) = 0;
  virtual StreamInformation Transform(const StreamInformation& stream) = 0;
  // `place` is the sequence's position in its minibatch, which hosts before 2.4 do not pass. The
  // result may be the sequence itself.
#if CNTK_DROPIN_HOST >= 20400
  virtual std::shared_ptr<SequenceData> Transform(std::shared_ptr<SequenceData> sequence, int place) = 0;
#else
  virtual std::shared_ptr<SequenceData> Transform(std::shared_ptr<SequenceData> sequence) = 0;
#endif
  virtual ~Transformer() = default;
};
static_assert(sizeof(Transformer) == 8);

// Transforms a sequence, in all versions of the host.
inline std::shared_ptr<SequenceData> transform(Transformer& transformer,
                                               std::shared_ptr<SequenceData> sequence,
                                               [[maybe_unused]] int place) {
#if CNTK_DROPIN_HOST >= 20400
  return transformer.Transform(std::move(sequence), place);
#else
  return transformer.Transform(std::move(sequence));
#endif
}

// Maps the sequence keys of all deserializers of a reader to numbers. Only its creator uses the
// registry.
struct CorpusDescriptor {
  std::function<size_t(const std::string&)> key_to_id;
  std::function<std::string(size_t)> id_to_key;
  bool numeric_keys = true;
  bool hash_keys = false;
  std::map<std::string, size_t> registry;
  std::deque<const std::string*> texts;
};
static_assert(sizeof(CorpusDescriptor) == 200 && sizeof(std::map<std::string, size_t>) == 48);

// The functions that modules export. Arguments of class type are passed as the address of a copy
// that the caller destroys.
using CreateDeserializer = bool(std::shared_ptr<DataDeserializer>& deserializer, const std::wstring& type,
                                const ConfigParameters& config, std::shared_ptr<CorpusDescriptor> corpus,
                                bool is_primary);
using CreateTransformer = bool(Transformer** transformer, const std::wstring& type,
                               const ConfigParameters& config);

}  // namespace cntk_host
