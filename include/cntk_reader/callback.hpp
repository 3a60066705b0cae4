// Callbacks that the library calls, and that no exception leaves.
//
// A part of <cntk_reader.hpp>, which is the one to include.

#ifndef CNTK_READER_CALLBACK_HPP
#define CNTK_READER_CALLBACK_HPP

#include <cntk_reader.h>

#include <cstdint>
#include <exception>
#include <string>

#if defined(__GLIBCXX__)
#include <cxxabi.h>
// `pthread_exit` unwinds the stack by an exception that handlers must throw on, which the library's frames do
// not allow. So a thread that ends inside a callback is kept until the process ends.
#define CNTK_READER_CATCH_THREAD_END \
  catch (abi::__forced_unwind&) {    \
    cntk_reader_thread_park();       \
  }
#else
#define CNTK_READER_CATCH_THREAD_END
#endif

namespace cntk {
namespace reader {
namespace detail {

/// A function as a callback of the C interface. It has to be noexcept, or this does not compile: the library
/// cannot catch what C++ throws, so an exception that came through would end the process.
template <typename Result, typename... Arguments>
constexpr auto Callback(Result (*function)(Arguments...) noexcept) -> Result (*)(Arguments...) {
  return function;
}

/// Runs the body of a callback that may fail, and returns 0 or, if it throws, 1. The text of the exception
/// becomes that of the error, of kind kUser, that the call throws which needed the callback. `who` has thrown
/// it, if it is no std::exception.
template <typename Body>
std::int32_t RunCallback(cntk_reader_failure* failure, const char* who, Body&& body) noexcept {
  const auto fail = [&](const char* message) noexcept {
    cntk_reader_failure_set_message(failure, message, CNTK_READER_NUL_TERMINATED);
  };
  try {
    body();
    return 0;
  }
  CNTK_READER_CATCH_THREAD_END
  catch (const std::exception& error) {
    fail(error.what());
  }
  catch (...) {
    try {
      fail((std::string(who) + " has thrown something that is no std::exception.").c_str());
    } catch (...) {
      fail("Memory is used up.");
    }
  }
  return 1;
}

/// Runs the body of a callback that cannot report a failure: what it throws is dropped.
template <typename Body>
void RunQuietly(Body&& body) noexcept {
  try {
    body();
  }
  CNTK_READER_CATCH_THREAD_END
  catch (...) {
    // The thread is one of the library, which has no use for the exception.
  }
}

/// The finalizer of userdata that is a T.
template <typename T>
void Delete(void* userdata) noexcept {
  RunQuietly([&] { delete static_cast<T*>(userdata); });
}

/// The callback that gives back an object of type T that another callback has made.
template <typename T>
void DeleteHandle(void*, void* handle) noexcept {
  Delete<T>(handle);
}

}  // namespace detail
}  // namespace reader
}  // namespace cntk

#endif  // CNTK_READER_CALLBACK_HPP
