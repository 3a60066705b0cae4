// The host's minibatch layout, built from the engine's.
#pragma once

#include <cntk_reader.h>

#include "distances.hpp"
#include "host_math.hpp"
#include "host_versions.hpp"
#include "recycled.hpp"

namespace cntk_host {

struct Layout : LayoutHead {
  [[no_unique_address]] MemberIf<kHasRightSplice, size_t> right_splice{};
  size_t declared_frames = 0;
  size_t gap_frames = 0;
  math::FloatMatrix to_start;
  math::FloatMatrix to_end;
  std::vector<ptrdiff_t> nearest_start;
  std::vector<ptrdiff_t> nearest_end;
  std::vector<bool> has_gap;
  math::CharMatrix mask;  // left empty: consumers compute it
  bool writable = true;
  std::wstring axis = L"DynamicAxis";
};
static_assert(sizeof(Layout) == 152 + (kHasRightSplice ? 8 : 0) + 3 * kMatrixSize + kStringSize);

}  // namespace cntk_host

namespace cntk_dropin {

// The layouts of a reader's minibatches. Hosts only read and copy a layout. So streams with equal
// records share one, and layouts of earlier minibatches are refilled: creating a layout and its
// matrices takes longer than the engine needs for a minibatch of one sentence.
class Layouts {
 public:
  // In frame mode hosts get layouts that are not writable.
  explicit Layouts(bool frame_mode) : frame_mode_(frame_mode) {}

  // Returns the layout of a stream in a minibatch. `streams` has the minibatch's streams before
  // this one, whose layouts may be shared.
  std::shared_ptr<cntk_host::LayoutHead> make(
      size_t stream, const cntk_reader_minibatch_stream& part,
      const std::vector<std::shared_ptr<cntk_host::StreamMinibatch>>& streams);

 private:
  const bool frame_mode_;
  std::vector<Recycled<cntk_host::Layout>> layouts_;  // by stream
  Distances distances_;
};

}  // namespace cntk_dropin
