#include "foreign.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>

#include "corpus.hpp"
#include "exception.hpp"
#include "interpreter.hpp"
#include "plugin.hpp"
#include "text.hpp"

namespace cntk_dropin {
namespace {

namespace host = cntk_host;

// The data of a sequence in all streams of its deserializer: the module's objects, or copies of
// their data.
struct ForeignSequence {
  std::vector<std::shared_ptr<host::SequenceData>> streams;
  // Descriptions of the streams' data for the engine, if they are known when the sequence is
  // fetched.
  std::vector<cntk_reader_user_sequence_data> described;
  // Copies of the data of small sequences.
  std::vector<char> memory;
};

// Recycled sequence objects with their memory: single frames are too many to allocate an object for
// each.
class IdleSequences {
 public:
  std::unique_ptr<ForeignSequence> take() {
    std::unique_ptr<ForeignSequence> sequence;
    if (enter()) {
      if (!idle_.empty()) {
        sequence = std::move(idle_.back());
        idle_.pop_back();
        bytes_ -= sequence->memory.capacity();
      }
      leave();
    }
    return sequence != nullptr ? std::move(sequence) : std::make_unique<ForeignSequence>();
  }

  void give_back(std::unique_ptr<ForeignSequence> sequence) {
    sequence->streams.clear();
    sequence->described.clear();
    if (!enter()) return;
    if (idle_.size() < kMost && bytes_ + sequence->memory.capacity() <= kMostBytes) {
      bytes_ += sequence->memory.capacity();
      idle_.push_back(std::move(sequence));
    }
    leave();
  }

 private:
  // The number of sequences in a large minibatch of frames.
  static constexpr size_t kMost = 16384;
  static constexpr size_t kMostBytes = size_t{16} << 20;

  // Threads do not wait here: a thread that finds the list in use allocates instead. The list is
  // used twice per frame, and this costs half as much as a mutex.
  bool enter() { return !busy_.test_and_set(std::memory_order_acquire); }
  void leave() { busy_.clear(std::memory_order_release); }

  std::atomic_flag busy_ = ATOMIC_FLAG_INIT;
  std::vector<std::unique_ptr<ForeignSequence>> idle_;
  size_t bytes_ = 0;
};

// The sequences of a chunk, in the form that the engine takes.
struct Listing {
  std::vector<uint32_t> lengths;
  std::vector<uint64_t> keys;
  std::vector<uint32_t> sample_indices;
  // The chunk's index of each sequence; empty or null if that is its position in the list.
  std::vector<size_t> indices;

