// Names that today's compilers and C libraries use and that the oldest supported systems (glibc 2.17,
// libstdc++ of GCC 5) lack, under definitions that only this module sees. `cargo xtask` binds all other names
// to versions that those systems have.

#include <exception>
#include <new>

extern "C" {
// The older C library's names of the functions below; `version` is 1, that of the struct on x86-64.
int __xstat64(int version, const char* path, void* out);
int __fxstat64(int version, int file, void* out);
int __lxstat64(int version, const char* path, void* out);
int __fxstatat64(int version, int folder, const char* path, void* out, int flags);

int stat64(const char* path, void* out) { return __xstat64(1, path, out); }
int fstat64(int file, void* out) { return __fxstat64(1, file, out); }
int lstat64(const char* path, void* out) { return __lxstat64(1, path, out); }
int fstatat64(int folder, const char* path, void* out, int flags) {
  return __fxstatat64(1, folder, path, out, flags);
}

// Whether reference counts need no atomic operations. Always 0: they are counted atomically.
char __libc_single_threaded = 0;

[[noreturn]] void __cxa_call_terminate(void*) { std::terminate(); }
}

namespace std {
[[noreturn]] void __throw_bad_array_new_length() { throw std::bad_array_new_length(); }
}  // namespace std
