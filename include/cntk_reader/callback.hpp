// Wrappers that keep exceptions inside callbacks.
//
// Part of <cntk_reader.hpp>; include that.

#ifndef CNTK_READER_CALLBACK_HPP
#define CNTK_READER_CALLBACK_HPP

#include <cntk_reader.h>

#include <cntk_reader/error.hpp>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <string>

#if defined(__GLIBCXX__)
#include <cxxabi.h>
// `pthread_exit` unwinds the stack with an exception that handlers must rethrow, but unwinding
// through the library's frames is not supported. So a thread that exits inside a callback is parked
// until the process ends.
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

/// Returns a function as a callback of the C interface. It must be noexcept, or this does not
/// compile: the library cannot catch C++ exceptions, and one that escaped would terminate the
/// process.
template <typename Result, typename... Arguments>
constexpr auto Callback(Result (*function)(Arguments...) noexcept) -> Result (*)(Arguments...) {
  return function;
}

/// Runs the body of a callback that may fail. Returns 0, or 1 if it throws. The text of the
/// exception becomes the message of the Error, of kind kUser, that the call throws which needed the
/// callback. `who` names the callback's owner in the message for exceptions other than
/// std::exception.
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
      fail((std::string(who) + " threw an exception that is not a std::exception.").c_str());
    } catch (...) {
      fail("Out of memory.");
    }
  }
  return 1;
}

/// Runs the body of a callback that cannot report failure; exceptions are dropped.
template <typename Body>
void RunQuietly(Body&& body) noexcept {
  try {
    body();
  }
  CNTK_READER_CATCH_THREAD_END
  catch (...) {
    // The caller is the library, which cannot handle the exception.
  }
}

/// Returns the result of a method of a user-defined object that is called outside of a callback,
/// when the object is given to a reader. An exception becomes an Error of kind kUser, like one in a
/// callback, in which the exception is nested. `method` and `name` identify the failed call.
template <typename Body>
auto CallUser(const char* method, const std::string& name, Body&& body) {
  const auto fail = [&](std::string text) {
    if (text.empty() || text.back() != '.') text += '.';
    std::throw_with_nested(Error(ErrorKind::kUser, text + " " + method + " of '" + name + "' failed.",
                                 ExceptionClass::kRuntimeError));
  };
  try {
    return body();
  }
#if defined(__GLIBCXX__)
  catch (abi::__forced_unwind&) {
    throw;  // The thread exits, through frames of C++ alone.
  }
#endif
  catch (const std::exception& error) {
    fail(error.what());
  } catch (...) {
    fail("A user-defined object threw an exception that is not a std::exception.");
  }
  std::abort();  // Never reached: `fail` throws.
}

/// Finalizer of userdata of type T.
template <typename T>
void Delete(void* userdata) noexcept {
  RunQuietly([&] { delete static_cast<T*>(userdata); });
}

/// Callback that releases an object of type T that another callback has created.
template <typename T>
void DeleteHandle(void*, void* handle) noexcept {
  Delete<T>(handle);
}

}  // namespace detail
}  // namespace reader
}  // namespace cntk

#endif  // CNTK_READER_CALLBACK_HPP
