// Writes what a reader gives as JSON text, in the format of the recorded cases.

#ifndef CNTK_READER_CPP_TESTS_JSON_HPP
#define CNTK_READER_CPP_TESTS_JSON_HPP

#include <cmath>
#include <cntk_reader.hpp>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace json {

namespace cr = cntk::reader;

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

// With as many digits as bring the same bits back.
template <typename T>
void AppendNumber(std::string& out, T value) {
  if (std::isnan(value)) {
    out += "\"nan\"";
  } else if (std::isinf(value)) {
    out += value > 0 ? "\"inf\"" : "\"-inf\"";
  } else {
    char digits[40];
    const int length = std::snprintf(digits, sizeof digits, sizeof(T) == sizeof(float) ? "%.9g" : "%.17g",
                                     static_cast<double>(value));
    out.append(digits, static_cast<std::size_t>(length));
  }
}

// An array of what `append(out, element)` writes.
template <typename Elements, typename Append>
std::string Array(const Elements& elements, Append append) {
  std::string out = "[";
  for (const auto& element : elements) {
    if (out.size() > 1) out += ',';
    append(out, element);
  }
  return out += ']';
}

template <typename Elements>
std::string Integers(const Elements& elements) {
  return Array(elements, [](std::string& out, auto element) { out += std::to_string(element); });
}

template <typename T>
std::string Numbers(cr::Span<const T> values) {
  return Array(values, [](std::string& out, T value) { AppendNumber(out, value); });
}

inline std::string Describe(const cr::StreamDescription& stream) {
  return "{\"name\":" + Text(stream.name) + ",\"id\":" + std::to_string(stream.id) +
         ",\"storage\":" + (stream.storage == cr::Storage::kDense ? "\"dense\"" : "\"sparse_csc\"") +
         ",\"element\":" + (stream.element == cr::ElementType::kFloat ? "\"float\"" : "\"double\"") +
         ",\"shape\":" + Integers(stream.shape) + ",\"defines_mb_size\":" + Bool(stream.defines_mb_size) +
         ",\"is_binary\":" + Bool(stream.is_binary) + "}";
}

inline std::string Describe(const cr::StreamDescriptions& streams) {
  return "{\"streams\":" +
         Array(streams,
               [](std::string& out, const cr::StreamDescription& stream) { out += Describe(stream); }) +
         "}";
}

template <typename T>
std::string Values(const cr::StreamMinibatch& part) {
  if (part.IsSparse())
    return "\"nnz\":" + std::to_string(part.Values<T>().size()) + ",\"values\":" + Numbers(part.Values<T>()) +
           ",\"rows\":" + Integers(part.RowIndices()) + ",\"cols\":" + Integers(part.ColumnStarts());
  std::vector<bool> has_data(part.Columns());
  for (const cr::Sequence& sequence : part.Sequences())
    for (std::size_t step = 0; step < sequence.Steps(); ++step) has_data[sequence.Column(step)] = true;
  std::size_t column = 0;
  return "\"dense\":" + Array(has_data, [&](std::string& out, bool data) {
           out += data ? Numbers(part.Column<T>(column)) : "null";
           ++column;
         });
}

inline std::string Stream(const cr::Minibatch& minibatch, const cr::StreamDescription& description) {
  const cr::StreamMinibatch part = minibatch[description.id];
  std::string out = "{\"num_time_steps\":" + std::to_string(part.Steps()) +
                    ",\"num_parallel\":" + std::to_string(part.Rows()) + ",\"sequences\":";
  out += Array(part.Records(), [](std::string& text, const cr::Record& record) {
    text += "[" + (cr::IsGap(record) ? "-1" : std::to_string(record.sequence)) + "," +
            std::to_string(record.row) + "," + std::to_string(record.begin) + "," +
            std::to_string(record.end) + "]";
  });
  out += ",\"keys\":" + Array(part.Sequences(), [&](std::string& text, const cr::Sequence& sequence) {
           text += Text(minibatch.Key(sequence.Number()));
         });
  out += ",\"shape\":" + Integers(description.shape) + ",";
  return out +=
         (part.Element() == cr::ElementType::kFloat ? Values<float>(part) : Values<double>(part)) + "}";
}

inline std::string Describe(const cr::Minibatch& minibatch) {
  std::string streams = "[]";
  if (minibatch)
    streams = Array(
        minibatch.GetStreamDescriptions(),
        [&](std::string& out, const cr::StreamDescription& stream) { out += Stream(minibatch, stream); });
  return "{\"end_of_sweep\":" + Bool(minibatch.EndOfSweep()) +
         ",\"end_of_epoch\":" + Bool(minibatch.EndOfEpoch()) + ",\"streams\":" + streams + "}";
}

inline std::string Describe(const cr::State& state) {
  return "{\"state\":{" + [&] {
    std::string entries;
    for (const auto& [key, value] : state)
      entries += (entries.empty() ? "" : ",") + Text(key) + ":" + std::to_string(value);
    return entries;
  }() + "}}";
}

inline std::string Describe(const cr::Error& error) {
  switch (error.Class()) {
    case cr::ExceptionClass::kInvalidArgument:
      return "{\"error\":\"invalid_argument\"}";
    case cr::ExceptionClass::kLogicError:
      return "{\"error\":\"logic_error\"}";
    default:
      return "{\"error\":\"runtime_error\"}";
  }
}

}  // namespace json

#endif  // CNTK_READER_CPP_TESTS_JSON_HPP
