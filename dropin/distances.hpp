// What consumers of a layout look up per time step: how far sequences are from their ends, and where gaps
// are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "host_types.hpp"

namespace cntk_dropin {

// The nearest distance of a step without sequences.
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

// Where the results go. The distances have one value a column, the others one a step.
struct Lookups {
  float* to_start;  // -1 in gaps
  float* to_end;    // 0 in gaps; undefined in the host's own layouts
  std::vector<ptrdiff_t>& nearest_start;
  std::vector<ptrdiff_t>& nearest_end;
  std::vector<bool>& has_gap;
};

// Fills all of them, whatever they held before.
class Distances {
 public:
  void fill(const Records& records, Lookups out);

  // The two ways of `fill`: record by record; and step by step, by four rows at a time, which is false if it
  // has done nothing, because there are fewer rows or because distances would not be exact. Layouts of
  // minibatches of 256 words in sentences take the second one 0.6 of the time.
  static void fill_by_records(const Records& records, Lookups out);
  bool fill_by_steps(const Records& records, Lookups out);

 private:
  bool spread(const Records& records, size_t height);

  // By step, for each row: where its sequence began, and its last step. The first column is
  // before the first step, the last one is for the results of the last step.
  std::vector<float> begins_;
  std::vector<float> lasts_;
};

}  // namespace cntk_dropin
