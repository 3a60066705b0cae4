// Carries exceptions of the host's modules through the engine, which must not be unwound.
#pragma once

#include <cntk_reader.h>
#include <cxxabi.h>

#include <exception>
#include <string>
#include <utility>

namespace cntk_dropin {

// Stores the exception that is being handled in `failure`, so that the engine's error carries it.
void keep_exception(cntk_reader_failure* failure) noexcept;

// Writes an error with its detail and location to the log, unless `message` contains all of it.
void log_where(const cntk_reader_error* error, const std::string& message) noexcept;

// Throws the exception that keep_exception stored in this error, if there is one.
void throw_kept(const cntk_reader_error* error);

// Runs the body of a callback. Returns 0, or 1 with the exception in `failure` if the body throws.
// If the body ends the thread, as Python does after the interpreter has ended, the thread is parked
// until the process ends: the engine's frames must not be unwound.
template <typename Body>
int32_t guarded(cntk_reader_failure* failure, Body&& body) noexcept {
  try {
    std::forward<Body>(body)();
    return 0;
  } catch (abi::__forced_unwind&) {
    cntk_reader_thread_park();
  } catch (...) {
    keep_exception(failure);
  }
  return 1;
}

}  // namespace cntk_dropin
