#include "exception.hpp"

#include <cstdio>
#include <new>

namespace cntk_dropin {

// The members of std::exception_ptr that the libstdc++ of the oldest hosts exports, by their
// mangled names. Using the class itself would call members of newer versions.
namespace libstdcxx {
struct Kept {
  void* exception;
};
void current(Kept* out) __asm__("_ZSt17current_exceptionv");
[[noreturn]] void rethrow(const Kept* kept) __asm__(
    "_ZSt17rethrow_exceptionNSt15__exception_ptr13exception_ptrE");
void release(Kept* kept) __asm__("_ZNSt15__exception_ptr13exception_ptrD1Ev");
}  // namespace libstdcxx

namespace {

using libstdcxx::Kept;

void finalize(void* kept) {
  libstdcxx::release(static_cast<Kept*>(kept));
  delete static_cast<Kept*>(kept);
}

const char* text_of_current() noexcept {
  try {
    throw;
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "An exception that is not a std::exception.";
  }
}

}  // namespace

void keep_exception(cntk_reader_failure* failure) noexcept {
  cntk_reader_failure_set_message(failure, text_of_current(), CNTK_READER_NUL_TERMINATED);
  Kept* const kept = new (std::nothrow) Kept();
  if (kept == nullptr) return;  // the error then has only the exception's text
  libstdcxx::current(kept);
  cntk_reader_failure_set_cause(failure, kept, finalize);
}

void log_where(const cntk_reader_error* error, const std::string& message) noexcept {
  const char* const text = cntk_reader_error_get_text(error);
  if (message != text) std::fprintf(stderr, "ERROR: %s\n", text);
}

void throw_kept(const cntk_reader_error* error) {
  const auto* kept = static_cast<const Kept*>(cntk_reader_error_get_cause(error));
  if (kept != nullptr) libstdcxx::rethrow(kept);
}

}  // namespace cntk_dropin
