// Deserializers of the host's other modules as members of the engine's reader.
#pragma once

#include <memory>
#include <vector>

#include "reader.hpp"
#include "transforms.hpp"

namespace cntk_dropin {

class ForeignDeserializer;

// The host's modules that a reader uses.
class ForeignModules : public Companion {
 public:
  ReaderHandle open(const cntk_reader_section* section, cntk_reader_section_kind kind) override;
  void start_epoch(const void* epoch_configuration) override;

 private:
  static int32_t make(void* self, const cntk_reader_request* request, cntk_reader_user_deserializer* made,
                      cntk_reader_failure* failure);

  std::vector<std::shared_ptr<Transforms>> transforms_;
};

}  // namespace cntk_dropin
