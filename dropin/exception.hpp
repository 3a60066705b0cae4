// Exceptions of the host's modules on their way through the engine, which must not be unwound.
#pragma once

#include <cntk_reader.h>

#include <exception>
#include <utility>

namespace cntk_dropin {

// Tells the engine of the exception that is being handled, and has its error carry the exception.
void keep_exception(cntk_reader_failure* failure) noexcept;

// Throws again what keep_exception has kept, if there is something.
void throw_kept(const cntk_reader_error* error);

// Runs the body of a callback: 0, or 1 if it throws.
template <typename Body>
int32_t guarded(cntk_reader_failure* failure, Body&& body) noexcept {
  try {
    std::forward<Body>(body)();
    return 0;
  } catch (...) {
    keep_exception(failure);
    return 1;
  }
}

}  // namespace cntk_dropin
