// Lookup tables of a layout for each time step: the distances to the start and to the end of its
// sequences, and whether it has gaps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "host_types.hpp"

namespace cntk_dropin {

// The nearest distance in a step without sequences.
constexpr ptrdiff_t kNever = std::numeric_limits<ptrdiff_t>::max();

// A layout's records, which cover each of its columns once.
struct Records {
  size_t steps;
  size_t rows;
  const cntk_host::LayoutRecord* first;
  size_t count;

  const cntk_host::LayoutRecord* begin() const { return first; }
  const cntk_host::LayoutRecord* end() const { return first + count; }
};

// The outputs. `to_start` and `to_end` have one value per column, the others one per step.
struct Lookups {
  float* to_start;  // -1 in gaps
  float* to_end;    // 0 in gaps; unspecified in the host's own layouts
  std::vector<ptrdiff_t>& nearest_start;
  std::vector<ptrdiff_t>& nearest_end;
  std::vector<bool>& has_gap;
};

// Computes the lookup tables of a layout.
class Distances {
 public:
  void fill(const Records& records, Lookups out);

  // The three implementations of `fill`. `fill_by_records` handles all layouts. `fill_by_steps`
  // processes four lanes at a time, and takes 40 % less time for minibatches of 256 words in
  // sentences; it returns false if there are fewer than four lanes. `fill_one_lane` needs no
  // comparisons, because each step has one record, and is five times faster for 800 steps; it
  // returns false if there are more lanes. Both also return false if a distance is too large for
  // them; `fill_one_lane` may then have written some results.
  static void fill_by_records(const Records& records, Lookups out);
  bool fill_by_steps(const Records& records, Lookups out);
  static bool fill_one_lane(const Records& records, Lookups out);

 private:
  bool spread(const Records& records, size_t height);

  // For each step and lane: the step at which the sequence began, and its last step. There is one
  // more column before the first step, and one after the last, which receives the results of the
  // last step.
  std::vector<float> begins_;
  std::vector<float> lasts_;
};

}  // namespace cntk_dropin
