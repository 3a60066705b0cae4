#include "distances.hpp"

#include <emmintrin.h>

#include <algorithm>
#include <cstring>
#include <limits>

namespace cntk_dropin {
namespace {

using cntk_host::kGap;
using cntk_host::LayoutRecord;

// Integers up to this one are exact as `float`.
constexpr int64_t kExact = int64_t{1} << 24;
// The distance in gaps to the start and to the end of a sequence: greater than in any exact
// sequence.
constexpr float kFar = 4 * static_cast<float>(kExact);

// The steps of a record that lie in the minibatch.
struct StepRange {
  size_t first;
  size_t last;
  StepRange(const LayoutRecord& record, size_t steps)
      : first(static_cast<size_t>(std::max<int64_t>(record.begin, 0))), last(std::min(record.end, steps)) {}
};

// Marks the steps in which a lane has a gap.
void mark_gaps(const Records& records, std::vector<bool>& has_gap) {
  has_gap.assign(records.steps, false);
  size_t known = records.steps;  // all steps from here on are marked
  for (const LayoutRecord& record : records) {
    if (record.id != kGap) continue;
    const StepRange part(record, records.steps);
    // Most gaps extend to the last step; skips the steps that are already marked.
    const bool is_last = part.last == records.steps;
    for (size_t step = part.first; step < (is_last ? known : part.last); ++step) has_gap[step] = true;
    if (is_last) known = std::min(known, part.first);
  }
}

// Writes consecutive integers below 2^31, upwards or downwards, four at a time.
template <int kBy>
void count_from(ptrdiff_t from, size_t numbers, float* floats, ptrdiff_t* wholes) {
  const __m128i further = _mm_set1_epi64x(4 * kBy);
  __m128i low = _mm_set_epi64x(from + kBy, from), high = _mm_add_epi64(low, _mm_set1_epi64x(2 * kBy));
  size_t i = 0;
  for (; i + 4 <= numbers; i += 4) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(wholes + i), low);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(wholes + i + 2), high);
    // The lower halves of the four.
    const __m128 halves =
        _mm_shuffle_ps(_mm_castsi128_ps(low), _mm_castsi128_ps(high), _MM_SHUFFLE(2, 0, 2, 0));
    _mm_storeu_ps(floats + i, _mm_cvtepi32_ps(_mm_castps_si128(halves)));
    low = _mm_add_epi64(low, further);
    high = _mm_add_epi64(high, further);
  }
  for (ptrdiff_t number = from + kBy * static_cast<ptrdiff_t>(i); i < numbers; ++i, number += kBy) {
    wholes[i] = number;
    floats[i] = static_cast<float>(number);
  }
}

// Selects for four lanes of a step: the new value where `is_new` is set, else the previous step's
// value.
__m128 select_new(__m128 is_new, __m128 next, const float* before) {
  return _mm_or_ps(_mm_and_ps(is_new, next), _mm_andnot_ps(is_new, _mm_loadu_ps(before)));
}

// Writes the smallest distances of a step.
void store_nearest(__m128 start, __m128 end, ptrdiff_t* nearest_start, ptrdiff_t* nearest_end) {
  // Start, end, start, end: the minima of two lanes each, then of all lanes.
  const __m128 halves = _mm_min_ps(_mm_unpacklo_ps(start, end), _mm_unpackhi_ps(start, end));
  const __m128i both = _mm_cvttps_epi32(_mm_min_ps(halves, _mm_movehl_ps(halves, halves)));
  const int64_t pair = _mm_cvtsi128_si64(both);
  const auto of_start = static_cast<int32_t>(pair);
  *nearest_start = of_start > kExact ? kNever : of_start;
  *nearest_end = of_start > kExact ? kNever : static_cast<ptrdiff_t>(pair >> 32);
}

}  // namespace

void Distances::fill(const Records& records, Lookups out) {
  if (!fill_one_lane(records, out) && !fill_by_steps(records, out)) fill_by_records(records, out);
}

// Stores the step and lane at which each record begins. Returns false if distances would not be
// exact as `float`.
bool Distances::spread(const Records& records, size_t height) {
  const auto steps = static_cast<int64_t>(records.steps);
  if (steps > kExact) return false;
  const size_t values = height * (records.steps + 2);
  if (begins_.size() < values) {
    begins_.resize(values);
    lasts_.resize(values);
  }
  std::fill_n(begins_.data(), height, -kFar);
  std::fill_n(lasts_.data(), height, kFar);
  // NaN where no record begins.
  std::memset(&begins_[height], 0xff, height * records.steps * sizeof(float));
  bool is_exact = true;
  for (const LayoutRecord& record : records) {
    const StepRange part(record, records.steps);
    if (part.first >= part.last) continue;
    const size_t column = (part.first + 1) * height + record.row;
    const bool is_gap = record.id == kGap;
    is_exact &= is_gap | ((steps - record.begin <= kExact) & (record.end <= static_cast<size_t>(kExact)));
    begins_[column] = is_gap ? -kFar : static_cast<float>(record.begin);
    lasts_[column] = is_gap ? kFar : static_cast<float>(static_cast<int64_t>(record.end) - 1);
  }
  return is_exact;
}

