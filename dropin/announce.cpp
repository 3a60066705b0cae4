#include "announce.hpp"

#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace cntk_dropin {
namespace {

// Returns whether `traceLevel` is 0. The default is 1, and hosts take negative values as large
// ones.
bool is_silent(const cntk_host::ConfigParameters* section) {
  for (; section != nullptr; section = section->parent) {
    const auto found = section->values.find("traceLevel");
    if (found == section->values.end()) continue;
    const char* const text = found->second.text.c_str();
    char* end = nullptr;
    const long level = std::strtol(text, &end, 10);
    return end != text && level == 0;
  }
  return false;
}

}  // namespace

void announce(const cntk_host::ConfigParameters& config) noexcept {
  static std::atomic<bool> announced{false};
  if (is_silent(&config) || announced.exchange(true)) return;
  Dl_info own = {};
  const bool known = dladdr(kLine, &own) != 0 && own.dli_fname != nullptr;
  std::fprintf(stderr, "INFO: %s: %s\n", kLine, known ? own.dli_fname : "path unknown");
}

}  // namespace cntk_dropin
