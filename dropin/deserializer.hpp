// The engine's deserializers with the host's interface, for CNTK's own composite reader.
#pragma once

#include <string>
#include <vector>

#include "data_reader.hpp"
#include "engine.hpp"
#include "host_deserializers.hpp"

namespace cntk_dropin {

// How a type of deserializer has images, and their copies one after the other.
enum class Images {
  none,
  of_chunks,  // each chunk is one copy of one image
  in_chunks,  // a chunk has several images
};

// A type of deserializer.
struct Type {
  const char* name;
  // Whether sequences report their keys. CNTK's binary module, its labels and its lattices are found by key,
  // but leave the key out of their data.
  bool marks_keys;
  Images images = Images::none;
};

// The types that have images. Their streams are delivered as they are decoded, for transforms.
inline const std::vector<Type> kImageTypes = {{"ImageDeserializer", true, Images::of_chunks},
                                              {"Base64ImageDeserializer", true, Images::in_chunks}};

// How the modules of deserializers differ.
struct Format {
  // The kind of reader that the module makes if a configuration names it by `readerType`.
  cntk_reader_section_kind kind;
  // The types of deserializers that it has.
  std::vector<Type> types;
  // Whether an unknown type is an error of the module, and not of its caller.
  bool refuses_types;
  // What a host learns of a reader that it makes by `readerType`.
  Adapter adapter;

  // The type with this name, or null.
  const Type* find(const std::string& name) const;
};

class EngineDeserializer : public cntk_host::DataDeserializer {
 public:
  // Without a corpus, keys must be numbers. `is_primary`: it is the first one of its reader.
  EngineDeserializer(const Type& type, const cntk_host::ConfigParameters& config,
                     std::shared_ptr<cntk_host::CorpusDescriptor> corpus, bool is_primary);

  std::vector<cntk_host::StreamInformation> StreamInfos() override;
  std::vector<cntk_host::ChunkInfo> ChunkInfos() override;
  void SequenceInfosForChunk(uint32_t chunk, std::vector<cntk_host::SequenceInfo>& out) override;
  bool GetSequenceInfo(const cntk_host::SequenceInfo& primary, cntk_host::SequenceInfo& out) override;
  std::shared_ptr<cntk_host::Chunk> GetChunk(uint32_t chunk) override;

 private:
  std::vector<cntk_reader_sequence_info> sequences(uint32_t chunk) const;
  // The number of the copy of an image that a sequence is.
  uint32_t copy_of(const cntk_reader_sequence_info& info) const;

  const Type type_;
  // Shared with the chunks, because their sequences refer to the shapes in it.
  std::shared_ptr<const std::vector<cntk_host::StreamInformation>> streams_;
  size_t chunk_count_ = 0;
  // The only sample of a sequence stands for each sample of the reader's first stream.
  bool is_expanded_ = false;
  // There are several copies of each image.
  bool is_multi_view_ = false;
  DeserializerHandle deserializer_;
};

}  // namespace cntk_dropin