bool Distances::fill_by_steps(const Records& records, Lookups out) {
  const size_t steps = records.steps, rows = records.rows;
  const size_t height = (rows + 3) / 4 * 4;
  if (steps == 0 || rows < 4 || !spread(records, height)) return false;
  out.nearest_start.resize(steps);
  out.nearest_end.resize(steps);
  const __m128 far = _mm_set1_ps(static_cast<float>(kExact)), one = _mm_set1_ps(1);
  float* begins = begins_.data() + height;
  float* lasts = lasts_.data() + height;
  ptrdiff_t* const nearest_starts = out.nearest_start.data();
  ptrdiff_t* const nearest_ends = out.nearest_end.data();
  for (size_t step = 0; step < steps; ++step, begins += height, lasts += height) {
    // The last group of four lanes may write into the next step, which is overwritten afterwards.
    // The last step has no next one, so its results first go to the spare column.
    const bool is_last = step + 1 == steps;
    float* const to_start = is_last ? begins + height : out.to_start + step * rows;
    float* const to_end = is_last ? lasts + height : out.to_end + step * rows;
    const __m128 now = _mm_set1_ps(static_cast<float>(static_cast<int32_t>(step)));
    __m128 nearest_start = _mm_set1_ps(kFar), nearest_end = nearest_start;
    for (size_t row = 0; row < rows; row += 4) {
      __m128 begin = _mm_loadu_ps(begins + row);
      const __m128 is_new = _mm_cmpord_ps(begin, begin);
      begin = select_new(is_new, begin, begins + row - height);
      const __m128 last = select_new(is_new, _mm_loadu_ps(lasts + row), lasts + row - height);
      _mm_storeu_ps(begins + row, begin);
      _mm_storeu_ps(lasts + row, last);
      const __m128 start = _mm_sub_ps(now, begin), end = _mm_sub_ps(last, now);
      nearest_start = _mm_min_ps(nearest_start, start);
      nearest_end = _mm_min_ps(nearest_end, end);
      const __m128 is_sequence = _mm_cmplt_ps(start, far);
      _mm_storeu_ps(to_start + row, _mm_sub_ps(_mm_and_ps(is_sequence, _mm_add_ps(start, one)), one));
      _mm_storeu_ps(to_end + row, _mm_and_ps(is_sequence, end));
    }
    store_nearest(nearest_start, nearest_end, nearest_starts + step, nearest_ends + step);
  }
  std::memcpy(out.to_start + (steps - 1) * rows, begins, rows * sizeof(float));
  std::memcpy(out.to_end + (steps - 1) * rows, lasts, rows * sizeof(float));
  mark_gaps(records, out.has_gap);
  return true;
}

bool Distances::fill_one_lane(const Records& records, Lookups out) {
  constexpr ptrdiff_t most = std::numeric_limits<int32_t>::max();
  const auto steps = static_cast<ptrdiff_t>(records.steps);
  if (records.rows != 1 || steps > most) return false;
  out.nearest_start.resize(records.steps);
  out.nearest_end.resize(records.steps);
  ptrdiff_t* const nearest_starts = out.nearest_start.data();
  ptrdiff_t* const nearest_ends = out.nearest_end.data();
  for (const LayoutRecord& record : records) {
    const StepRange part(record, records.steps);
    if (part.first >= part.last) continue;
    const size_t first = part.first, count = part.last - part.first;
    if (record.id == kGap) {
      std::fill_n(out.to_start + first, count, -1.0f);
      std::fill_n(out.to_end + first, count, 0.0f);
      std::fill_n(nearest_starts + first, count, kNever);
      std::fill_n(nearest_ends + first, count, kNever);
      continue;
    }
    const ptrdiff_t start = static_cast<ptrdiff_t>(first) - record.begin;
    const auto end = static_cast<ptrdiff_t>(record.end - 1 - first);
    if (start > most - steps || end > most) return false;
    count_from<1>(start, count, out.to_start + first, nearest_starts + first);
    count_from<-1>(end, count, out.to_end + first, nearest_ends + first);
  }
  mark_gaps(records, out.has_gap);
  return true;
}

void Distances::fill_by_records(const Records& records, Lookups out) {
  out.nearest_start.assign(records.steps, kNever);
  out.nearest_end.assign(records.steps, kNever);
  ptrdiff_t* const nearest_start = out.nearest_start.data();
  ptrdiff_t* const nearest_end = out.nearest_end.data();
  for (const LayoutRecord& record : records) {
    const StepRange part(record, records.steps);
    size_t column = part.first * records.rows + record.row;
    if (record.id == kGap) {
      for (size_t step = part.first; step < part.last; ++step, column += records.rows) {
        out.to_start[column] = -1;
        out.to_end[column] = 0;
      }
      continue;
    }
    ptrdiff_t start = static_cast<ptrdiff_t>(part.first) - record.begin;
    ptrdiff_t end = static_cast<ptrdiff_t>(record.end - 1 - part.first);
    for (size_t step = part.first; step < part.last; ++step, ++start, --end, column += records.rows) {
      out.to_start[column] = static_cast<float>(start);
      out.to_end[column] = static_cast<float>(end);
      nearest_start[step] = std::min(nearest_start[step], start);
      nearest_end[step] = std::min(nearest_end[step], end);
    }
  }
  mark_gaps(records, out.has_gap);
}

}  // namespace cntk_dropin
