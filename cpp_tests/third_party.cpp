// A module as a third party might have written it for CNTK: a deserializer and three transforms
// that only use the binary interface of CNTK's plugins. `cargo xtask test dropin` builds it, and
// compares its data through CNTK's composite module and through this project's.
//
// Deserializer `Ramp`: computed sequences in the streams `x` (dense, 2 values) and `s` (sparse, 5
// rows). Keys of its section:
//
//     sequences, perChunk    number of sequences, in total and per chunk
//     longest                samples of the longest sequence
//     keyStep                sequence i has the key i * keyStep
//     invalid, broken        index of a sequence that is marked as invalid, and of a chunk that
//                            fails to load
//
// Transform `Scale`: multiplies a dense stream by `factor`, and adds 100 times the sequence's
// position in the minibatch. `Invert`: subtracts the values of an image from 255, and adds the
// sequence's position. `Cast`: appended to each chain by composite modules.

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "../dropin/host_deserializers.hpp"

#define THIRD_PARTY_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

namespace host = cntk_host;

size_t number(const host::ConfigParameters& config, const std::string& name, size_t otherwise) {
  const auto found = config.values.find(name);
  return found == config.values.end() ? otherwise : std::stoull(found->second.text);
}

class Dense : public host::SequenceData {
 public:
  explicit Dense(host::Shape shape) : shape_(std::move(shape)) { element = host::Element::float32; }
  const host::Shape& GetSampleShape() override { return shape_; }
  const void* GetDataBuffer() override { return values.data(); }

  std::vector<float> values;

 private:
  const host::Shape shape_;
};

class Sparse : public host::SparseSequenceData {
 public:
  explicit Sparse(host::Shape shape) : shape_(std::move(shape)) { element = host::Element::float32; }
  const host::Shape& GetSampleShape() override { return shape_; }
  const void* GetDataBuffer() override { return values.data(); }

  std::vector<float> values;
  std::vector<int32_t> row_storage;

 private:
  const host::Shape shape_;
};

struct Settings {
  size_t sequences, per_chunk, longest, key_step, invalid, broken;
};

uint32_t length_of(const Settings& settings, size_t sequence) {
  return static_cast<uint32_t>(1 + sequence * 7 % settings.longest);
}

class RampChunk : public host::Chunk {
 public:
  RampChunk(const Settings& settings, size_t first, std::vector<host::SequenceKey> keys)
      : settings_(settings), first_(first), keys_(std::move(keys)) {}

  void GetSequence(size_t index, std::vector<std::shared_ptr<host::SequenceData>>& out) override {
    const size_t sequence = first_ + index;
    const uint32_t length = length_of(settings_, sequence);
    const auto x = std::make_shared<Dense>(host::Shape{{2}});
    const auto s = std::make_shared<Sparse>(host::Shape{{5}});
    for (uint32_t t = 0; t < length; ++t) {
      const float value = static_cast<float>(sequence) + static_cast<float>(t) / 8;
      x->values.insert(x->values.end(), {value, -value / 3});
      const bool is_there = (sequence + t) % 3 != 0;
      s->counts.push_back(is_there);
      if (!is_there) continue;
      s->values.push_back(value + 0.5f);
      s->row_storage.push_back(static_cast<int32_t>((sequence + t) % 5));
    }
    s->rows = s->row_storage.data();
    s->total = static_cast<int32_t>(s->values.size());
    for (host::SequenceData* data :
         {static_cast<host::SequenceData*>(x.get()), static_cast<host::SequenceData*>(s.get())}) {
      data->samples = length;
      data->key = keys_[index];
      data->valid = sequence != settings_.invalid;
    }
    out.push_back(x);
    out.push_back(s);
  }

 private:
  const Settings settings_;
  const size_t first_;
  const std::vector<host::SequenceKey> keys_;
};

class Ramp : public host::DataDeserializer {
 public:
  Ramp(const host::ConfigParameters& config, const host::CorpusDescriptor& corpus)
      : settings_{number(config, "sequences", 20),     number(config, "perChunk", 4),
                  number(config, "longest", 4),        number(config, "keyStep", 1),
                  number(config, "invalid", SIZE_MAX), number(config, "broken", SIZE_MAX)} {
    for (size_t i = 0; i < settings_.sequences; ++i) {
      const size_t key = corpus.key_to_id(std::to_string(i * settings_.key_step));
      keys_.push_back(host::SequenceKey{key, 0});
      by_key_[key] = i;
    }
  }

  std::vector<host::StreamInformation> StreamInfos() override {
    std::vector<host::StreamInformation> streams(2);
    streams[0].name = L"x";
    streams[0].shape.dimensions = {2};
    streams[1].name = L"s";
    streams[1].id = 1;
    streams[1].storage = host::Storage::sparse_csc;
    streams[1].shape.dimensions = {5};
    for (host::StreamInformation& stream : streams) stream.element = host::Element::float32;
    return streams;
  }

  std::vector<host::ChunkInfo> ChunkInfos() override {
    std::vector<host::ChunkInfo> chunks;
    for (size_t first = 0; first < settings_.sequences; first += settings_.per_chunk) {
      host::ChunkInfo chunk;
      chunk.id = static_cast<uint32_t>(chunks.size());
      for (size_t i = first; i < end_of(first); ++i) {
        ++chunk.sequences;
        chunk.samples += length_of(settings_, i);
      }
      chunks.push_back(chunk);
    }
    return chunks;
  }

  void SequenceInfosForChunk(uint32_t chunk, std::vector<host::SequenceInfo>& out) override {
    const size_t first = chunk * settings_.per_chunk;
    for (size_t i = first; i < end_of(first); ++i) out.push_back(info(i));
  }

