#include "layout.hpp"

#include <cstring>

namespace cntk_dropin {
namespace {

using cntk_host::Layout;
using cntk_host::LayoutRecord;

// Returns whether a layout already describes this part. Its lookup tables follow from its records,
// so they are not compared.
bool is_of(const Layout& layout, const cntk_reader_minibatch_stream& part) {
  return layout.steps == part.steps && layout.rows == part.lanes &&
         layout.right_splice == part.right_splice && layout.records.size() == part.record_count &&
         (part.record_count == 0 ||
          std::memcmp(layout.records.data(), part.records, part.record_count * sizeof(LayoutRecord)) == 0);
}

// Overwrites a layout with that of this part.
void fill(Layout& layout, const cntk_reader_minibatch_stream& part, Distances& distances) {
  // The host's records have the engine's layout in memory.
  static_assert(sizeof(LayoutRecord) == sizeof(cntk_reader_record) && cntk_host::kGap == CNTK_READER_GAP);
  static_assert(offsetof(LayoutRecord, id) == offsetof(cntk_reader_record, sequence) &&
                offsetof(LayoutRecord, row) == offsetof(cntk_reader_record, lane) &&
                offsetof(LayoutRecord, begin) == offsetof(cntk_reader_record, begin) &&
                offsetof(LayoutRecord, end) == offsetof(cntk_reader_record, end));
  const Records records = {part.steps, part.lanes, reinterpret_cast<const LayoutRecord*>(part.records),
                           part.record_count};
  // If memory runs out below, the layout matches no part, and is filled again.
  layout.records.clear();
  layout.steps = part.steps;
  layout.rows = part.lanes;
  layout.right_splice = part.right_splice;
  layout.declared_frames = part.columns;
  layout.gap_frames = part.columns - part.samples;
  distances.fill(
      records, {layout.to_start.resize(part.lanes, part.steps), layout.to_end.resize(part.lanes, part.steps),
                layout.nearest_start, layout.nearest_end, layout.has_gap});
  layout.records.assign(records.begin(), records.end());
}

}  // namespace

std::shared_ptr<cntk_host::LayoutHead> Layouts::make(
    size_t stream, const cntk_reader_minibatch_stream& part,
    const std::vector<std::shared_ptr<cntk_host::StreamMinibatch>>& streams) {
  for (size_t i = 0; i < stream; ++i) {
    if (is_of(static_cast<const Layout&>(*streams[i]->layout), part)) return streams[i]->layout;
  }
  if (layouts_.size() <= stream) layouts_.resize(stream + 1);
  const std::shared_ptr<Layout>& layout = layouts_[stream].next();
  // In frame mode most minibatches have equal layouts.
  if (!is_of(*layout, part)) fill(*layout, part, distances_);
  layout->writable = !frame_mode_;
  return layout;
}

}  // namespace cntk_dropin
