// Differences between the versions of the host.
//
// A module is compiled for one version, set by CNTK_DROPIN_HOST: 19900 for CNTK 2.0 beta 12 and
// beta 15, 20000 for 2.0 rc3 and 2.0, 20100 for 2.1, 20200 for 2.2, 2.3 and 2.3.1, 20400 for 2.4,
// 20500 for 2.5 and 2.5.1, 20600 and 20700. Programs that are hosts themselves leave it unset.
//
// Strings are those of the compiler that built the host, selected by _GLIBCXX_USE_CXX11_ABI: GCC
// 4.8 for the releases up to 2.3.1; GCC 5 for later ones, and for rebuilds of older ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#ifndef CNTK_DROPIN_HOST
#define CNTK_DROPIN_HOST 20700
#endif
static_assert(CNTK_DROPIN_HOST == 19900 || CNTK_DROPIN_HOST == 20000 || CNTK_DROPIN_HOST == 20100 ||
              CNTK_DROPIN_HOST == 20200 || CNTK_DROPIN_HOST == 20400 || CNTK_DROPIN_HOST == 20500 ||
              CNTK_DROPIN_HOST == 20600 || CNTK_DROPIN_HOST == 20700);

namespace cntk_host {

// Truncated sequences with samples of the next one.
constexpr bool kHasRightSplice = CNTK_DROPIN_HOST >= 20600;
// The data of a sequence may hold a buffer.
constexpr bool kHasHeldBuffer = CNTK_DROPIN_HOST >= 20500;
// Streams of opaque bytes.
constexpr bool kHasBinaryStreams = CNTK_DROPIN_HOST >= 20400;
// Minibatches have the shape of each stream's samples.
constexpr bool kHasSampleShape = CNTK_DROPIN_HOST >= 20200;
// Readers have states of several numbers; before, a single number, the position in samples. Streams
// have shapes that are lists; before, tensor shapes. Deserializers and transforms of the host's
// other modules can be used.
constexpr bool kHasStates = CNTK_DROPIN_HOST >= 20100;
// An epoch may be counted in sweeps.
constexpr bool kHasSweeps = CNTK_DROPIN_HOST >= 20000;
// Streams say whether they define the minibatch size.
constexpr bool kHasDefinesMbSize = CNTK_DROPIN_HOST >= 20000;

// The copy-on-write strings of libstdc++ before GCC 5.
constexpr bool kHasOldStrings = !_GLIBCXX_USE_CXX11_ABI;
constexpr size_t kStringSize = kHasOldStrings ? 8 : 32;

// The base class of matrices is larger from 2.4 on.
constexpr size_t kMatrixSize = CNTK_DROPIN_HOST >= 20400 ? 136 : 120;

// Minibatches end where the epoch does, and workers count sequences of all workers.
constexpr bool kIsBeta = CNTK_DROPIN_HOST < 20000;

// A configuration key that has a meaning from some version of the host on.
struct LaterKey {
  const char* name;
  int since;
};
// Earlier versions ignore the key. (Before 2.0 rc3 the random order depends on the sweep alone.)
constexpr LaterKey kLaterKeys[] = {
    {"rightSplice", 20600}, {"randomizationSeed", 20000}, {"hashSequenceKeys", 20000}};

// Stands for a member that this version of the host lacks: takes no memory, ignores assignments,
// and has the type's default value.
template <typename T>
struct Absent {
  Absent() = default;
  Absent& operator=(const T&) { return *this; }
  operator T() const { return T(); }
};

template <bool present, typename T>
using MemberIf = std::conditional_t<present, T, Absent<T>>;

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

// CNTK 2.5.1 and older: without right splice and maximum number of errors.
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

// The betas of CNTK 2.0: without sweeps.
struct EpochConfigurationBeta : ReaderConfiguration251 {
  size_t samples = 0;
  size_t index = 0;
};
static_assert(sizeof(EpochConfigurationBeta) == 56);

using OwnReaderConfiguration =
    std::conditional_t<kHasRightSplice, ReaderConfiguration, ReaderConfiguration251>;
using OwnEpochConfiguration =
    std::conditional_t<kHasRightSplice, EpochConfiguration,
                       std::conditional_t<kHasSweeps, EpochConfiguration251, EpochConfigurationBeta>>;

}  // namespace cntk_host
