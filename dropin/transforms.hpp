// The transforms that a deserializer's section names for its streams.
#pragma once

#include <vector>

#include "host_deserializers.hpp"
#include "module_config.hpp"

namespace cntk_dropin {

// A chain of transforms for each stream, most of them empty.
class Transforms {
 public:
  Transforms() = default;
  // Makes the transforms, and lets them change the descriptions of the streams.
  Transforms(const cntk_reader_section* section, const ModuleConfig& config,
             std::vector<cntk_host::StreamInformation>& streams);

  // Whether no stream has a transform.
  bool is_empty() const;

  // Passes the host's configuration of an epoch to all transforms.
  void start_epoch(const void* epoch_configuration);

  // Transforms a sequence of a stream. `position` is its place in the minibatch. Several threads may
  // transform sequences with different positions at the same time.
  std::shared_ptr<cntk_host::SequenceData> apply(size_t stream,
                                                 std::shared_ptr<cntk_host::SequenceData> sequence,
                                                 uint32_t position) const;

 private:
  using Chain = std::vector<std::shared_ptr<cntk_host::Transformer>>;

  std::vector<Chain> chains_;
};

}  // namespace cntk_dropin
