// The functions of the host's libCntk.Math that this project's modules use, under their mangled
// names.
#pragma once

#include "host_types.hpp"

namespace cntk_host::math {

constexpr int kCpu = -1;

// ---- Matrix<float> and Matrix<char>: opaque bytes

void construct_floats(void* matrix, int device) __asm__("_ZN9Microsoft3MSR4CNTK6MatrixIfEC1Ei");
void destroy_floats(void* matrix) __asm__("_ZN9Microsoft3MSR4CNTK6MatrixIfED1Ev");
#if CNTK_DROPIN_HOST >= 20400
void resize_floats(void* matrix, size_t rows, size_t columns, size_t reserve, bool grow_only,
                   bool keep = false) __asm__("_ZN9Microsoft3MSR4CNTK6MatrixIfE6ResizeEmmmbb");
#else
void resize_floats(void* matrix, size_t rows, size_t columns, size_t reserve,
                   bool grow_only) __asm__("_ZN9Microsoft3MSR4CNTK6MatrixIfE6ResizeEmmmb");
#endif
float* floats_of(const void* matrix) __asm__("_ZNK9Microsoft3MSR4CNTK6MatrixIfE4DataEv");

void construct_chars(void* matrix, int device) __asm__("_ZN9Microsoft3MSR4CNTK6MatrixIcEC1Ei");
void destroy_chars(void* matrix) __asm__("_ZN9Microsoft3MSR4CNTK6MatrixIcED1Ev");

// ---- Modules

// Loads a module and finds a function in it. `plugin` is the address of a null pointer. With
// `is_known`, `module` may also be an alias that only the host knows. For hosts from 2.0 on.
#if _GLIBCXX_USE_CXX11_ABI
void* load_plugin(const void* plugin, const std::string& module, const std::string& symbol, bool is_known) __asm__(
    "_ZN9Microsoft3MSR4CNTK6Plugin12LoadInternalERKNSt7__cxx1112basic_"
    "stringIcSt11char_traitsIcESaIcEEESA_b");
#else
void* load_plugin(const void* plugin, const std::string& module, const std::string& symbol,
                  bool is_known) __asm__("_ZN9Microsoft3MSR4CNTK6Plugin12LoadInternalERKSsS4_b");
#endif

// The virtual table of ConfigParameters.
extern const void* const config_parameters_table[] __asm__("_ZTVN9Microsoft3MSR4CNTK16ConfigParametersE");

// ---- Page-locked memory

void* lock_pages(size_t bytes,
                 int device) __asm__("_ZN9Microsoft3MSR4CNTK26CUDAPageLockedMemAllocator6MallocEmi");
void unlock_pages(void* memory,
                  int device) __asm__("_ZN9Microsoft3MSR4CNTK26CUDAPageLockedMemAllocator4FreeEPvi");

// ---- ReaderShim<float|double>: an IDataReader over a Reader

using CreateReader = std::shared_ptr<Reader>(const ConfigParameters&);
#if CNTK_DROPIN_HOST >= 20100
#define CNTK_DROPIN_SHIM(letter) \
  "_ZN4CNTK10ReaderShimI" letter \
  "EC1EPFSt10shared_ptrINS_"     \
  "6ReaderEERKN9Microsoft3MSR4CNTK16ConfigParametersEE"
#else
#define CNTK_DROPIN_SHIM(letter)               \
  "_ZN9Microsoft3MSR4CNTK10ReaderShimI" letter \
  "EC1EPFSt10shared_ptrINS1_6ReaderEERKNS1_"   \
  "16ConfigParametersEE"
#endif
void construct_shim_float(void* shim, CreateReader* create) __asm__(CNTK_DROPIN_SHIM("f"));
void construct_shim_double(void* shim, CreateReader* create) __asm__(CNTK_DROPIN_SHIM("d"));
#undef CNTK_DROPIN_SHIM

// Matrices on the CPU that their owner destroys.
class FloatMatrix {
 public:
  FloatMatrix() { construct_floats(bytes_, kCpu); }
  ~FloatMatrix() { destroy_floats(bytes_); }
  FloatMatrix(const FloatMatrix&) = delete;
  FloatMatrix& operator=(const FloatMatrix&) = delete;

  // Resizes the matrix and returns its values, column-major, with unspecified contents.
  float* resize(size_t rows, size_t columns) {
    resize_floats(bytes_, rows, columns, 10000, true);
    return floats_of(bytes_);
  }

  const float* values() const { return floats_of(bytes_); }

 private:
  alignas(8) unsigned char bytes_[kMatrixSize] = {};
};

class CharMatrix {
 public:
  CharMatrix() { construct_chars(bytes_, kCpu); }
  ~CharMatrix() { destroy_chars(bytes_); }
  CharMatrix(const CharMatrix&) = delete;
  CharMatrix& operator=(const CharMatrix&) = delete;

 private:
  alignas(8) unsigned char bytes_[kMatrixSize] = {};
};

}  // namespace cntk_host::math
