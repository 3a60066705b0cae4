// Shared by the drivers of CNTK's native interfaces: the host's libraries, configurations and
// exceptions. Contains definitions: include it in only one source file of a program.

#ifndef CNTK_READER_CPP_TESTS_HOST_HPP
#define CNTK_READER_CPP_TESTS_HOST_HPP

#include <dlfcn.h>

#include <codecvt>
#include <fstream>
#include <iterator>
#include <locale>
#include <stdexcept>
#include <string>

#include "../dropin/host_types.hpp"

// Replaces the C library's function. CNTK's modules pause for a second after each failed attempt to
// read a file. The data do not change meanwhile, and malformed data must not slow down a
// comparison.
extern "C" __attribute__((visibility("default"))) unsigned sleep(unsigned) { return 0; }

namespace driver {

inline std::string narrow(const std::wstring& text) {
  return std::wstring_convert<std::codecvt_utf8<wchar_t>>().to_bytes(text);
}

inline std::wstring wide(const std::string& text) {
  return std::wstring_convert<std::codecvt_utf8<wchar_t>>().from_bytes(text);
}

template <typename Function>
Function* symbol(void* library, const char* name) {
  void* address = dlsym(library, name);
  if (address == nullptr) throw std::runtime_error(std::string("no symbol ") + name + ": " + dlerror());
  return reinterpret_cast<Function*>(address);
}

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot open " + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Returns the kind of an exception as the recorded cases name it. CNTK's own exceptions derive from
// these.
inline std::string kind_of(const std::exception& error) {
  if (dynamic_cast<const std::invalid_argument*>(&error)) return "invalid_argument";
  if (dynamic_cast<const std::logic_error*>(&error)) return "logic_error";
  return "runtime_error";
}

// Fills in a section from a file with the host's parser (in its libCntk.Math), as CNTK's API does.
// `@DIR@` in the text stands for the file's folder.
inline void parse(void* math, const std::string& path, cntk_host::ConfigParameters& config) {
  std::string text = read_file(path);
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash);
  for (size_t at = 0; (at = text.find("@DIR@", at)) != std::string::npos;) text.replace(at, 5, folder);
  config.vtable = symbol<char>(math, "_ZTVN9Microsoft3MSR4CNTK16ConfigParametersE") + 16;
  constexpr const char* kParse = cntk_host::kHasOldStrings
                                     ? "_ZN9Microsoft3MSR4CNTK12ConfigParser5ParseERKSsm"
                                     : "_ZN9Microsoft3MSR4CNTK12ConfigParser5ParseERKNSt7__cxx1112basic_"
                                       "stringIcSt11char_traitsIcESaIcEEEm";
  auto parser = symbol<void(cntk_host::ConfigParameters*, const std::string&, size_t)>(math, kParse);
  parser(&config, text, 0);
}

}  // namespace driver

#endif  // CNTK_READER_CPP_TESTS_HOST_HPP
