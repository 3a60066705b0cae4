// Wide strings of the hosts (UTF-32) and narrow ones of the engine (UTF-8).
#pragma once

#include <string>
#include <string_view>

namespace cntk_dropin {

// Invalid characters become U+FFFD.
std::wstring widen(std::string_view text);
std::string narrow(std::wstring_view text);

}  // namespace cntk_dropin
