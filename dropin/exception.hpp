// Exceptions of the host's modules on their way through the engine, which must not be unwound.
#pragma once

#include <cntk_reader.h>

#include <exception>
#include <string>
#include <utility>

namespace cntk_dropin {

// Reports the exception that is being handled to the engine, whose error then carries it.
void keep_exception(cntk_reader_failure* failure) noexcept;

// Writes an error with its detail and its location to the log, unless `message` says all of it.
void log_where(const cntk_reader_error* error, const std::string& message) noexcept;

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