  bool GetSequenceInfo(const host::SequenceInfo& primary, host::SequenceInfo& out) override {
    const auto found = by_key_.find(primary.key.sequence);
    if (found == by_key_.end()) return false;
    out = info(found->second);
    return true;
  }

  std::shared_ptr<host::Chunk> GetChunk(uint32_t chunk) override {
    if (chunk == settings_.broken) throw std::runtime_error("This chunk is broken.");
    const size_t first = chunk * settings_.per_chunk;
    const auto begin = keys_.begin() + static_cast<std::ptrdiff_t>(first);
    const auto end = keys_.begin() + static_cast<std::ptrdiff_t>(end_of(first));
    return std::make_shared<RampChunk>(settings_, first, std::vector<host::SequenceKey>(begin, end));
  }

 private:
  size_t end_of(size_t first) const { return std::min(first + settings_.per_chunk, settings_.sequences); }

  host::SequenceInfo info(size_t sequence) const {
    host::SequenceInfo info;
    info.index = sequence % settings_.per_chunk;
    info.chunk = static_cast<uint32_t>(sequence / settings_.per_chunk);
    info.samples = length_of(settings_, sequence);
    info.key = keys_[sequence];
    return info;
  }

  const Settings settings_;
  std::vector<host::SequenceKey> keys_;
  std::map<size_t, size_t> by_key_;
};

// A transform for hosts of any version. Hosts before 2.4 do not pass the sequence's position in its
// minibatch.
class Transformer : public host::Transformer {
 public:
#if CNTK_DROPIN_HOST >= 20400
  std::shared_ptr<host::SequenceData> Transform(std::shared_ptr<host::SequenceData> sequence,
                                                int place) override {
    return Apply(std::move(sequence), place);
  }
#else
  std::shared_ptr<host::SequenceData> Transform(std::shared_ptr<host::SequenceData> sequence) override {
    return Apply(std::move(sequence), 0);
  }
#endif

 private:
  virtual std::shared_ptr<host::SequenceData> Apply(std::shared_ptr<host::SequenceData> sequence,
                                                    int place) = 0;
};

class Scale : public Transformer {
 public:
  explicit Scale(const host::ConfigParameters& config)
      : factor_(static_cast<float>(number(config, "factor", 1))) {}

  void StartEpoch(const void*) override { is_started_ = true; }
  host::StreamInformation Transform(const host::StreamInformation& stream) override { return stream; }

  std::shared_ptr<host::SequenceData> Apply(std::shared_ptr<host::SequenceData> sequence,
                                            int index) override {
    if (!is_started_) throw std::logic_error("A sequence came before an epoch was started.");
    const auto out = std::make_shared<Dense>(sequence->GetSampleShape());
    out->samples = sequence->samples;
    out->key = sequence->key;
    out->valid = sequence->valid;
    const auto* const values = static_cast<const float*>(sequence->GetDataBuffer());
    for (size_t i = 0; i < sequence->samples * sequence->GetSampleShape().dimensions.at(0); ++i) {
      out->values.push_back(values[i] * factor_ + 100.0f * static_cast<float>(index));
    }
    return out;
  }

 private:
  const float factor_;
  bool is_started_ = false;
};

// Converts images of any type, as the preceding transforms left them, to floats.
class Invert : public Transformer {
 public:
  void StartEpoch(const void*) override {}
  host::StreamInformation Transform(const host::StreamInformation& stream) override {
    host::StreamInformation floats = stream;
    floats.element = host::Element::float32;
    return floats;
  }

  std::shared_ptr<host::SequenceData> Apply(std::shared_ptr<host::SequenceData> sequence,
                                            int index) override {
    const host::Shape& shape = sequence->GetSampleShape();
    const auto out = std::make_shared<Dense>(shape);
    out->samples = sequence->samples;
    out->key = sequence->key;
    const size_t count = shape.dimensions.at(0) * shape.dimensions.at(1) * shape.dimensions.at(2);
    const void* const values = sequence->GetDataBuffer();
    const auto invert = [&](const auto* from) {
      for (size_t i = 0; i < count; ++i)
        out->values.push_back(255.0f - static_cast<float>(from[i]) + static_cast<float>(index));
    };
    if (sequence->element == host::Element::byte) {
      invert(static_cast<const unsigned char*>(values));
    } else if (sequence->element == host::Element::float32) {
      invert(static_cast<const float*>(values));
    } else {
      invert(static_cast<const double*>(values));
    }
    return out;
  }
};

// All values already have the reader's type.
class Cast : public Transformer {
 public:
  void StartEpoch(const void*) override {}
  host::StreamInformation Transform(const host::StreamInformation& stream) override { return stream; }
  std::shared_ptr<host::SequenceData> Apply(std::shared_ptr<host::SequenceData> sequence, int) override {
    return sequence;
  }
};

}  // namespace

THIRD_PARTY_EXPORT bool CreateDeserializer(std::shared_ptr<host::DataDeserializer>& deserializer,
                                           const std::wstring& type, const host::ConfigParameters& config,
                                           std::shared_ptr<host::CorpusDescriptor> corpus, bool /*primary*/) {
  if (type != L"Ramp") return false;
  deserializer = std::make_shared<Ramp>(config, *corpus);
  return true;
}

THIRD_PARTY_EXPORT bool CreateTransformer(host::Transformer** transformer, const std::wstring& type,
                                          const host::ConfigParameters& config) {
  if (type == L"Scale") {
    *transformer = new Scale(config);
  } else if (type == L"Invert") {
    *transformer = new Invert;
  } else if (type == L"Cast") {
    *transformer = new Cast;
  } else {
    return false;
  }
  return true;
}
