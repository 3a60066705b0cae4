// Prints what a reader delivers as JSON lines, in the format of the recorded cases (tests/golden/README.md).
// Both drivers share it, so that their outputs can be compared line by line.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace json_lines {

// A stream of the reader.
struct Stream {
  std::string name;
  size_t id = 0;
  bool sparse = false;
  bool is_double = false;
  std::vector<size_t> shape;
  bool defines_mb_size = false;
  bool is_binary = false;

  size_t sample_size() const {
    size_t size = 1;
    for (size_t dimension : shape) size *= dimension;
    return size;
  }
};

// A layout record; a gap has the id UINT64_MAX.
struct Record {
  uint64_t id = 0;
  uint64_t row = 0;
  int64_t begin = 0;
  uint64_t end = 0;
};

// One stream's part of a minibatch. `data` is a dense matrix or a sparse block, both as CNTK lays them out.
struct StreamMinibatch {
  size_t steps = 0;
  size_t rows = 0;
  std::vector<Record> records;
  std::vector<std::string> keys;  // of the records that are no gaps, in their order
  std::vector<size_t> shape;
  const void* data = nullptr;
};

inline std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(c));
      out += code;
    } else {
      out += c;
    }
  }
  return out + '"';
}

inline const char* boolean(bool value) { return value ? "true" : "false"; }

// Digits enough to read the same bits back: 9 for float, 17 for double.
inline std::string number(const void* values, size_t index, bool is_double) {
  double value = 0;
  if (is_double) {
    std::memcpy(&value, static_cast<const char*>(values) + index * sizeof(double), sizeof(double));
  } else {
    float single = 0;
    std::memcpy(&single, static_cast<const char*>(values) + index * sizeof(float), sizeof(float));
    value = static_cast<double>(single);
  }
  if (std::isnan(value)) return "\"nan\"";
  if (std::isinf(value)) return value > 0 ? "\"inf\"" : "\"-inf\"";
  char text[32];
  std::snprintf(text, sizeof text, is_double ? "%.17g" : "%.9g", value);
  return text;
}

// "[a,b,c]" of whatever `item(i)` gives.
template <typename Item>
std::string list(size_t count, Item item) {
  std::string out = "[";
  for (size_t i = 0; i < count; ++i) {
    if (i != 0) out += ',';
    out += item(i);
  }
  return out + "]";
}

inline std::string list(const std::vector<size_t>& values) {
  return list(values.size(), [&](size_t i) { return std::to_string(values[i]); });
}

inline std::string streams(const std::vector<Stream>& all) {
  return "{\"streams\":" +
         list(all.size(),
              [&](size_t i) {
                const Stream& s = all[i];
                return "{\"name\":" + quoted(s.name) + ",\"id\":" + std::to_string(s.id) +
                       ",\"storage\":" + (s.sparse ? "\"sparse_csc\"" : "\"dense\"") +
                       ",\"element\":" + (s.is_double ? "\"double\"" : "\"float\"") +
                       ",\"shape\":" + list(s.shape) + ",\"defines_mb_size\":" + boolean(s.defines_mb_size) +
                       ",\"is_binary\":" + boolean(s.is_binary) + "}";
              }) +
         "}";
}

inline std::string error(const std::string& kind) { return "{\"error\":" + quoted(kind) + "}"; }

inline std::string state(const std::map<std::string, uint64_t>& values) {
  std::string out;
  for (const auto& [key, value] : values)
    out += (out.empty() ? "" : ",") + quoted(key) + ":" + std::to_string(value);
  return "{\"state\":{" + out + "}}";
}

// Columns that belong to a sequence.
inline std::vector<bool> filled_columns(const StreamMinibatch& minibatch) {
  std::vector<bool> filled(minibatch.steps * minibatch.rows, false);
  for (const Record& record : minibatch.records) {
    if (record.id == UINT64_MAX) continue;
    const uint64_t end = record.end < minibatch.steps ? record.end : minibatch.steps;
    for (uint64_t t = record.begin < 0 ? 0 : static_cast<uint64_t>(record.begin); t < end; ++t) {
      filled[t * minibatch.rows + record.row] = true;
    }
  }
  return filled;
}

