// The transforms that a deserializer's section lists for its streams.
#pragma once

#include <vector>

#include "host_deserializers.hpp"
#include "module_config.hpp"

namespace cntk_dropin {

// A chain of transforms for each stream, most of them empty.
class Transforms {
 public:
  Transforms() = default;
  // Creates the transforms, and applies them to the descriptions of the streams.
  Transforms(const cntk_reader_section* section, const ModuleConfig& config,
             std::vector<cntk_host::StreamInformation>& streams);

  // Returns whether no stream has a transform.
  bool is_empty() const;

  // Passes the host's configuration of an epoch to all transforms.
  void start_epoch(const void* epoch_configuration);

  // Transforms a sequence of a stream. `position` is its position in the minibatch. Several threads
  // may transform sequences with different positions concurrently.
  std::shared_ptr<cntk_host::SequenceData> apply(size_t stream,
                                                 std::shared_ptr<cntk_host::SequenceData> sequence,
                                                 uint32_t position) const;

 private:
  using Chain = std::vector<std::shared_ptr<cntk_host::Transformer>>;

  std::vector<Chain> chains_;
};

}  // namespace cntk_dropin
