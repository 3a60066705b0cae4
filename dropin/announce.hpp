// The log line that tells which module reads.
#pragma once

#include <cntk_reader.h>

#include "host_types.hpp"

#ifndef CNTK_DROPIN_SERVES
#define CNTK_DROPIN_SERVES "2.7"
#endif

#define CNTK_DROPIN_TEXT_OF(macro) #macro
#define CNTK_DROPIN_TEXT(macro) CNTK_DROPIN_TEXT_OF(macro)
#define CNTK_DROPIN_VERSION                   \
  CNTK_DROPIN_TEXT(CNTK_READER_VERSION_MAJOR) \
  "." CNTK_DROPIN_TEXT(CNTK_READER_VERSION_MINOR) "." CNTK_DROPIN_TEXT(CNTK_READER_VERSION_PATCH)

#if CNTK_DROPIN_HOST < 20000
#define CNTK_DROPIN_FILE(stem, beta) beta ".so"
#else
#define CNTK_DROPIN_FILE(stem, beta) stem "-" CNTK_DROPIN_SERVES ".so"
#endif

// The line of a module with this file name. The script cntk-reader-dropin recognizes modules by it.
#define CNTK_DROPIN_LINE(stem, beta) \
  "cntk-reader " CNTK_DROPIN_VERSION \
  " reads in place of " CNTK_DROPIN_FILE(stem, beta) " (serves CNTK " CNTK_DROPIN_SERVES ")"

namespace cntk_dropin {

// The module's line. Each module defines this constant.
extern const char kLine[];

// Writes the line with the module's path to standard error, once in a process, unless `traceLevel`
// is 0 in the section or those around it.
void announce(const cntk_host::ConfigParameters& config) noexcept;

}  // namespace cntk_dropin
