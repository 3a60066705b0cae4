// replay CONFIG SCRIPT: runs a script of reader calls through the C++ header and prints their
// results.
//
// CONFIG is a configuration file, in which @DIR@ stands for the file's folder. SCRIPT is a text
// file with one step per line; blank lines and lines that begin with # are skipped:
//
//     start WORKERS RANK MINIBATCH TRUNCATION RIGHT_SPLICE CROSS SAMPLES|inf|sweep SWEEPS|inf EPOCH
//     config WORKERS RANK MINIBATCH TRUNCATION RIGHT_SPLICE CROSS
//     read
//     state
//     restore KEY VALUE ...
//     checkpoint FILE        saves the reader's own checkpoint
//     resume FILE            restores it
//     bench                  reads to the end of the epoch and prints counts and times
//
// Writes one line of JSON for the creation, {"create":...}, and one for each step,
// {"op":...,"result":...}, to standard output, and the texts of errors to standard error. Exit
// code: 0, even after errors of the reader; 2 if CONFIG or SCRIPT is unusable.

#include <algorithm>
#include <cntk_reader.hpp>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench.hpp"
#include "json.hpp"

namespace {

namespace cr = cntk::reader;

// An error in the script, as opposed to an error of the reader.
struct ScriptError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw ScriptError("cannot open '" + path + "'");
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// The words of a step, read one at a time.
class Words {
 public:
  explicit Words(const std::string& line) : stream_(line) {}

  bool AtEnd() { return (stream_ >> std::ws).eof(); }

  std::string Next() {
    std::string word;
    if (!(stream_ >> word)) throw ScriptError("the step is too short");
    return word;
  }

  // Reads a number, or one of two names for numbers.
  std::uint64_t Number(const std::string& name = "", std::uint64_t value = 0,
                       const std::string& other_name = "", std::uint64_t other_value = 0) {
    const std::string word = Next();
    if (word == name) return value;
    if (word == other_name) return other_value;
    try {
      std::size_t used = 0;
      const std::uint64_t number = std::stoull(word, &used);
      if (used == word.size() && word[0] != '-') return number;
    } catch (const std::logic_error&) {
      // Reported below.
    }
    throw ScriptError("'" + word + "' is not a number");
  }

 private:
  std::istringstream stream_;
};

template <typename Configuration>
void Configure(Words& words, Configuration& configuration) {
  configuration.workers = words.Number();
  configuration.rank = words.Number();
  configuration.minibatch_size = words.Number();
  configuration.truncation_length = words.Number();
  configuration.right_splice = words.Number();
  configuration.cross_sweeps = words.Number() != 0;
}

void Start(cr::Reader& reader, Words& words) {
  cr::EpochConfiguration epoch;
  Configure(words, epoch);
  epoch.samples = words.Number("inf", cr::kUnlimitedSamples, "sweep", cr::kOneSweep);
  epoch.sweeps = words.Number("inf", cr::kUnlimitedSweeps);
  epoch.index = words.Number();
  reader.StartEpoch(epoch);
}

void SetConfiguration(cr::Reader& reader, Words& words) {
  cr::ReaderConfiguration configuration;
  Configure(words, configuration);
  reader.SetConfiguration(configuration);
}

void SetState(cr::Reader& reader, Words& words) {
  cr::State state;
  while (!words.AtEnd()) {
    const std::string key = words.Next();
    state[key] = words.Number();
  }
  reader.SetState(state);
}

void SaveCheckpoint(const cr::Reader& reader, const std::string& path) {
  const cr::Checkpoint checkpoint = reader.SaveCheckpoint();
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(checkpoint.data()),
             static_cast<std::streamsize>(checkpoint.size()));
  if (!file.flush()) throw ScriptError("cannot write '" + path + "'");
}

void RestoreCheckpoint(cr::Reader& reader, const std::string& path) {
  const std::string checkpoint = ReadFile(path);
  reader.RestoreCheckpoint(checkpoint.data(), checkpoint.size());
}

json::Stream View(const cr::StreamDescription& stream) {
  json::Stream view;
  view.name = stream.name;
  view.id = stream.id;
  view.sparse = stream.storage == cr::Storage::kSparseCsc;
  view.is_double = stream.element == cr::ElementType::kDouble;
  view.shape = stream.shape;
  view.defines_mb_size = stream.defines_mb_size;
  view.is_binary = stream.is_binary;
  return view;
}

template <typename T>
void ViewValues(const cr::StreamMinibatch& part, json::StreamMinibatch& view) {
  const cr::Span<const T> values = part.Values<T>();
  view.values = values.data();
  view.nonzeros = values.size();
}

// Views one stream of a minibatch without copying its data.
json::StreamMinibatch View(const cr::Minibatch& minibatch, const cr::StreamDescription& stream) {
  const cr::StreamMinibatch part = minibatch[stream.id];
  json::StreamMinibatch view;
  view.steps = part.Steps();
  view.lanes = part.Lanes();
  for (const cr::Record& record : part.Records())
    view.records.push_back(
        {cr::IsGap(record) ? json::kGap : record.sequence, record.lane, record.begin, record.end});
  for (const cr::Sequence& sequence : part.Sequences())
    view.keys.emplace_back(minibatch.Key(sequence.Number()));
  view.shape = stream.shape;
  view.sparse = part.IsSparse();
  view.is_double = part.Element() == cr::ElementType::kDouble;
  view.is_binary = stream.is_binary;
  view.is_double ? ViewValues<double>(part, view) : ViewValues<float>(part, view);
  view.indices = part.Indices().data();
  view.column_offsets = part.ColumnOffsets().data();
  return view;
}

