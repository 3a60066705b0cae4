// The engine's deserializers with the host's interface, for CNTK's own composite reader.
#pragma once

#include <string>
#include <vector>

#include "engine.hpp"
#include "host_deserializers.hpp"

namespace cntk_dropin {

// How the modules of deserializers differ.
struct Format {
  // The kind of reader that the module makes if a configuration names it by `readerType`.
  cntk_reader_section_kind kind;
  // The only type of deserializer that it has.
  const char* type;
  // Whether sequences report their keys. CNTK's binary module finds sequences by key, but leaves the key out
  // of their data.
  bool marks_keys;
};

class EngineDeserializer : public cntk_host::DataDeserializer {
 public:
  // `name` is the type of the deserializer in the configuration. Without a corpus, keys must be numbers.
  EngineDeserializer(const Format& format, const std::string& name, const cntk_host::ConfigParameters& config,
                     std::shared_ptr<cntk_host::CorpusDescriptor> corpus);

  std::vector<cntk_host::StreamInformation> StreamInfos() override;
  std::vector<cntk_host::ChunkInfo> ChunkInfos() override;
  void SequenceInfosForChunk(uint32_t chunk, std::vector<cntk_host::SequenceInfo>& out) override;
  bool GetSequenceInfo(const cntk_host::SequenceInfo& primary, cntk_host::SequenceInfo& out) override;
  std::shared_ptr<cntk_host::Chunk> GetChunk(uint32_t chunk) override;

 private:
  std::vector<cntk_reader_sequence_info> sequences(uint32_t chunk) const;

  const Format format_;
  // Shared with the chunks, because their sequences refer to the shapes in it.
  std::shared_ptr<const std::vector<cntk_host::StreamInformation>> streams_;
  size_t chunk_count_ = 0;
  DeserializerHandle deserializer_;
};

}  // namespace cntk_dropin
