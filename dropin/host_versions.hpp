// What differs between the versions of the host: the configurations that it passes to a reader.
//
// A module is compiled for one version, which CNTK_DROPIN_HOST names: 20501, 20600 or 20700.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace cntk_host {

// CNTK 2.6 and 2.7.
struct ReaderConfiguration {
  size_t workers = 1;
  size_t rank = 0;
  size_t minibatch = 0;
  size_t truncation = 0;
  size_t right_splice = 0;
  size_t max_errors = 0;
  bool cross_sweeps = false;
};
static_assert(sizeof(ReaderConfiguration) == 56 && offsetof(ReaderConfiguration, cross_sweeps) == 48);

struct EpochConfiguration : ReaderConfiguration {
  size_t samples = 0;
  size_t sweeps = SIZE_MAX;
  size_t index = 0;
};
static_assert(sizeof(EpochConfiguration) == 80);

// CNTK 2.5.1: without right splice and maximal number of errors.
struct ReaderConfiguration251 {
  size_t workers = 1;
  size_t rank = 0;
  size_t minibatch = 0;
  size_t truncation = 0;
  bool cross_sweeps = false;
};
static_assert(sizeof(ReaderConfiguration251) == 40 && offsetof(ReaderConfiguration251, cross_sweeps) == 32);

struct EpochConfiguration251 : ReaderConfiguration251 {
  size_t samples = 0;
  size_t sweeps = SIZE_MAX;
  size_t index = 0;
};
static_assert(sizeof(EpochConfiguration251) == 64);

#ifdef CNTK_DROPIN_HOST
static_assert(CNTK_DROPIN_HOST == 20501 || CNTK_DROPIN_HOST == 20600 || CNTK_DROPIN_HOST == 20700);
constexpr bool kHasRightSplice = CNTK_DROPIN_HOST >= 20600;
using OwnReaderConfiguration =
    std::conditional_t<kHasRightSplice, ReaderConfiguration, ReaderConfiguration251>;
using OwnEpochConfiguration = std::conditional_t<kHasRightSplice, EpochConfiguration, EpochConfiguration251>;
#endif

}  // namespace cntk_host
