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

bool have_same_records(const Layout& layout, const cntk_reader_stream_minibatch& stream) {
  return layout.steps == stream.steps && layout.rows == stream.rows &&
         layout.records.size() == stream.record_count &&
         (stream.record_count == 0 || std::memcmp(layout.records.data(), stream.records,
                                                  stream.record_count * sizeof(LayoutRecord)) == 0);
}

// Fills a layout with what one of the same records has.
void copy_steps(const Layout& from, Layout& to) {
  to.declared_frames = from.declared_frames;
  to.gap_frames = from.gap_frames;
  to.nearest_start = from.nearest_start;
  to.nearest_end = from.nearest_end;
  to.has_gap = from.has_gap;
  const auto copy = [&](const cntk_host::math::FloatMatrix& distances, cntk_host::math::FloatMatrix& copied) {
    float* const values = copied.resize(to.rows, to.steps);
    if (to.rows * to.steps > 0) std::memcpy(values, distances.values(), to.rows * to.steps * sizeof(float));
  };
  copy(from.to_start, to.to_start);
  copy(from.to_end, to.to_end);
}

template <typename AnyLayout>
void set_right_splice(AnyLayout& layout, size_t right_splice) {
  if constexpr (cntk_host::kHasRightSplice) layout.right_splice = right_splice;
}

}  // namespace

std::shared_ptr<cntk_host::LayoutHead> make_layout(const cntk_reader_stream_minibatch& stream,
                                                   bool frame_mode, const cntk_host::LayoutHead* other) {
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
  layout->records.resize(stream.record_count);
  if (stream.record_count > 0) {
    std::memcpy(layout->records.data(), stream.records, stream.record_count * sizeof(LayoutRecord));
  }
  const auto* const like = static_cast<const Layout*>(other);
  if (like != nullptr && have_same_records(*like, stream)) {
    copy_steps(*like, *layout);
  } else {
    Fill fill(*layout);
    for (const LayoutRecord& record : layout->records) fill.record(record);
  }
  layout->writable = !frame_mode;
  return layout;
}

}  // namespace cntk_dropin