// Samples with data.
inline size_t sample_count(const StreamMinibatch& minibatch) {
  size_t count = 0;
  for (bool filled : filled_columns(minibatch)) count += filled;
  return count;
}

inline std::string content(const StreamMinibatch& minibatch, const Stream& stream) {
  const size_t columns = minibatch.steps * minibatch.rows;
  if (!stream.sparse) {
    const std::vector<bool> filled = filled_columns(minibatch);
    const size_t size = stream.sample_size();
    return ",\"dense\":" + list(columns, [&](size_t column) -> std::string {
             if (!filled[column]) return "null";
             return list(
                 size, [&](size_t i) { return number(minibatch.data, column * size + i, stream.is_double); });
           });
  }
  uint64_t nnz = 0;
  std::memcpy(&nnz, minibatch.data, sizeof nnz);
  const char* values = static_cast<const char*>(minibatch.data) + sizeof nnz;
  const char* rows = values + nnz * (stream.is_double ? sizeof(double) : sizeof(float));
  const char* starts = rows + nnz * sizeof(int32_t);
  const auto integers = [](const char* from) {
    return [from](size_t i) {
      int32_t value = 0;
      std::memcpy(&value, from + i * sizeof value, sizeof value);
      return std::to_string(value);
    };
  };
  return ",\"nnz\":" + std::to_string(nnz) +
         ",\"values\":" + list(nnz, [&](size_t i) { return number(values, i, stream.is_double); }) +
         ",\"rows\":" + list(nnz, integers(rows)) + ",\"cols\":" + list(columns + 1, integers(starts));
}

inline std::string minibatch(bool end_of_sweep, bool end_of_epoch, const std::vector<StreamMinibatch>& parts,
                             const std::vector<Stream>& infos) {
  return std::string("{\"end_of_sweep\":") + boolean(end_of_sweep) +
         ",\"end_of_epoch\":" + boolean(end_of_epoch) + ",\"streams\":" +
         list(parts.size(),
              [&](size_t i) {
                const StreamMinibatch& part = parts[i];
                const auto record = [&](size_t k) {
                  const Record& r = part.records[k];
                  return "[" + (r.id == UINT64_MAX ? "-1" : std::to_string(r.id)) + "," +
                         std::to_string(r.row) + "," + std::to_string(r.begin) + "," + std::to_string(r.end) +
                         "]";
                };
                return "{\"num_time_steps\":" + std::to_string(part.steps) +
                       ",\"num_parallel\":" + std::to_string(part.rows) +
                       ",\"sequences\":" + list(part.records.size(), record) +
                       ",\"keys\":" + list(part.keys.size(), [&](size_t k) { return quoted(part.keys[k]); }) +
                       ",\"shape\":" + list(part.shape) + content(part, infos[i]) + "}";
              }) +
         "}";
}

inline std::string bench(size_t minibatches, size_t samples, const std::vector<double>& sweeps) {
  return "{\"minibatches\":" + std::to_string(minibatches) + ",\"samples\":" + std::to_string(samples) +
         ",\"sweeps\":" +
         list(sweeps.size(),
              [&](size_t i) {
                char text[32];
                std::snprintf(text, sizeof text, "%.6f", sweeps[i]);
                return std::string(text);
              }) +
         "}";
}

// One line: a step of the script and its result.
inline void print_step(const std::string& step, const std::string& result) {
  std::printf("{\"op\":%s,\"result\":%s}\n", quoted(step).c_str(), result.c_str());
  std::fflush(stdout);
}

inline void print_create(const std::string& result) {
  std::printf("{\"create\":%s}\n", result.c_str());
  std::fflush(stdout);
}

}  // namespace json_lines
