// Writes a reader's results as JSON, in the format of the recorded cases (tests/golden/README.md).
//
// The drivers fill in the plain structs below, one from this library and one from CNTK's native
// interface, so that equal results produce byte-identical lines.

#ifndef CNTK_READER_CPP_TESTS_JSON_HPP
#define CNTK_READER_CPP_TESTS_JSON_HPP

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace json {

// A stream of a reader.
struct Stream {
  std::string name;
  std::size_t id = 0;
  bool sparse = false;
  bool is_double = false;
  std::vector<std::size_t> shape;
  bool defines_mb_size = false;
  bool is_binary = false;
};

constexpr std::uint64_t kGap = UINT64_MAX;  // the sequence of a record for columns without data

// A record of a minibatch's layout: a sequence in a lane, or a gap.
struct Record {
  std::uint64_t sequence = 0;
  std::uint64_t lane = 0;
  std::int64_t begin = 0;
  std::uint64_t end = 0;
};

// One stream of a minibatch. The arrays are not copied.
struct StreamMinibatch {
  std::size_t steps = 0;
  std::size_t lanes = 0;
  std::vector<Record> records;
  std::vector<std::string> keys;  // of the records that are not gaps, in their order
  std::vector<std::size_t> shape;
  bool sparse = false;
  bool is_double = false;
  bool is_binary = false;
  const void* values = nullptr;  // dense: all columns; sparse: `nonzeros` values
  std::size_t nonzeros = 0;
  const std::int32_t* indices = nullptr;         // `nonzeros` indices
  const std::int32_t* column_offsets = nullptr;  // columns + 1 offsets

  std::size_t Columns() const { return steps * lanes; }

  // Returns for each column whether it belongs to a sequence.
  std::vector<bool> Filled() const {
    std::vector<bool> filled(Columns());
    for (const Record& record : records) {
      if (record.sequence == kGap) continue;
      for (std::size_t step = record.begin < 0 ? 0 : static_cast<std::size_t>(record.begin);
           step < record.end && step < steps; ++step)
        filled[step * lanes + record.lane] = true;
    }
    return filled;
  }

  // Returns the number of samples without gaps. Sequences do not overlap.
  std::size_t Samples() const {
    std::size_t count = 0;
    for (const Record& record : records) {
      if (record.sequence == kGap) continue;
      const std::size_t begin = record.begin < 0 ? 0 : static_cast<std::size_t>(record.begin);
      const std::size_t end = record.end < steps ? record.end : steps;
      if (begin < end) count += end - begin;
    }
    return count;
  }

  std::size_t ValueSize() const { return is_double ? sizeof(double) : sizeof(float); }

  // Returns the size of the data: all columns, or the values with their indices and column offsets.
  std::size_t Bytes() const {
    if (sparse) return nonzeros * (ValueSize() + sizeof *indices) + (Columns() + 1) * sizeof *column_offsets;
    std::size_t size = ValueSize();
    for (const std::size_t dimension : shape) size *= dimension;
    return Columns() * size;
  }
};

struct Minibatch {
  bool end_of_sweep = false;
  bool end_of_epoch = false;
  std::vector<StreamMinibatch> streams;
};

inline std::string Text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      (out += '\\') += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(c));
      out += escape;
    } else {
      out += c;
    }
  }
  return out += '"';
}

inline std::string Bool(bool value) { return value ? "true" : "false"; }

// Prints enough digits to restore the number's bits.
template <typename T>
std::string Number(T value) {
  if (std::isnan(value)) return "\"nan\"";
  if (std::isinf(value)) return value > 0 ? "\"inf\"" : "\"-inf\"";
  char digits[40];
  std::snprintf(digits, sizeof digits, sizeof(T) == sizeof(float) ? "%.9g" : "%.17g",
                static_cast<double>(value));
  return digits;
}

// An array of `count` elements, each with the text `element(i)`.
template <typename Element>
std::string Array(std::size_t count, Element element) {
  std::string out = "[";
  for (std::size_t i = 0; i < count; ++i) {
    if (i != 0) out += ',';
    out += element(i);
  }
  return out += ']';
}

template <typename T>
std::string Integers(const T* values, std::size_t count) {
  return Array(count, [&](std::size_t i) { return std::to_string(values[i]); });
}

template <typename T>
std::string Numbers(const T* values, std::size_t count) {
  return Array(count, [&](std::size_t i) { return Number(values[i]); });
}

inline std::string Describe(const Stream& stream) {
  return "{\"name\":" + Text(stream.name) + ",\"id\":" + std::to_string(stream.id) +
         ",\"storage\":" + (stream.sparse ? "\"sparse_csc\"" : "\"dense\"") +
         ",\"element\":" + (stream.is_double ? "\"double\"" : "\"float\"") +
         ",\"shape\":" + Integers(stream.shape.data(), stream.shape.size()) +
         ",\"defines_mb_size\":" + Bool(stream.defines_mb_size) + ",\"is_binary\":" + Bool(stream.is_binary) +
         "}";
}

