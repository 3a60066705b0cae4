#include "sequences.hpp"

namespace cntk_dropin {

namespace host = cntk_host;

SparseSequence::SparseSequence(std::shared_ptr<const void> owner, const host::StreamInformation& stream,
                               const cntk_reader_sequence& view, DecodedHandle numbers, size_t key)
    : Sequence(std::move(owner), stream, {view, std::move(numbers)}, key) {
  rows = view.indices;
  total = static_cast<int32_t>(view.value_count);
  counts.reserve(view.samples);
  for (uint32_t i = 0; i < view.samples; ++i) {
    counts.push_back(static_cast<int32_t>(view.sample_offsets[i + 1] - view.sample_offsets[i]));
  }
}

RepeatedSequence::RepeatedSequence(const host::StreamInformation& stream, const cntk_reader_sequence& view,
                                   uint32_t count, size_t of_key)
    : shape_(stream.shape) {
  const size_t size = stream.element == host::Element::float64 ? sizeof(double) : sizeof(float);
  const char* const sample = static_cast<const char*>(view.values);
  for (uint32_t i = 0; i < count; ++i)
    values_.insert(values_.end(), sample, sample + view.value_count * size);
  samples = count;
  element = stream.element;
  valid = view.presence == CNTK_READER_PRESENCE_PRESENT;
  key.sequence = of_key;
}

}  // namespace cntk_dropin
