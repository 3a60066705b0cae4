// Process-wide settings: threads, log, version.
//
// Part of <cntk_reader.hpp>; include that.

#ifndef CNTK_READER_PROCESS_HPP
#define CNTK_READER_PROCESS_HPP

#include <cntk_reader.h>

#include <cntk_reader/callback.hpp>
#include <cntk_reader/error.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

namespace cntk {
namespace reader {

enum class LogLevel {
  kError = CNTK_READER_LOG_LEVEL_ERROR,
  kWarning = CNTK_READER_LOG_LEVEL_WARNING,
  kInfo = CNTK_READER_LOG_LEVEL_INFO,
};

/// Sets the number of loading threads for readers opened from now on; 0 restores the default.
inline void SetThreads(std::size_t threads) { detail::Call(cntk_reader_threads_set, threads); }

/// Returns the number of loading threads that a reader opened now would use.
inline std::size_t GetThreads() {
  std::size_t threads = 0;
  detail::Call(cntk_reader_threads_get, &threads);
  return threads;
}

/// Receives log lines, on any thread and on several at once. Exceptions that it throws are dropped.
using LogCallback = std::function<void(LogLevel level, std::string_view line)>;

/// Sends the log lines of all readers to a callback; an empty one restores standard error.
inline void SetLogCallback(LogCallback callback) {
  if (!callback) return detail::Call(cntk_reader_log_set_callback, nullptr, nullptr, nullptr);
  auto owned = std::make_unique<LogCallback>(std::move(callback));
  detail::Call(cntk_reader_log_set_callback, static_cast<void*>(owned.get()),
               detail::Callback(+[](void* userdata, cntk_reader_log_level level, const char* line,
                                    std::size_t length) noexcept {
                 detail::RunQuietly([&] {
                   (*static_cast<LogCallback*>(userdata))(static_cast<LogLevel>(level),
                                                          std::string_view(line, length));
                 });
               }),
               detail::Callback(detail::Delete<LogCallback>));
  owned.release();
}

/// Returns the version of the library that the program runs with, such as "0.1.0".
inline const char* Version() noexcept { return cntk_reader_version_get_text(); }

}  // namespace reader
}  // namespace cntk

#endif  // CNTK_READER_PROCESS_HPP
