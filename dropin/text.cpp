#include "text.hpp"

namespace cntk_dropin {
namespace {

constexpr char32_t kReplacement = 0xfffd;

bool is_character(char32_t c) { return c < 0xd800 || (c > 0xdfff && c < 0x110000); }

// Removes and returns the first character.
char32_t take(std::string_view& text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  const size_t length = lead < 0x80   ? 1
                        : lead < 0xc2 ? 0
                        : lead < 0xe0 ? 2
                        : lead < 0xf0 ? 3
                        : lead < 0xf5 ? 4
                                      : 0;
  char32_t c = length < 2 ? lead : lead & (0x7fu >> length);
  size_t used = 1;
  for (; used < length && used < text.size() && (byte(used) & 0xc0) == 0x80; ++used) {
    c = (c << 6) | (byte(used) & 0x3f);
  }
  text.remove_prefix(used);
  constexpr char32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  return length == used && c >= kLeast[length] && is_character(c) ? c : kReplacement;
}

void append(std::string& out, char32_t c) {
  const auto put = [&](char32_t bits) { out.push_back(static_cast<char>(bits)); };
  if (c < 0x80) return put(c);
  if (c < 0x800) {
    put(0xc0 | (c >> 6));
  } else if (c < 0x10000) {
    put(0xe0 | (c >> 12));
    put(0x80 | ((c >> 6) & 0x3f));
  } else {
    put(0xf0 | (c >> 18));
    put(0x80 | ((c >> 12) & 0x3f));
    put(0x80 | ((c >> 6) & 0x3f));
  }
  put(0x80 | (c & 0x3f));
}

}  // namespace

std::wstring widen(std::string_view text) {
  std::wstring out;
  out.reserve(text.size());
  while (!text.empty()) out.push_back(static_cast<wchar_t>(take(text)));
  return out;
}

std::string narrow(std::wstring_view text) {
  std::string out;
  out.reserve(text.size());
  for (const wchar_t c : text) {
    const auto character = static_cast<char32_t>(c);
    append(out, is_character(character) ? character : kReplacement);
  }
  return out;
}

}  // namespace cntk_dropin
