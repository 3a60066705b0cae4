// Definitions, local to the module, of names that current compilers and C libraries use and that
// the oldest supported systems (glibc 2.17, libstdc++ of GCC 5) lack. `cargo xtask` binds all other
// names to versions that those systems have.

#include <exception>
#include <new>
#if !_GLIBCXX_USE_CXX11_ABI
#include <cstdarg>
#include <cstdio>
#include <stdexcept>
#include <string>
#endif

extern "C" {
// The older C library's names of the functions below, with the version of the struct.
#if defined(__x86_64__)
constexpr int kStat = 1;
#else
constexpr int kStat = 0;
#endif
int __xstat64(int version, const char* path, void* out);
int __fxstat64(int version, int file, void* out);
int __lxstat64(int version, const char* path, void* out);
int __fxstatat64(int version, int folder, const char* path, void* out, int flags);

int stat64(const char* path, void* out) { return __xstat64(kStat, path, out); }
int fstat64(int file, void* out) { return __fxstat64(kStat, file, out); }
int lstat64(const char* path, void* out) { return __lxstat64(kStat, path, out); }
int fstatat64(int folder, const char* path, void* out, int flags) {
  return __fxstatat64(kStat, folder, path, out, flags);
}

// Whether reference counts need no atomic operations. Always 0: they are counted atomically.
char __libc_single_threaded = 0;

[[noreturn]] void __cxa_call_terminate(void*) { std::terminate(); }
}

namespace std {
[[noreturn]] void __throw_bad_array_new_length() {
#if _GLIBCXX_USE_CXX11_ABI
  throw std::bad_array_new_length();
#else
  // The libstdc++ of GCC 4.8 lacks the class, which derives from this one.
  throw std::bad_alloc();
#endif
}
}  // namespace std

#if !_GLIBCXX_USE_CXX11_ABI
// The libstdc++ of GCC 4.8 only constructs exceptions from std::string, not from char pointers.
void construct_runtime_error(void* at, const char* text) __asm__("_ZNSt13runtime_errorC1EPKc");
void construct_logic_error(void* at, const char* text) __asm__("_ZNSt11logic_errorC1EPKc");

void construct_runtime_error(void* at, const char* text) { new (at) std::runtime_error(std::string(text)); }
void construct_logic_error(void* at, const char* text) { new (at) std::logic_error(std::string(text)); }

namespace std {
[[noreturn]] void __throw_out_of_range_fmt(const char* format, ...) {
  char text[256];
  va_list values;
  va_start(values, format);
  std::vsnprintf(text, sizeof text, format, values);
  va_end(values);
  throw std::out_of_range(std::string(text));
}
}  // namespace std
#endif