inline std::string Describe(const std::vector<Stream>& streams) {
  return "{\"streams\":" + Array(streams.size(), [&](std::size_t i) { return Describe(streams[i]); }) + "}";
}

// The words of each sequence of a binary stream, whose lanes are contiguous.
inline std::string Sequences(const StreamMinibatch& part) {
  std::string out;
  for (const Record& record : part.records) {
    if (record.sequence == kGap) continue;
    std::vector<std::uint32_t> words(record.end < part.steps ? record.end : part.steps);
    const char* lane = static_cast<const char*>(part.values) + record.lane * part.steps * sizeof words[0];
    std::memcpy(words.data(), lane, words.size() * sizeof words[0]);
    out += (out.empty() ? "" : ",") + Integers(words.data(), words.size());
  }
  return "[" + out + "]";
}

template <typename T>
std::string Values(const StreamMinibatch& part) {
  const T* values = static_cast<const T*>(part.values);
  if (part.sparse)
    return "\"nnz\":" + std::to_string(part.nonzeros) + ",\"values\":" + Numbers(values, part.nonzeros) +
           ",\"rows\":" + Integers(part.indices, part.nonzeros) +
           ",\"cols\":" + Integers(part.column_offsets, part.Columns() + 1);
  if (part.is_binary) return "\"binary\":" + Sequences(part);
  std::size_t size = 1;
  for (const std::size_t dimension : part.shape) size *= dimension;
  const std::vector<bool> filled = part.Filled();
  return "\"dense\":" + Array(filled.size(), [&](std::size_t column) {
           return filled[column] ? Numbers(values + column * size, size) : "null";
         });
}

inline std::string Describe(const StreamMinibatch& part) {
  const auto record = [&](std::size_t i) {
    const Record& r = part.records[i];
    return "[" + (r.sequence == kGap ? "-1" : std::to_string(r.sequence)) + "," + std::to_string(r.lane) +
           "," + std::to_string(r.begin) + "," + std::to_string(r.end) + "]";
  };
  return "{\"num_time_steps\":" + std::to_string(part.steps) +
         ",\"num_parallel\":" + std::to_string(part.lanes) +
         ",\"sequences\":" + Array(part.records.size(), record) +
         ",\"keys\":" + Array(part.keys.size(), [&](std::size_t i) { return Text(part.keys[i]); }) +
         ",\"shape\":" + Integers(part.shape.data(), part.shape.size()) + "," +
         (part.is_double ? Values<double>(part) : Values<float>(part)) + "}";
}

inline std::string Describe(const Minibatch& minibatch) {
  const std::vector<StreamMinibatch>& streams = minibatch.streams;
  return "{\"end_of_sweep\":" + Bool(minibatch.end_of_sweep) +
         ",\"end_of_epoch\":" + Bool(minibatch.end_of_epoch) +
         ",\"streams\":" + Array(streams.size(), [&](std::size_t i) { return Describe(streams[i]); }) + "}";
}

template <typename State>
std::string DescribeState(const State& state) {
  std::string entries;
  for (const auto& [key, value] : state)
    entries += (entries.empty() ? "" : ",") + Text(key) + ":" + std::to_string(value);
  return "{\"state\":{" + entries + "}}";
}

// `kind` is runtime_error, invalid_argument or logic_error.
inline std::string Error(std::string_view kind) { return "{\"error\":" + Text(kind) + "}"; }

inline std::string Ok() { return "{\"ok\":true}"; }

// Results of the step `bench`.
struct Bench {
  std::size_t minibatches = 0;
  std::size_t samples = 0;
  std::vector<double> sweeps;  // seconds per sweep
  double open = 0;             // seconds to create the reader
  double first = 0;            // seconds from the epoch's start to its first minibatch
};

// The members of an object without braces, so that drivers can add more.
inline std::string Describe(const Bench& bench) {
  return "\"minibatches\":" + std::to_string(bench.minibatches) +
         ",\"samples\":" + std::to_string(bench.samples) +
         ",\"sweeps\":" + Numbers(bench.sweeps.data(), bench.sweeps.size()) +
         ",\"open\":" + Number(bench.open) + ",\"first\":" + Number(bench.first);
}

// The lines of output: the result of creation, and each step of the script with its result.
inline void PrintCreate(const std::string& result) {
  std::printf("{\"create\":%s}\n", result.c_str());
  std::fflush(stdout);
}

inline void PrintStep(std::string_view step, const std::string& result) {
  std::printf("{\"op\":%s,\"result\":%s}\n", Text(step).c_str(), result.c_str());
  std::fflush(stdout);
}

}  // namespace json

#endif  // CNTK_READER_CPP_TESTS_JSON_HPP
