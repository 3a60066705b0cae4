// The host's minibatch layout, built from the engine's.
#pragma once

#include <cntk_reader.h>

#include "host_math.hpp"
#include "host_versions.hpp"

namespace cntk_host {

// Only hosts since 2.6 have this member.
struct LayoutSplice {
  size_t right_splice = 0;
};
struct NoLayoutSplice {};

struct LayoutRest {
  size_t declared_frames = 0;
  size_t gap_frames = 0;
  math::FloatMatrix to_start;
  math::FloatMatrix to_end;
  std::vector<ptrdiff_t> nearest_start;
  std::vector<ptrdiff_t> nearest_end;
  std::vector<bool> has_gap;
  math::CharMatrix mask;  // stays empty: consumers compute it
  bool writable = true;
  std::wstring axis = L"DynamicAxis";
};

// The bases make the members of either version follow one another as the host has them.
struct Layout : LayoutHead, std::conditional_t<kHasRightSplice, LayoutSplice, NoLayoutSplice>, LayoutRest {};
static_assert(sizeof(Layout) == (kHasRightSplice ? 600 : 592));

}  // namespace cntk_host

namespace cntk_dropin {

// Builds the layout of one stream's part of a minibatch. In frame mode hosts get it locked. `other` is one
// that was built here for another stream, or null: the same again is cheaper.
std::shared_ptr<cntk_host::LayoutHead> make_layout(const cntk_reader_stream_minibatch& stream,
                                                   bool frame_mode, const cntk_host::LayoutHead* other);

}  // namespace cntk_dropin