  void assign(const std::vector<host::SequenceInfo>& from) {
    lengths.clear();
    keys.clear();
    sample_indices.clear();
    indices.clear();
    bool same = true;
    for (const host::SequenceInfo& info : from) {
      same = same && info.index == lengths.size();
      lengths.push_back(info.samples);
      keys.push_back(info.key.sequence);
      sample_indices.push_back(info.key.sample);
    }
    if (same) return;
    for (const host::SequenceInfo& info : from) indices.push_back(info.index);
  }
};

struct ForeignChunk {
  std::shared_ptr<host::Chunk> chunk;
  // The chunk's index of each sequence; empty or null if that is its position in the list.
  const std::vector<size_t>* indices = nullptr;
  // The sequences, if the chunk lists them itself.
  Listing listing;
};

cntk_reader_sequence_info convert(const host::SequenceInfo& from) {
  cntk_reader_sequence_info to = {};
  to.chunk = from.chunk;
  to.index = static_cast<uint32_t>(from.index);
  to.samples = from.samples;
  to.sample = from.key.sample;
  to.key = from.key.sequence;
  return to;
}

// Sequences of at most this many bytes are copied when they are fetched. The module's objects are
// then freed at once, and the next sequence reuses their memory, which is still in the L1 cache.
// Without copying, a minibatch of frames would keep thousands of small allocations alive.
constexpr size_t kMostCopied = 4096;

// Copies the streams' data to `memory`, and makes `streams` point there. Returns false if the data
// take more than kMostCopied bytes.
bool copy(const std::vector<host::StreamInformation>& infos,
          std::vector<cntk_reader_user_sequence_data>& streams, std::vector<char>& memory) {
  const auto values_of = [&](size_t i) {
    const size_t element = infos[i].element == host::Element::float32 ? sizeof(float) : sizeof(double);
    return streams[i].value_count * element;
  };
  const auto is_sparse = [&](size_t i) { return infos[i].storage == host::Storage::sparse_csc; };
  size_t size = 0;
  for (size_t i = 0; i < streams.size(); ++i) {
    if (streams[i].value_count > kMostCopied || streams[i].samples > kMostCopied) return false;
    size += values_of(i);
    if (is_sparse(i)) size += (streams[i].value_count + streams[i].samples) * sizeof(int32_t);
  }
  if (size > kMostCopied) return false;
  memory.resize(size);
  char* end = memory.data();
  const auto put = [&](const void* from, size_t bytes) {
    char* const begin = end;
    if (bytes > 0) std::memcpy(begin, from, bytes);
    end += bytes;
    return begin;
  };
  for (size_t i = 0; i < streams.size(); ++i) {
    cntk_reader_user_sequence_data& stream = streams[i];
    stream.values = put(stream.values, values_of(i));
    if (!is_sparse(i)) continue;
    stream.indices =
        reinterpret_cast<const int32_t*>(put(stream.indices, stream.value_count * sizeof(int32_t)));
    stream.sample_value_counts =
        reinterpret_cast<const int32_t*>(put(stream.sample_value_counts, stream.samples * sizeof(int32_t)));
  }
  return true;
}

uint32_t element_of(const host::StreamInformation& stream) {
  switch (stream.element) {
    case host::Element::float32:
      return CNTK_READER_ELEMENT_FLOAT;
    case host::Element::float64:
      return CNTK_READER_ELEMENT_DOUBLE;
    default:
      throw std::runtime_error("Please specify the type of the '" + narrow(stream.name) +
                               "' stream. You can use 'Cast' transform for that.");
  }
}

}  // namespace

// A deserializer of one of the host's modules, with its transforms. The engine's callbacks call it.
class ForeignDeserializer {
 public:
  ForeignDeserializer(const cntk_reader_request& request, cntk_reader_user_deserializer& table) {
    const ModuleConfig config(request.section);
    is_composable_ = request.is_composable != 0;
    deserializer_ =
        create_deserializer(config.required("module"), {request.type_name, request.type_length},
                            config.parameters(), make_corpus(request.keys), request.is_primary != 0);
    streams_ = deserializer_->StreamInfos();
    transforms_ = std::make_shared<Transforms>(request.section, config, streams_);
    for (const host::ChunkInfo& chunk : deserializer_->ChunkInfos()) {
      if (chunk.id != ids_.size()) in_order_ = false;
      places_[chunk.id] = static_cast<uint32_t>(ids_.size());
      ids_.push_back(chunk.id);
      sizes_.push_back({chunk.samples, chunk.sequences});
    }
    if (in_order_) places_.clear();
    is_plain_ = transforms_->is_empty() &&
                std::none_of(streams_.begin(), streams_.end(),
                             [](const host::StreamInformation& stream) { return is_unknown(stream.shape); });
    describe(table);
  }

  const std::shared_ptr<Transforms>& transforms() const { return transforms_; }

  static ForeignDeserializer& of(void* self) { return *static_cast<ForeignDeserializer*>(self); }
  static void destroy(void* self) { delete static_cast<ForeignDeserializer*>(self); }

 private:
  void describe(cntk_reader_user_deserializer& table) {
    for (const host::StreamInformation& stream : streams_) names_.push_back(narrow(stream.name));
    for (size_t i = 0; i < streams_.size(); ++i) {
      const host::StreamInformation& stream = streams_[i];
      if (stream.storage != host::Storage::dense && stream.storage != host::Storage::sparse_csc) {
        throw std::runtime_error("Storage type " + std::to_string(static_cast<int>(stream.storage)) +
                                 " is not supported.");
      }
      if (stream.is_binary) {
        throw std::runtime_error("The stream '" + names_[i] +
                                 "' has opaque sequences (lattices), which this reader only supports from "
                                 "its own module 'HTKDeserializers'.");
      }
      cntk_reader_user_stream info = {};
      info.name = names_[i].data();
      info.name_length = names_[i].size();
      info.shape = stream.shape.dimensions.data();
      info.shape_rank = stream.shape.dimensions.size();
      info.storage =
          stream.storage == host::Storage::dense ? CNTK_READER_STORAGE_DENSE : CNTK_READER_STORAGE_SPARSE_CSC;
      info.element = element_of(stream);
      info.defines_mb_size = stream.defines_mb_size ? 1 : 0;
      infos_.push_back(info);
    }
    table.userdata = this;
    table.streams = infos_.data();
    table.stream_count = infos_.size();
    table.chunk_sizes = sizes_.data();
    table.chunk_count = static_cast<uint32_t>(sizes_.size());
    table.list_sequences = list_sequences;
    table.find_sequence = find_sequence;
    table.load_chunk = load_chunk;
    table.release_chunk = release_chunk;
    table.fetch_sequence = fetch_sequence;
    table.prepare_sequence = prepare_sequence;
    table.release_sequence = release_sequence;
    table.finalizer = destroy;
  }

