#include "layout.hpp"

#include <algorithm>
#include <limits>

namespace cntk_dropin {
namespace {

using cntk_host::Layout;
using cntk_host::LayoutRecord;

// What consumers look up per time step: how far sequences are from their ends, and where gaps are.
class Fill {
 public:
  explicit Fill(Layout& layout)
      : layout_(layout),
        to_start_(layout.to_start.resize(layout.rows, layout.steps)),
        to_end_(layout.to_end.resize(layout.rows, layout.steps)) {
    constexpr ptrdiff_t kNever = std::numeric_limits<ptrdiff_t>::max();
    layout.nearest_start.assign(layout.steps, kNever);
    layout.nearest_end.assign(layout.steps, kNever);
    layout.has_gap.assign(layout.steps, false);
  }

  void record(const LayoutRecord& record) {
    const auto first = static_cast<size_t>(std::max<int64_t>(record.begin, 0));
    const size_t last = std::min(record.end, layout_.steps);
    layout_.declared_frames += last - first;
    record.id == cntk_host::kGap ? gap(record, first, last) : sequence(record, first, last);
  }

 private:
  void sequence(const LayoutRecord& record, size_t first, size_t last) {
    for (size_t step = first; step < last; ++step) {
      const ptrdiff_t start = static_cast<ptrdiff_t>(step) - record.begin;
      const auto end = static_cast<ptrdiff_t>(record.end - 1 - step);
      const size_t column = step * layout_.rows + record.row;
      to_start_[column] = static_cast<float>(start);
      to_end_[column] = static_cast<float>(end);
      layout_.nearest_start[step] = std::min(layout_.nearest_start[step], start);
      layout_.nearest_end[step] = std::min(layout_.nearest_end[step], end);
    }
  }

  void gap(const LayoutRecord& record, size_t first, size_t last) {
    layout_.gap_frames += last - first;
    for (size_t step = first; step < last; ++step) {
      layout_.has_gap[step] = true;
      to_start_[step * layout_.rows + record.row] = -1;
      to_end_[step * layout_.rows + record.row] = 0;  // undefined in the host's own layouts
    }
  }

  Layout& layout_;
  float* to_start_;
  float* to_end_;
};

template <typename AnyLayout>
void set_right_splice(AnyLayout& layout, size_t right_splice) {
  if constexpr (cntk_host::kHasRightSplice) layout.right_splice = right_splice;
}

}  // namespace

std::shared_ptr<cntk_host::LayoutHead> make_layout(const cntk_reader_stream_minibatch& stream,
                                                   bool frame_mode) {
  // The host's records are the engine's.
  static_assert(sizeof(LayoutRecord) == sizeof(cntk_reader_record) && cntk_host::kGap == CNTK_READER_GAP);
  static_assert(offsetof(LayoutRecord, id) == offsetof(cntk_reader_record, sequence) &&
                offsetof(LayoutRecord, row) == offsetof(cntk_reader_record, row) &&
                offsetof(LayoutRecord, begin) == offsetof(cntk_reader_record, begin) &&
                offsetof(LayoutRecord, end) == offsetof(cntk_reader_record, end));
  auto layout = std::make_shared<Layout>();
  layout->steps = stream.steps;
  layout->rows = stream.rows;
  set_right_splice(*layout, stream.right_splice);
  layout->records.reserve(stream.record_count);
  Fill fill(*layout);
  for (size_t i = 0; i < stream.record_count; ++i) {
    const cntk_reader_record& r = stream.records[i];
    layout->records.push_back({r.sequence, r.row, r.begin, r.end});
    fill.record(layout->records.back());
  }
  layout->writable = !frame_mode;
  return layout;
}

}  // namespace cntk_dropin
