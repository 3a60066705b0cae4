#include "layout.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

namespace cntk_dropin {
namespace {

using cntk_host::Layout;
using cntk_host::LayoutRecord;

// What consumers look up per time step: how far sequences are from their ends, and where gaps are. Most
// minibatches have many short sequences, so this is where the time goes.
class Fill {
 public:
  explicit Fill(Layout& layout)
      : layout_(layout),
        rows_(layout.rows),
        to_start_(layout.to_start.resize(layout.rows, layout.steps)),
        to_end_(layout.to_end.resize(layout.rows, layout.steps)),
        gaps_from_(layout.steps) {
    layout.declared_frames = 0;
    layout.gap_frames = 0;
    layout.nearest_start.assign(layout.steps, kNever);
    layout.nearest_end.assign(layout.steps, kNever);
    layout.has_gap.assign(layout.steps, false);
  }

  void record(const LayoutRecord& record) {
    const auto first = static_cast<size_t>(std::max<int64_t>(record.begin, 0));
    const size_t last = std::min(record.end, layout_.steps);
    if (first >= last) return;
    layout_.declared_frames += last - first;
    record.id == cntk_host::kGap ? gap(record, first, last) : sequence(record, first, last);
  }

 private:
  static constexpr ptrdiff_t kNever = std::numeric_limits<ptrdiff_t>::max();

  void sequence(const LayoutRecord& record, size_t first, size_t last) {
    auto start = static_cast<ptrdiff_t>(first) - record.begin;
    auto end = static_cast<ptrdiff_t>(record.end - 1 - first);
    ptrdiff_t* const nearest_start = layout_.nearest_start.data();
    ptrdiff_t* const nearest_end = layout_.nearest_end.data();
    size_t column = first * rows_ + record.row;
    for (size_t step = first; step < last; ++step, ++start, --end, column += rows_) {
      to_start_[column] = static_cast<float>(start);
      to_end_[column] = static_cast<float>(end);
      nearest_end[step] = std::min(nearest_end[step], end);
    }
    // Most begin where others did, and tell nothing new.
    const bool is_known = record.begin == known_begin_;
    for (size_t step = is_known ? std::max(first, known_last_) : first; step < last; ++step) {
      nearest_start[step] = std::min(nearest_start[step], static_cast<ptrdiff_t>(step) - record.begin);
    }
    if (!is_known || last > known_last_) {
      known_begin_ = record.begin;
      known_last_ = last;
    }
  }

  void gap(const LayoutRecord& record, size_t first, size_t last) {
    layout_.gap_frames += last - first;
    size_t column = first * rows_ + record.row;
    for (size_t step = first; step < last; ++step, column += rows_) {
      to_start_[column] = -1;
      to_end_[column] = 0;  // undefined in the host's own layouts
    }
    // Most go on to the end.
    const size_t until = last == layout_.steps ? gaps_from_ : last;
    for (size_t step = first; step < until; ++step) layout_.has_gap[step] = true;
    if (last == layout_.steps) gaps_from_ = std::min(gaps_from_, first);
  }

  Layout& layout_;
  const size_t rows_;
  float* const to_start_;
  float* const to_end_;
  // All steps from a sequence's first up to this one know of a sequence that began so.
  int64_t known_begin_ = std::numeric_limits<int64_t>::min();
  size_t known_last_ = 0;
  // All steps from this one on are known to have gaps.
  size_t gaps_from_;
};

template <typename AnyLayout>
void set_right_splice(AnyLayout& layout, size_t right_splice) {
  if constexpr (cntk_host::kHasRightSplice) layout.right_splice = right_splice;
}

template <typename AnyLayout>
bool has_right_splice(const AnyLayout& layout, size_t right_splice) {
  if constexpr (cntk_host::kHasRightSplice) return layout.right_splice == right_splice;
  return true;
}

// Whether a layout is the one of this part: all the rest follows from its records.
bool is_of(const Layout& layout, const cntk_reader_stream_minibatch& part) {
  return layout.steps == part.steps && layout.rows == part.rows &&
         has_right_splice(layout, part.right_splice) && layout.records.size() == part.record_count &&
         std::memcmp(layout.records.data(), part.records, part.record_count * sizeof(LayoutRecord)) == 0;
}

// Makes any layout the one of this part.
void fill(Layout& layout, const cntk_reader_stream_minibatch& part) {
  // The host's records are the engine's.
  static_assert(sizeof(LayoutRecord) == sizeof(cntk_reader_record) && cntk_host::kGap == CNTK_READER_GAP);
  static_assert(offsetof(LayoutRecord, id) == offsetof(cntk_reader_record, sequence) &&
                offsetof(LayoutRecord, row) == offsetof(cntk_reader_record, row) &&
                offsetof(LayoutRecord, begin) == offsetof(cntk_reader_record, begin) &&
                offsetof(LayoutRecord, end) == offsetof(cntk_reader_record, end));
  // If memory runs out below, this is the layout of no part.
  layout.records.clear();
  layout.steps = part.steps;
  layout.rows = part.rows;
  set_right_splice(layout, part.right_splice);
  const auto* const records = reinterpret_cast<const LayoutRecord*>(part.records);
  Fill fill(layout);
  for (size_t i = 0; i < part.record_count; ++i) fill.record(records[i]);
  layout.records.assign(records, records + part.record_count);
}

}  // namespace

std::shared_ptr<cntk_host::LayoutHead> Layouts::make(
    size_t stream, const cntk_reader_stream_minibatch& part,
    const std::vector<std::shared_ptr<cntk_host::StreamMinibatch>>& streams) {
  for (size_t i = 0; i < stream; ++i) {
    if (is_of(static_cast<const Layout&>(*streams[i]->layout), part)) return streams[i]->layout;
  }
  if (layouts_.size() <= stream) layouts_.resize(stream + 1);
  const std::shared_ptr<Layout>& layout = layouts_[stream].next();
  // Frames have the same layout again and again.
  if (!is_of(*layout, part)) fill(*layout, part);
  layout->writable = !frame_mode_;
  return layout;
}

}  // namespace cntk_dropin