  static int32_t list_sequences(void* self, uint32_t chunk, cntk_reader_user_sequences* sequences,
                                cntk_reader_failure* failure) {
    return guarded(failure, [&] {
      ForeignDeserializer& own = of(self);
      std::vector<host::SequenceInfo> infos;
      own.deserializer_->SequenceInfosForChunk(own.ids_.at(chunk), infos);
      own.listed_.assign(infos);
      if (!own.listed_.indices.empty()) own.indices_[chunk] = own.listed_.indices;
      sequences->count = infos.size();
      sequences->lengths = own.listed_.lengths.data();
      sequences->keys = own.listed_.keys.data();
      sequences->sample_indices = own.listed_.sample_indices.data();
    });
  }

  static int32_t find_sequence(void* self, const cntk_reader_sequence_info* of_primary,
                               cntk_reader_sequence_info* sequence, uint32_t* found,
                               cntk_reader_failure* failure) {
    return guarded(failure, [&] {
      ForeignDeserializer& own = of(self);
      host::SequenceInfo primary;
      primary.index = of_primary->index;
      primary.samples = of_primary->samples;
      primary.chunk = of_primary->chunk;
      primary.key = {of_primary->key, of_primary->sample};
      host::SequenceInfo result;
      *found = own.deserializer_->GetSequenceInfo(primary, result) ? 1 : 0;
      if (*found == 0) return;
      if (result.index > UINT32_MAX) throw std::runtime_error("The index of a sequence is too large.");
      *sequence = convert(result);
      if (!own.in_order_) sequence->chunk = own.places_.at(result.chunk);
    });
  }

  static int32_t load_chunk(void* self, uint32_t chunk, cntk_reader_user_chunk* out,
                            cntk_reader_failure* failure) {
    return guarded(failure, [&] {
      ForeignDeserializer& own = of(self);
      auto loaded = std::make_unique<ForeignChunk>();
      loaded->chunk = own.deserializer_->GetChunk(own.ids_.at(chunk));
      if (loaded->chunk == nullptr) throw std::runtime_error("A module returned no chunk.");
      if (own.is_composable_) {
        const auto found = own.indices_.find(chunk);
        if (found != own.indices_.end()) loaded->indices = &found->second;
      } else {
        std::vector<host::SequenceInfo> infos;
        loaded->chunk->SequenceInfos(infos);
        loaded->listing.assign(infos);
        if (!loaded->listing.indices.empty()) loaded->indices = &loaded->listing.indices;
        out->sequence_count = infos.size();
        out->lengths = loaded->listing.lengths.data();
        out->keys = loaded->listing.keys.data();
      }
      out->handle = loaded.release();
    });
  }

  static void release_chunk(void*, void* handle) { delete static_cast<ForeignChunk*>(handle); }

  static int32_t fetch_sequence(void* self, void* handle, uint32_t index, cntk_reader_user_sequence* fetched,
                                cntk_reader_failure* failure) {
    return guarded(failure, [&] {
      ForeignDeserializer& own = of(self);
      ForeignChunk& chunk = *static_cast<ForeignChunk*>(handle);
      std::unique_ptr<ForeignSequence> sequence = own.idle_.take();
      sequence->streams.reserve(own.streams_.size());
      chunk.chunk->GetSequence(chunk.indices != nullptr ? chunk.indices->at(index) : index,
                               sequence->streams);
      if (sequence->streams.size() != own.streams_.size()) {
        throw std::runtime_error("A module returned a sequence in " +
                                 std::to_string(sequence->streams.size()) + " streams instead of " +
                                 std::to_string(own.streams_.size()) + ".");
      }
      if (std::count(sequence->streams.begin(), sequence->streams.end(), nullptr) > 0) {
        throw std::runtime_error("A module returned no data for a sequence.");
      }
      const bool is_valid = std::all_of(sequence->streams.begin(), sequence->streams.end(),
                                        [](const auto& stream) { return stream->valid; });
      fetched->is_invalid = is_valid ? 0 : 1;
      if (own.is_plain_ && is_valid) own.describe(*sequence);
      fetched->handle = sequence.release();
    });
  }

