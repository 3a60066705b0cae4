#include "host_reader.hpp"

#include <stdexcept>

#include "announce.hpp"
#include "host_versions.hpp"
#include "text.hpp"

namespace cntk_dropin {

namespace host = cntk_host;

#if CNTK_DROPIN_HOST >= 20100

std::unique_ptr<host::Reader> make_host_reader(const host::ConfigParameters& config,
                                               cntk_reader_section_kind kind,
                                               std::unique_ptr<Companion> companion) {
  announce(config);
  return std::make_unique<EngineReader>(make_section(config).get(), kind, std::move(companion));
}

#else

namespace {

// Hosts up to 2.0 use the shape of a stream without checking that it is known. A shape without
// dimensions has one value.
std::shared_ptr<host::TensorShape> tensor_shape(const host::StreamInformation& stream) {
  auto shape = std::make_shared<host::TensorShape>();
  if (is_unknown(stream.shape)) return shape;
  const std::vector<size_t>& dimensions = stream.shape.dimensions;
  if (dimensions.size() > host::TensorShape::kMostDimensions) {
    throw std::runtime_error("The stream '" + narrow(stream.name) + "' has " +
                             std::to_string(dimensions.size()) +
                             " dimensions; this version of CNTK has at most " +
                             std::to_string(host::TensorShape::kMostDimensions) + ".");
  }
  for (const size_t dimension : dimensions) {
    shape->dimensions[shape->rank++] = dimension;
    shape->strides[shape->stride_rank++] = static_cast<ptrdiff_t>(shape->allocation);
    shape->allocation *= dimension;
  }
  return shape;
}

using SharedStream = std::shared_ptr<host::SharedStreamInformation>;

class PositionedReader : public host::PositionReader {
 public:
  PositionedReader(const cntk_reader_section* section, cntk_reader_section_kind kind,
                   std::unique_ptr<Companion> companion)
      : reader_(section, kind, std::move(companion)) {
    for (const host::StreamInformation& stream : reader_.GetStreamDescriptions()) {
      const SharedStream shared = std::make_shared<host::SharedStreamInformation>();
      shared->name = stream.name;
      shared->id = stream.id;
      shared->storage = stream.storage;
      shared->element = stream.element;
      shared->shape = tensor_shape(stream);
      shared->defines_mb_size = stream.defines_mb_size;
      streams_.push_back(shared);
    }
  }

  std::vector<SharedStream> GetStreamDescriptions() override { return streams_; }

  void StartEpoch(const void* epoch_configuration, const host::DeviceByStream& devices) override {
    reader_.StartEpoch(epoch_configuration, devices);
  }

  void SetConfiguration(const void* reader_configuration, const host::DeviceByStream& devices) override {
    reader_.SetConfiguration(reader_configuration, devices);
  }

  size_t GetCurrentSamplePosition() override {
    const host::State state = reader_.GetState();
    const auto position = state.find(host::kPosition);
    return position != state.end() ? position->second : 0;
  }

  void SetCurrentSamplePosition(size_t position) override { reader_.SetState({{host::kPosition, position}}); }

  host::Minibatch ReadMinibatch() override { return reader_.ReadMinibatch(); }

 private:
  EngineReader reader_;
  std::vector<SharedStream> streams_;
};

}  // namespace

std::unique_ptr<host::Reader> make_host_reader(const host::ConfigParameters& config,
                                               cntk_reader_section_kind kind,
                                               std::unique_ptr<Companion> companion) {
  announce(config);
  return std::make_unique<PositionedReader>(make_section(config).get(), kind, std::move(companion));
}

#endif

}  // namespace cntk_dropin
