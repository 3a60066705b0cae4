// Adapts a reader for hosts up to CNTK 2.0 to the interface of later hosts.

#ifndef CNTK_READER_CPP_TESTS_POSITION_READER_HPP
#define CNTK_READER_CPP_TESTS_POSITION_READER_HPP

#include <memory>
#include <utility>

#include "../dropin/host_types.hpp"

namespace driver {

class StateOfPosition : public cntk_host::StateReader {
 public:
  explicit StateOfPosition(cntk_host::PositionReader* reader) : reader_(reader) {}

  void StartEpoch(const void* epoch, const cntk_host::DeviceByStream& devices) override {
    reader_->StartEpoch(epoch, devices);
  }
  void SetConfiguration(const void* configuration, const cntk_host::DeviceByStream& devices) override {
    reader_->SetConfiguration(configuration, devices);
  }
  std::vector<cntk_host::StreamInformation> GetStreamDescriptions() override {
    std::vector<cntk_host::StreamInformation> streams;
    for (const auto& shared : reader_->GetStreamDescriptions()) {
      cntk_host::StreamInformation stream;
      stream.name = shared->name;
      stream.id = shared->id;
      stream.storage = shared->storage;
      stream.element = shared->element;
      const cntk_host::TensorShape& shape = *shared->shape;
      stream.shape.dimensions.assign(shape.dimensions, shape.dimensions + shape.rank);
      stream.defines_mb_size = shared->defines_mb_size;
      streams.push_back(std::move(stream));
    }
    return streams;
  }
  cntk_host::Minibatch ReadMinibatch() override { return reader_->ReadMinibatch(); }
  cntk_host::State GetState() override {
    return {{cntk_host::kPosition, reader_->GetCurrentSamplePosition()}};
  }
  void SetState(const cntk_host::State& state) override {
    reader_->SetCurrentSamplePosition(state.at(cntk_host::kPosition));
  }

 private:
  std::unique_ptr<cntk_host::PositionReader> reader_;
};

inline cntk_host::StateReader* with_state(cntk_host::StateReader* reader) { return reader; }
inline cntk_host::StateReader* with_state(cntk_host::PositionReader* reader) {
  return new StateOfPosition(reader);
}

}  // namespace driver

#endif  // CNTK_READER_CPP_TESTS_POSITION_READER_HPP
