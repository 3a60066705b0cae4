#include "reader.hpp"

#include <stdexcept>

#include "host_math.hpp"
#include "host_versions.hpp"
#include "text.hpp"

namespace cntk_dropin {
namespace {

namespace host = cntk_host;

// CNTK's old-style readers of binary data and of images ignore the key: the first packs sequences,
// the second frames. The reader of speech packs frames unless the key says otherwise.
bool is_frame_mode(const cntk_reader_section* section, cntk_reader_section_kind kind) {
  if (kind == CNTK_READER_SECTION_KIND_BINARY) return false;
  if (kind == CNTK_READER_SECTION_KIND_IMAGE) return true;
  return flag(section, "frameMode", kind == CNTK_READER_SECTION_KIND_HTK);
}

// Returns the prefix of errors in files if the host requested a reader by its `readerType`.
const char* old_style_name(cntk_reader_section_kind kind) {
  if (kind == CNTK_READER_SECTION_KIND_TEXT) return "CNTKTextFormatReader";
  return kind == CNTK_READER_SECTION_KIND_BINARY ? "CNTKBinaryReader" : nullptr;
}

ReaderHandle open(const cntk_reader_section* section, cntk_reader_section_kind kind, Companion* companion) {
  if (companion != nullptr) return companion->open(section, kind);
  const cntk_reader_host_source source = source_of(section, kind);
  cntk_reader* reader = nullptr;
  cntk_reader_error* error = nullptr;
  if (cntk_reader_host_open(&source, &reader, &error) != CNTK_READER_STATUS_OK)
    raise(error, old_style_name(kind));
  return ReaderHandle(reader);
}

// Copies the limits of an epoch.
template <typename From>
void copy_limits(const From& from, cntk_reader_epoch& to) {
  to.samples = from.samples;
  if constexpr (host::kHasSweeps) to.sweeps = from.sweeps;
  to.index = from.index;
}

// Copies the fields that both of the host's and both of the engine's configurations have.
template <typename From, typename To>
void copy(const From& from, To& to) {
  to.workers = from.workers;
  to.rank = from.rank;
  to.minibatch_size = from.minibatch;
  to.truncation_length = from.truncation;
  if constexpr (host::kHasRightSplice) to.right_splice = from.right_splice;
  to.cross_sweeps = from.cross_sweeps ? 1 : 0;
}

std::string key_text(const cntk_reader_minibatch* minibatch, size_t sequence) {
  size_t length = 0;
  char short_text[32];
  call(cntk_reader_minibatch_get_key_text, minibatch, sequence, short_text, sizeof short_text, &length);
  if (length < sizeof short_text) return {short_text, length};
  std::string text(length + 1, '\0');
  call(cntk_reader_minibatch_get_key_text, minibatch, sequence, text.data(), text.size(), &length);
  text.resize(length);
  return text;
}

}  // namespace

EngineReader::EngineReader(const cntk_reader_section* section, cntk_reader_section_kind kind,
                           std::unique_ptr<Companion> companion)
    : kind_(kind),
      frame_mode_(is_frame_mode(section, kind)),
      companion_(std::move(companion)),
      reader_(open(section, kind, companion_.get())),
      layouts_(frame_mode_),
      staging_({host::math::lock_pages, host::math::unlock_pages}) {
  cntk_reader_info info = {};
  info.struct_size = sizeof info;
  call(cntk_reader_describe, reader_.get(), &info);
  for (size_t i = 0; i < info.stream_count; ++i) streams_.push_back(describe_stream(i));
  parts_.resize(info.stream_count);
}

host::StreamInformation EngineReader::describe_stream(size_t stream) const {
  cntk_reader_stream_info info = {};
  info.struct_size = sizeof info;
  call(cntk_reader_stream_describe, reader_.get(), stream, &info);
  return describe(info);
}

EngineReader::~EngineReader() {
  const std::lock_guard<std::mutex> lock(reading_);
  reader_.reset();
}

std::vector<host::StreamInformation> EngineReader::GetStreamDescriptions() { return streams_; }

void EngineReader::StartEpoch(const void* epoch_configuration, const host::DeviceByStream& devices) {
  const auto& from = *static_cast<const host::OwnEpochConfiguration*>(epoch_configuration);
  cntk_reader_epoch epoch = CNTK_READER_EPOCH_INIT;
  copy(from, epoch);
  copy_limits(from, epoch);
  if (companion_ != nullptr) companion_->start_epoch(epoch_configuration);
  call(cntk_reader_epoch_start, reader_.get(), &epoch);
  started_ = true;
  early_state_.reset();
  select_devices(devices);
}

void EngineReader::SetConfiguration(const void* reader_configuration, const host::DeviceByStream& devices) {
  cntk_reader_configuration configuration = CNTK_READER_CONFIGURATION_INIT;
  copy(*static_cast<const host::OwnReaderConfiguration*>(reader_configuration), configuration);
  call(cntk_reader_configuration_set, reader_.get(), &configuration);
  select_devices(devices);
}

void EngineReader::select_devices(const host::DeviceByStream& devices) {
  std::vector<int> wanted;
  for (const host::StreamInformation& stream : streams_) {
    const auto found = devices.find(stream.name);
    wanted.push_back(found == devices.end() ? host::math::kCpu : found->second);
  }
  staging_.select(std::move(wanted));
}

host::Minibatch EngineReader::ReadMinibatch() {
  const std::lock_guard<std::mutex> lock(reading_);
  // Frees the minibatch before the last one first, so that the engine can reuse its memory for the
  // next one.
  const std::shared_ptr<MinibatchHandle>& minibatch = minibatches_.next();
  minibatch->reset();
  const cntk_reader_minibatch* read = nullptr;
  call(cntk_reader_minibatch_read, reader_.get(), &read);
  minibatch->reset(read);
  cntk_reader_minibatch_info info = {};
  info.struct_size = sizeof info;
  call(cntk_reader_minibatch_describe, read, &info);

  host::Minibatch result;
  result.end_of_sweep = info.end_of_sweep != 0;
  result.end_of_epoch = info.end_of_epoch != 0;
  if (info.stream_count == 0) return result;
  staging_.turn();
  result.streams.reserve(info.stream_count);
  for (size_t i = 0; i < info.stream_count; ++i) {
    result.streams.push_back(parts_[i].next());
    result.streams.back()->layout.reset();
  }
  for (size_t i = 0; i < info.stream_count; ++i) read_stream(read, i, result);
  if (kind_ != CNTK_READER_SECTION_KIND_COMPOSITE) {
    result.key_of_sequence = [](size_t) -> std::string {
      throw std::runtime_error(
          "Sequence Id mapping is not available for old style configurations. Please use deserializers.");
    };
  } else {
    result.key_of_sequence = [minibatch](size_t sequence) { return key_text(minibatch->get(), sequence); };
  }
  return result;
}

void EngineReader::read_stream(const cntk_reader_minibatch* minibatch, size_t stream, host::Minibatch& out) {
  cntk_reader_minibatch_stream part = {};
  part.struct_size = sizeof part;
  call(cntk_reader_minibatch_stream_describe, minibatch, stream, &part);
  host::StreamMinibatch& result = *out.streams[stream];
  // Hosts only read the data, although their interface has a mutable pointer.
  result.data = const_cast<void*>(staging_.place(stream, part.block, part.block_size));
  result.layout = layouts_.make(stream, part, out.streams);
  host::Shape& shape = streams_[stream].shape;
  // An unknown shape is known from the first minibatch on.
  if (is_unknown(shape)) {
    shape = describe_stream(stream).shape;
  }
  result.sample_shape = shape;
}

host::State EngineReader::GetState() {
  if (early_state_) return *early_state_;
  size_t count = 0;
  call(cntk_reader_state_get, reader_.get(), nullptr, size_t{0}, &count);
  std::vector<cntk_reader_state_entry> entries(count);
  call(cntk_reader_state_get, reader_.get(), entries.data(), entries.size(), &count);
  host::State state;
  for (const cntk_reader_state_entry& entry : entries)
    state[widen({entry.key, entry.key_length})] = entry.value;
  return state;
}

void EngineReader::SetState(const host::State& state) {
  std::vector<std::string> names;
  std::vector<cntk_reader_state_entry> entries;
  names.reserve(state.size());
  for (const auto& [key, value] : state) {
    names.push_back(narrow(key));
    entries.push_back({names.back().data(), names.back().size(), value});
  }
  if (!started_ && state.count(host::kPosition) != 0) {
    early_state_ = state;
    return;
  }
  call(cntk_reader_state_set, reader_.get(), entries.data(), entries.size());
}

}  // namespace cntk_dropin