json::Minibatch View(const cr::Minibatch& minibatch) {
  json::Minibatch view;
  view.end_of_sweep = minibatch.EndOfSweep();
  view.end_of_epoch = minibatch.EndOfEpoch();
  if (!minibatch) return view;
  for (const cr::StreamDescription& stream : minibatch.GetStreamDescriptions())
    view.streams.push_back(View(minibatch, stream));
  return view;
}

// Reads to the end of the epoch.
json::Bench Bench(cr::Reader& reader) {
  bench::Stopwatch stopwatch(bench::Clock::now());
  for (const cr::Minibatch& minibatch : reader.Minibatches()) {
    std::size_t largest = 0;
    for (std::size_t id = 0; id < minibatch.size(); ++id)
      largest = std::max(largest, minibatch[id].Samples());
    stopwatch.Add(largest, minibatch.EndOfSweep());
  }
  return stopwatch.Finish();
}

// Runs one step and returns its result as JSON.
std::string Run(cr::Reader& reader, const std::string& line) {
  Words words(line);
  const std::string step = words.Next();
  if (step == "read") return json::Describe(View(reader.GetMinibatch()));
  if (step == "state") return json::DescribeState(reader.GetState());
  if (step == "bench") return "{" + json::Describe(Bench(reader)) + "}";
  if (step == "start") {
    Start(reader, words);
  } else if (step == "config") {
    SetConfiguration(reader, words);
  } else if (step == "restore") {
    SetState(reader, words);
  } else if (step == "checkpoint") {
    SaveCheckpoint(reader, words.Next());
  } else if (step == "resume") {
    RestoreCheckpoint(reader, words.Next());
  } else {
    throw ScriptError("'" + step + "' is not a step");
  }
  return json::Ok();
}

// Returns the error's class as JSON, and writes its text to standard error.
std::string Report(const cr::Error& error) {
  std::cerr << "replay: " << error.what() << "\n";
  switch (error.Class()) {
    case cr::ExceptionClass::kInvalidArgument:
      return json::Error("invalid_argument");
    case cr::ExceptionClass::kLogicError:
      return json::Error("logic_error");
    default:
      return json::Error("runtime_error");
  }
}

cr::Reader Open(const std::string& path) {
  const std::string placeholder = "@DIR@";
  std::string text = ReadFile(path);
  std::size_t place = text.find(placeholder);
  if (place == std::string::npos) return cr::Reader::FromFile(path);
  const std::size_t slash = path.rfind('/');
  const std::string folder =
      slash == std::string::npos ? "." : path.substr(0, std::max<std::size_t>(slash, 1));
  for (; place != std::string::npos; place = text.find(placeholder, place + folder.size()))
    text.replace(place, placeholder.size(), folder);
  return cr::Reader::FromText(text);
}

void Replay(const std::string& config, const std::string& script) try {
  std::istringstream lines(ReadFile(script));
  cr::Reader reader = Open(config);
  std::vector<json::Stream> streams;
  for (const cr::StreamDescription& stream : reader.GetStreamDescriptions()) streams.push_back(View(stream));
  json::PrintCreate(json::Describe(streams));
  for (std::string line; std::getline(lines, line);) {
    line.erase(line.find_last_not_of(" \t\r") + 1);
    line.erase(0, line.find_first_not_of(" \t"));
    if (line.empty() || line[0] == '#') continue;
    std::string result;
    try {
      result = Run(reader, line);
    } catch (const cr::Error& error) {
      result = Report(error);
    }
    json::PrintStep(line, result);
  }
} catch (const cr::Error& error) {
  json::PrintCreate(Report(error));
}

// Rewrites a binary file by way of a text file.
void Rewrite(const std::string& file, const std::string& streams, const std::string& chunk_size,
             const std::string& flags) {
  cr::ConversionOptions options;
  options.chunk_size = std::stoull(chunk_size);
  options.double_precision = flags.find('d') != std::string::npos;
  options.ctf2bin_compatible = flags.find('s') != std::string::npos;
  cr::ConvertBinaryToText(file, file + ".ctf");
  cr::ConvertTextToBinary(file + ".ctf", file, streams, options);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 6 && std::string(argv[1]) == "--rewrite") {
    try {
      Rewrite(argv[2], argv[3], argv[4], argv[5]);
      return 0;
    } catch (const cr::Error& error) {
      std::cerr << "replay: " << error.what() << "\n";
      return 1;
    }
  }
  if (argc != 3) {
    std::cerr << "usage: replay CONFIG SCRIPT\n       replay --rewrite FILE STREAMS CHUNK_SIZE FLAGS\n";
    return 2;
  }
  try {
    Replay(argv[1], argv[2]);
    return 0;
  } catch (const ScriptError& error) {
    std::cerr << "replay: " << error.what() << "\n";
    return 2;
  }
}
