// The exception of this library, and the conversion of C errors to it.
//
// Part of <cntk_reader.hpp>; include that.

#ifndef CNTK_READER_ERROR_HPP
#define CNTK_READER_ERROR_HPP

#include <cntk_reader.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

namespace cntk {
namespace reader {

/// Kind of an error.
enum class ErrorKind {
  kConfig = CNTK_READER_STATUS_CONFIG,
  kInvalidArgument = CNTK_READER_STATUS_INVALID_ARGUMENT,
  kIo = CNTK_READER_STATUS_IO,
  kData = CNTK_READER_STATUS_DATA,
  kCheckpoint = CNTK_READER_STATUS_CHECKPOINT,
  kState = CNTK_READER_STATUS_STATE,
  kUser = CNTK_READER_STATUS_USER,
  kInternal = CNTK_READER_STATUS_INTERNAL,
  kCancelled = CNTK_READER_STATUS_CANCELLED,
  kMemory = CNTK_READER_STATUS_MEMORY,
};

/// The exception that CNTK itself throws for an error.
enum class ExceptionClass {
  kRuntimeError = CNTK_READER_EXCEPTION_RUNTIME_ERROR,
  kLogicError = CNTK_READER_EXCEPTION_LOGIC_ERROR,
  kInvalidArgument = CNTK_READER_EXCEPTION_INVALID_ARGUMENT,
};

class Error;

namespace detail {

[[noreturn]] void Throw(cntk_reader_status status, cntk_reader_error* error);

}  // namespace detail

/// The only exception class of this library. `what()` is the message with the location.
class Error : public std::runtime_error {
 public:
  /// Creates an error that the C++ layer has detected.
  Error(ErrorKind kind, const std::string& message,
        ExceptionClass exception_class = ExceptionClass::kInvalidArgument)
      : std::runtime_error(message), details_(std::make_shared<Details>()) {
    details_->kind = kind;
    details_->exception_class = exception_class;
    details_->message = message;
  }
  // A move copies, so that a moved-from error keeps its details.
  Error(const Error&) noexcept = default;
  Error& operator=(const Error&) noexcept = default;

  ErrorKind Kind() const noexcept { return details_->kind; }
  ExceptionClass Class() const noexcept { return details_->exception_class; }
  /// The message alone, in CNTK's words where CNTK reports the same error.
  const std::string& Message() const noexcept { return details_->message; }
  /// Details: what was found, what was expected, what to do. May be empty.
  const std::string& Detail() const noexcept { return details_->detail; }
  /// Path of the data file as written in the configuration, or path of the configuration file.
  const std::optional<std::string>& File() const noexcept { return details_->file; }
  /// Line in the file, or in the text of a configuration without a file, from 1.
  std::optional<std::uint64_t> Line() const noexcept { return details_->line; }
  /// Column in the configuration in characters, from 1.
  std::optional<std::uint64_t> Column() const noexcept { return details_->column; }
  /// Byte offset in the file.
  std::optional<std::uint64_t> Offset() const noexcept { return details_->offset; }
  /// Name of the stream.
  const std::optional<std::string>& Stream() const noexcept { return details_->stream; }
  /// Key of the sequence, as text.
  const std::optional<std::string>& Key() const noexcept { return details_->key; }

 private:
  friend void detail::Throw(cntk_reader_status status, cntk_reader_error* error);

  struct Free {
    void operator()(cntk_reader_error* error) const noexcept { cntk_reader_error_free(error); }
  };

  struct Details {
    ErrorKind kind = ErrorKind::kInternal;
    ExceptionClass exception_class = ExceptionClass::kLogicError;
    std::string message, detail;
    std::optional<std::string> file, stream, key;
    std::optional<std::uint64_t> line, column, offset;
  };

  Error(cntk_reader_status status, const std::unique_ptr<cntk_reader_error, Free>& error)
      : std::runtime_error(cntk_reader_error_get_text(error.get())), details_(std::make_shared<Details>()) {
    details_->kind = static_cast<ErrorKind>(status);
    cntk_reader_error_info info = {};
    info.struct_size = sizeof info;
    if (cntk_reader_error_describe(error.get(), &info) != CNTK_READER_STATUS_OK) return;
    const auto optional = [](const char* text) {
      return text ? std::optional<std::string>(text) : std::nullopt;
    };
    details_->exception_class = static_cast<ExceptionClass>(info.exception);
    details_->message = info.message;
    details_->detail = info.detail;
    details_->file = optional(info.file);
    details_->stream = optional(info.stream);
    details_->key = optional(info.key);
    if (info.line != 0) details_->line = info.line;
    if (info.column != 0) details_->column = info.column;
    if (info.offset != CNTK_READER_UNKNOWN) details_->offset = info.offset;
  }

  std::shared_ptr<Details> details_;  // Shared, because copying an exception must not throw.
};

namespace detail {

/// Throws the error of a failed call, and frees the error object. NULL throws an error with the
/// kind only.
[[noreturn]] inline void Throw(cntk_reader_status status, cntk_reader_error* error) {
  throw Error(status, std::unique_ptr<cntk_reader_error, Error::Free>(error));
}

/// Calls a function of the C interface, whose last parameter is the place for an error, and throws
/// if it fails.
template <typename Function, typename... Arguments>
void Call(Function function, Arguments... arguments) {
  cntk_reader_error* error = nullptr;
  const cntk_reader_status status = function(arguments..., &error);
  if (status != CNTK_READER_STATUS_OK) Throw(status, error);
}

/// Tells whether an object was moved from: a member of classes whose moved-from objects would
/// otherwise use views or handles that they no longer own.
class MovedFrom {
 public:
  MovedFrom() noexcept = default;
  MovedFrom(const MovedFrom&) noexcept = default;
  MovedFrom(MovedFrom&& other) noexcept : is_(std::exchange(other.is_, true)) {}
  MovedFrom& operator=(const MovedFrom&) noexcept = default;
  MovedFrom& operator=(MovedFrom&& other) noexcept {
    is_ = std::exchange(other.is_, true);  // False after an assignment to itself.
    return *this;
  }
  ~MovedFrom() = default;

  /// Throws if the object was moved from. `what` is its class.
  void Check(const char* what) const {
    if (is_) Refuse(what);
  }

  [[noreturn]] static void Refuse(const char* what) {
    throw Error(ErrorKind::kInvalidArgument, std::string("This ") + what +
                                                 " was moved from, so it is empty. Use the object that it "
                                                 "was moved to, or assign another one.");
  }

 private:
  bool is_ = false;
};

/// Returns a zeroed struct of the C interface with its size set.
template <typename Struct>
Struct Sized() {
  Struct value = {};
  value.struct_size = sizeof value;
  return value;
}

}  // namespace detail

}  // namespace reader
}  // namespace cntk

#endif  // CNTK_READER_ERROR_HPP
