// What ends calls that take long.
//
// A part of <cntk_reader.hpp>, which is the one to include.

#ifndef CNTK_READER_CANCELLER_HPP
#define CNTK_READER_CANCELLER_HPP

#include <cntk_reader.h>

#include <cntk_reader/error.hpp>
#include <cstdint>
#include <memory>

namespace cntk {
namespace reader {

/// Ends calls that take long, from another thread: opening, StartEpoch, SetConfiguration, GetMinibatch,
/// SetState and RestoreCheckpoint of the readers that were opened with it. Copies end the same calls. It may
/// be destroyed before the readers.
///
/// Code of users (deserializers, transforms, mounted file systems) is not interrupted. Where it runs on
/// threads of its own, the call stops waiting for it; where it runs in the call, the call ends after it.
class Canceller {
 public:
  Canceller() {
    cntk_reader_canceller* handle = nullptr;
    detail::Call(cntk_reader_canceller_create, &handle);
    handle_.reset(handle, cntk_reader_canceller_free);
  }

  /// Ends the calls in progress: they throw an Error of kind kCancelled, and have changed nothing. Made
  /// again, such a call continues where it stood, and no minibatch is lost. False if no call is in progress:
  /// then nothing happens, and the next call is not affected. May be called from any thread, but not from a
  /// handler of signals.
  bool Cancel() const {
    std::uint32_t ends = 0;
    detail::Call(cntk_reader_canceller_cancel, handle_.get(), &ends);
    return ends != 0;
  }

 private:
  friend class Reader;

  std::shared_ptr<cntk_reader_canceller> handle_;
};

}  // namespace reader
}  // namespace cntk

#endif  // CNTK_READER_CANCELLER_HPP
