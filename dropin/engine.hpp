// The engine's C interface with owning handles, and with errors as exceptions.
#pragma once

#include <cntk_reader_host.h>

#include <memory>
#include <string_view>

#include "host_types.hpp"

namespace cntk_dropin {

// Throws the error of a failed call, and frees it. If an exception of a module caused the error,
// that exception is rethrown; otherwise the type that CNTK throws. The text is CNTK's wherever CNTK
// has one; additional information (file, line, offset, stream, sequence, what to do) is written to
// the log.
//
// CNTK's old-style readers begin errors in files with the reader's name, `old_style_reader`; null
// for other readers.
[[noreturn]] void raise(cntk_reader_error* error, const char* old_style_reader = nullptr);

// Calls a function of the engine whose last parameter is the place for its error.
template <typename Function, typename... Arguments>
void call(Function* function, Arguments... arguments) {
  cntk_reader_error* error = nullptr;
  if (function(arguments..., &error) != CNTK_READER_STATUS_OK) raise(error);
}

template <auto function>
struct Free {
  template <typename T>
  void operator()(T* handle) const noexcept {
    function(handle);
  }
};

using ReaderHandle = std::unique_ptr<cntk_reader, Free<cntk_reader_free>>;
using SectionHandle = std::unique_ptr<cntk_reader_section, Free<cntk_reader_section_free>>;
using DeserializerHandle = std::unique_ptr<cntk_reader_deserializer, Free<cntk_reader_deserializer_free>>;
using ChunkHandle = std::unique_ptr<cntk_reader_chunk, Free<cntk_reader_chunk_free>>;
using DecodedHandle = std::unique_ptr<cntk_reader_decoded, Free<cntk_reader_decoded_free>>;
using FetchedHandle = std::unique_ptr<cntk_reader_fetched, Free<cntk_reader_fetched_free>>;
using TransformHandle = std::unique_ptr<cntk_reader_transform, Free<cntk_reader_transform_free>>;
using TransformedHandle = std::unique_ptr<cntk_reader_transformed, Free<cntk_reader_transformed_free>>;
using MinibatchHandle = std::unique_ptr<const cntk_reader_minibatch, Free<cntk_reader_minibatch_release>>;

// Returns the source of a reader for this host.
cntk_reader_host_source source_of(const cntk_reader_section* section, cntk_reader_section_kind kind);

// Copies a host's section, with its enclosing sections, for the engine.
SectionHandle make_section(const cntk_host::ConfigParameters& config);

// Returns the value of a Boolean key.
bool flag(const cntk_reader_section* section, std::string_view key, bool otherwise);

// Returns whether the shape depends on the data.
inline bool is_unknown(const cntk_host::Shape& shape) {
  return shape.dimensions.size() == 1 && shape.dimensions[0] == CNTK_READER_UNKNOWN_DIMENSION;
}

// Describes a stream for the host.
cntk_host::StreamInformation describe(const cntk_reader_stream_info& info);

}  // namespace cntk_dropin
