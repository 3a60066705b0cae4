// Cancellation of long-running calls.
//
// Part of <cntk_reader.hpp>; include that.

#ifndef CNTK_READER_CANCELLER_HPP
#define CNTK_READER_CANCELLER_HPP

#include <cntk_reader.h>

#include <cntk_reader/error.hpp>
#include <cstdint>
#include <memory>

namespace cntk {
namespace reader {

/// Cancels long-running calls from another thread: opening a reader, StartEpoch, SetConfiguration,
/// GetMinibatch, SetState and RestoreCheckpoint of the readers that were opened with it. Copies
/// cancel the same calls. It may be destroyed before the readers.
///
/// User code (deserializers, transforms, mounted file systems) is not interrupted. If it runs on
/// another thread, the call stops waiting for it; if it runs on the thread of the call, the call
/// ends after it.
class Canceller {
 public:
  Canceller() {
    cntk_reader_canceller* handle = nullptr;
    detail::Call(cntk_reader_canceller_create, &handle);
    handle_.reset(handle, cntk_reader_canceller_free);
  }

  /// Cancels the running calls: they throw an Error of kind kCancelled, without effect. The same
  /// call made again continues where it stopped, and no minibatch is lost. Returns false if no call
  /// is running; then nothing happens, and the next call is not affected. May be called from any
  /// thread, but not from a signal handler.
  bool Cancel() const {
    std::uint32_t ends = 0;
    detail::Call(cntk_reader_canceller_cancel, Handle(), &ends);
    return ends != 0;
  }

 private:
  friend class Reader;

  cntk_reader_canceller* Handle() const {
    if (!handle_) detail::MovedFrom::Refuse("Canceller");
    return handle_.get();
  }

  std::shared_ptr<cntk_reader_canceller> handle_;
};

}  // namespace reader
}  // namespace cntk

#endif  // CNTK_READER_CANCELLER_HPP
