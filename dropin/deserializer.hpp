// The engine's deserializers with the host's interface, for CNTK's composite reader.
#pragma once

#include <string>
#include <vector>

#include "data_reader.hpp"
#include "engine.hpp"
#include "host_deserializers.hpp"

namespace cntk_dropin {

// How a type of deserializer stores images, and the consecutive copies of each (`multiViewCrop`).
enum class Images {
  none,
  of_chunks,  // each chunk is one copy of one image
  in_chunks,  // a chunk has several images
};

// A type of deserializer.
struct Type {
  const char* name;
  // Whether sequences report their keys. CNTK's binary module, its labels and its lattices are
  // found by key, but their data lack the key.
  bool marks_keys;
  Images images = Images::none;
};

// The types for images. Their streams are delivered as decoded, for transforms.
inline const std::vector<Type> kImageTypes = {{"ImageDeserializer", true, Images::of_chunks},
                                              {"Base64ImageDeserializer", true, Images::in_chunks}};

// Properties of a module of deserializers.
struct Format {
  // The kind of reader that the module creates for a `readerType`.
  cntk_reader_section_kind kind;
  // The types of deserializers in the module.
  std::vector<Type> types;
  // Whether the module itself reports an unknown type as an error, instead of its caller.
  bool refuses_types;
  // The adapter of a reader that a host creates by `readerType`.
  Adapter adapter;

  // Returns the type with this name, or null.
  const Type* find(const std::string& name) const;
};

class EngineDeserializer : public cntk_host::DataDeserializer {
 public:
  // Without a corpus, keys must be numbers. `is_primary`: it is its reader's first deserializer.
  EngineDeserializer(const Type& type, const cntk_host::ConfigParameters& config,
                     std::shared_ptr<cntk_host::CorpusDescriptor> corpus, bool is_primary);

  std::vector<cntk_host::StreamInformation> StreamInfos() override;
  std::vector<cntk_host::ChunkInfo> ChunkInfos() override;
  void SequenceInfosForChunk(uint32_t chunk, std::vector<cntk_host::SequenceInfo>& out) override;
  bool GetSequenceInfo(const cntk_host::SequenceInfo& primary, cntk_host::SequenceInfo& out) override;
  std::shared_ptr<cntk_host::Chunk> GetChunk(uint32_t chunk) override;

 private:
  std::vector<cntk_reader_sequence_info> sequences(uint32_t chunk) const;
  // Returns which copy of an image a sequence is.
  uint32_t copy_of(const cntk_reader_sequence_info& info) const;

  const Type type_;
  // Shared with the chunks, whose sequences refer to the shapes in it.
  std::shared_ptr<const std::vector<cntk_host::StreamInformation>> streams_;
  size_t chunk_count_ = 0;
  // Each sequence has one sample, which stands for each sample of the reader's first stream.
  bool is_expanded_ = false;
  // There are several copies of each image.
  bool is_multi_view_ = false;
  DeserializerHandle deserializer_;
};

}  // namespace cntk_dropin