  static int32_t prepare_sequence(void* self, void* handle, uint32_t position,
                                  cntk_reader_user_sequence_data* streams, cntk_reader_failure* failure) {
    return guarded(failure, [&] {
      ForeignDeserializer& own = of(self);
      ForeignSequence& sequence = *static_cast<ForeignSequence*>(handle);
      if (!sequence.described.empty()) {
        std::copy(sequence.described.begin(), sequence.described.end(), streams);
        return;
      }
      for (size_t i = 0; i < own.streams_.size(); ++i) {
        std::shared_ptr<host::SequenceData>& data = sequence.streams[i];
        data = own.transforms_->apply(i, std::move(data), position);
        if (data == nullptr) throw std::runtime_error("A transform returned no data for a sequence.");
        view(own.streams_[i], *data, streams[i]);
      }
    });
  }

  // Describes a sequence that does not change any more. A small one is copied first.
  void describe(ForeignSequence& sequence) const {
    cntk_reader_user_sequence_data none = {};
    none.struct_size = sizeof none;
    sequence.described.assign(streams_.size(), none);
    for (size_t i = 0; i < streams_.size(); ++i)
      view(streams_[i], *sequence.streams[i], sequence.described[i]);
    if (copy(streams_, sequence.described, sequence.memory)) sequence.streams.clear();
  }

  static void view(const host::StreamInformation& stream, host::SequenceData& data,
                   cntk_reader_user_sequence_data& out) {
    const host::Shape* shape = &stream.shape;
    // The shape is only requested if it is unknown, because sequences of Python's deserializers
    // throw otherwise.
    if (is_unknown(*shape)) {
      shape = &data.GetSampleShape();
      out.shape = shape->dimensions.data();
      out.shape_rank = shape->dimensions.size();
    }
    out.samples = data.samples;
    out.values = data.GetDataBuffer();
    out.key = data.key.sequence;
    if (stream.storage == host::Storage::sparse_csc) {
      const auto& sparse = static_cast<const host::SparseSequenceData&>(data);
      out.value_count = static_cast<size_t>(sparse.total);
      out.indices = sparse.rows;
      out.sample_value_counts = sparse.counts.data();
      if (sparse.counts.size() < data.samples) {
        throw std::runtime_error("A module returned a sparse sequence without its samples.");
      }
      return;
    }
    out.value_count = data.samples;
    for (const size_t dimension : shape->dimensions) out.value_count *= dimension;
  }

  static void release_sequence(void* self, void* handle) {
    of(self).idle_.give_back(std::unique_ptr<ForeignSequence>(static_cast<ForeignSequence*>(handle)));
  }

  // Whether sequences are listed before chunks are loaded, or found from the first deserializer's
  // sequences. Otherwise chunks list them.
  bool is_composable_ = true;
  // Whether sequences are delivered as fetched: there are no transforms, and all shapes are known
  // in advance.
  bool is_plain_ = false;
  std::shared_ptr<host::DataDeserializer> deserializer_;
  std::vector<host::StreamInformation> streams_;
  std::shared_ptr<Transforms> transforms_;
  // The module's number of each chunk, and the chunks by these numbers, unless the numbers are 0,
  // 1, 2 ...
  std::vector<uint32_t> ids_;
  std::map<uint32_t, uint32_t> places_;
  bool in_order_ = true;
  // For each chunk, its index of each sequence, if that is not the position in the list.
  std::map<uint32_t, std::vector<size_t>> indices_;
  // Names and descriptions that the engine reads while a reader is opened.
  std::vector<std::string> names_;
  std::vector<cntk_reader_user_stream> infos_;
  std::vector<cntk_reader_chunk_size> sizes_;
  Listing listed_;
  IdleSequences idle_;
};

int32_t ForeignModules::make(void* self, const cntk_reader_request* request,
                             cntk_reader_user_deserializer* made, cntk_reader_failure* failure) {
  return guarded(failure, [&] {
    auto& own = *static_cast<ForeignModules*>(self);
    end_callbacks_with_python();
    auto deserializer = std::make_unique<ForeignDeserializer>(*request, *made);
    own.transforms_.push_back(deserializer->transforms());
    deserializer.release();  // owned by the engine, which frees it by the table's finalizer
  });
}

ReaderHandle ForeignModules::open(const cntk_reader_section* section, cntk_reader_section_kind kind) {
  cntk_reader* reader = nullptr;
  cntk_reader_host_source source = source_of(section, kind);
  source.make = make;
  source.userdata = this;
  call(cntk_reader_host_open, &source, &reader);
  return ReaderHandle(reader);
}

void ForeignModules::start_epoch(const void* epoch_configuration) {
  for (const auto& transforms : transforms_) transforms->start_epoch(epoch_configuration);
}

}  // namespace cntk_dropin
