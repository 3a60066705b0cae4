// The host's Reader over the engine.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine.hpp"
#include "layout.hpp"
#include "recycled.hpp"
#include "staging.hpp"

namespace cntk_dropin {

// An object that opens a reader's engine, and is notified of each epoch.
class Companion {
 public:
  virtual ReaderHandle open(const cntk_reader_section* section, cntk_reader_section_kind kind) = 0;
  // Called before each epoch, with its configuration by the host.
  virtual void start_epoch(const void* epoch_configuration) = 0;
  virtual ~Companion() = default;
};

// Hosts up to 2.0 use it through a PositionedReader (host_reader.cpp).
class EngineReader : public cntk_host::StateReader {
 public:
  // `kind` is the kind of reader that the host requested. `companion` may be null.
  EngineReader(const cntk_reader_section* section, cntk_reader_section_kind kind,
               std::unique_ptr<Companion> companion = nullptr);
  ~EngineReader() override;

  void StartEpoch(const void* epoch_configuration, const cntk_host::DeviceByStream& devices) override;
  void SetConfiguration(const void* reader_configuration, const cntk_host::DeviceByStream& devices) override;
  std::vector<cntk_host::StreamInformation> GetStreamDescriptions() override;
  cntk_host::Minibatch ReadMinibatch() override;
  cntk_host::State GetState() override;
  void SetState(const cntk_host::State& state) override;

 private:
  cntk_host::StreamInformation describe_stream(size_t stream) const;
  void select_devices(const cntk_host::DeviceByStream& devices);
  void read_stream(const cntk_reader_minibatch* minibatch, size_t stream, cntk_host::Minibatch& out);

  const cntk_reader_section_kind kind_;
  const bool frame_mode_;
  const std::unique_ptr<Companion> companion_;
  ReaderHandle reader_;
  std::vector<cntk_host::StreamInformation> streams_;
  // A state that the host restored before it started an epoch. After the start, the host restores
  // it again if it differs from the epoch's own state.
  std::optional<cntk_host::State> early_state_;
  bool started_ = false;
  // Hosts use the data of a minibatch until they read the next one or, with a device, the one after
  // that.
  Recycled<MinibatchHandle> minibatches_;
  std::vector<Recycled<cntk_host::StreamMinibatch>> parts_;  // by stream
  Layouts layouts_;
  Staging staging_;
  // Locked during a read, because a host may stop waiting for a read and destroy the reader.
  std::mutex reading_;
};

}  // namespace cntk_dropin
