// host_replay MODULE CONFIG SCRIPT
//
// Drives a composite reader module, CNTK's own or this project's, through CNTK's native interface,
// and prints one JSON line per step in the format of the recorded cases. The loader must find the
// host's libraries (libCntk.Math-*.so and its dependencies); the host's version is taken from the
// name of that library.
//
// MODULE may also be CNTK's HTK or image module: the reader of old-style sections is then created
// by the constructor of its class, which that module exports.
//
// The steps are those of replay.cpp without the reader's own checkpoints, and
//
//     bench                  reads to the end of the epoch: counts, times, peak memory, copying
//     digest                 reads to the end of the epoch: a digest, equal for equal minibatches
//     opening                the time to create the reader, and resident memory before and after
//     exit                   ends the process by `exit`, without destroying the reader or printing

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "../dropin/host_types.hpp"
#include "../dropin/host_versions.hpp"
#include "bench.hpp"
#include "host.hpp"
#include "json.hpp"
#include "position_reader.hpp"

namespace {

namespace host = cntk_host;
using namespace driver;

// Returns the name of the host's library in this process: "libCntk.Math-2.7.so", or
// "libcntkmath.so" for betas.
std::string math_library() {
  std::string found;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* out) {
        const char* slash = std::strrchr(info->dlpi_name, '/');
        const char* name = slash ? slash + 1 : info->dlpi_name;
        if (std::strncmp(name, "libCntk.Math-", 13) == 0 || std::strcmp(name, "libcntkmath.so") == 0)
          *static_cast<std::string*>(out) = name;
        return 0;
      },
      &found);
  return found;
}

// The arguments of the steps `start` and `config`.
struct Sizes {
  size_t workers = 1, rank = 0, minibatch = 0, truncation = 0, right_splice = 0;
  bool cross = true;
};

Sizes read_sizes(std::istream& in) {
  Sizes s;
  in >> s.workers >> s.rank >> s.minibatch >> s.truncation >> s.right_splice >> s.cross;
  if (!in) throw std::runtime_error("bad step");
  return s;
}

size_t read_limit(std::istream& in, size_t unlimited) {
  std::string word;
  in >> word;
  if (word == "inf") return unlimited;
  if (word == "sweep") return SIZE_MAX >> 2;
  return std::stoull(word);
}

// The constructor of CNTK's reader of old-style sections.
using ConstructReader = void(void* memory, const host::ConfigParameters* config);
ConstructReader* construct_old_style = nullptr;

// Creates a reader of old-style sections, in memory that is larger than its class.
host::Reader* create_old_style(const host::ConfigParameters* config) {
  constexpr size_t kMemory = 4096;
  void* const memory = operator new(kMemory);
  std::memset(memory, 0, kMemory);
  try {
    construct_old_style(memory, config);
  } catch (...) {
    operator delete(memory);
    throw;
  }
  return static_cast<host::Reader*>(memory);
}

// The function of a module that creates readers.
host::CreateCompositeDataReader* creator(void* module) {
  for (const char* name : {"_ZN4CNTK12HTKMLFReaderC1ERKN9Microsoft3MSR4CNTK16ConfigParametersE",
                           "_ZN9Microsoft3MSR4CNTK12HTKMLFReaderC1ERKNS1_16ConfigParametersE",
                           "_ZN4CNTK11ImageReaderC1ERKN9Microsoft3MSR4CNTK16ConfigParametersE",
                           "_ZN9Microsoft3MSR4CNTK11ImageReaderC1ERKNS1_16ConfigParametersE"}) {
    construct_old_style = reinterpret_cast<ConstructReader*>(dlsym(module, name));
    if (construct_old_style != nullptr) return create_old_style;
  }
  return symbol<host::CreateCompositeDataReader>(module, "CreateCompositeDataReader");
}

class Replay {
 public:
  Replay(const std::string& module_path, const std::string& config_path) {
    // Loads the module as hosts do. (libCntk.Math alone cannot be bound eagerly: libCntk.Core has
    // some of its symbols.)
    void* module = dlopen(module_path.c_str(), RTLD_LAZY);
    if (module == nullptr) throw std::runtime_error(dlerror());
    const std::string math_name = math_library();
    if (math_name.empty()) throw std::runtime_error("the module does not load the host's libCntk.Math");
    old_ = math_name != "libCntk.Math-2.6.so" && math_name != "libCntk.Math-2.7.so";
    math_ = dlopen(math_name.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    // If it is missing, only calls of its functions fail.
    if (const size_t end = math_name.find('-'); end != std::string::npos)
      dlopen(("libCntk.Core" + math_name.substr(end)).c_str(), RTLD_LAZY | RTLD_GLOBAL);
    create_ = creator(module);

    parse(math_, config_path, config_);
  }

  // Returns false if creation failed.
  bool create() {
    try {
      memory_before_ = bench::Memory("VmRSS");
      const bench::Clock::time_point begin = bench::Clock::now();
      reader_.reset(with_state(create_(&config_)));
      open_ = bench::Since(begin);
      memory_after_ = bench::Memory("VmRSS");
      describe();
      json::PrintCreate(json::Describe(streams_));
      return true;
    } catch (const std::exception& error) {
      std::cerr << "create: " << error.what() << '\n';
      json::PrintCreate(json::Error(kind_of(error)));
      return false;
    }
  }

  std::string step(const std::string& line) {
    std::istringstream in(line);
    std::string op;
    in >> op;
    try {
      if (op == "start") return start(in);
      if (op == "config") return configure(in);
      if (op == "read") return read();
      if (op == "state") return state();
      if (op == "restore") return restore(in);
      if (op == "bench") return time();
      if (op == "digest") return digest();
      if (op == "opening") return opening();
    } catch (const std::exception& error) {
      std::cerr << line << ": " << error.what() << '\n';
      return json::Error(kind_of(error));
    }
    throw std::runtime_error("unknown step: " + line);
  }

 private:
  void describe() {
    streams_.clear();
    devices_.clear();
    for (const host::StreamInformation& info : reader_->GetStreamDescriptions()) {
      streams_.push_back({narrow(info.name), info.id, info.storage == host::Storage::sparse_csc,
                          info.element == host::Element::float64, info.shape.dimensions, info.defines_mb_size,
                          info.is_binary});
      devices_[info.name] = -1;
    }
  }

  template <typename Configuration>
  static void fill(Configuration& out, const Sizes& sizes) {
    out.workers = sizes.workers;
    out.rank = sizes.rank;
    out.minibatch = sizes.minibatch;
    out.truncation = sizes.truncation;
    out.cross_sweeps = sizes.cross;
  }

  std::string start(std::istream& in) {
    const Sizes sizes = read_sizes(in);
    const size_t samples = read_limit(in, SIZE_MAX / 2), sweeps = read_limit(in, SIZE_MAX);
    size_t index = 0;
    in >> index;
    const auto go = [&](auto epoch) {
      fill(epoch, sizes);
      epoch.samples = samples;
      if constexpr (!std::is_same_v<decltype(epoch), host::EpochConfigurationBeta>) epoch.sweeps = sweeps;
      epoch.index = index;
      if constexpr (std::is_same_v<decltype(epoch), host::EpochConfiguration>)
        epoch.right_splice = sizes.right_splice;
      reader_->StartEpoch(&epoch, devices_);
    };
    started_ = bench::Clock::now();
    if constexpr (!host::kHasSweeps) {
      go(host::EpochConfigurationBeta());
    } else {
      old_ ? go(host::EpochConfiguration251()) : go(host::EpochConfiguration());
    }
    return json::Ok();
  }

  std::string configure(std::istream& in) {
    const Sizes sizes = read_sizes(in);
    const auto go = [&](auto config) {
      fill(config, sizes);
      if constexpr (std::is_same_v<decltype(config), host::ReaderConfiguration>) {
        config.right_splice = sizes.right_splice;
      }
      reader_->SetConfiguration(&config, devices_);
    };
    old_ ? go(host::ReaderConfiguration251()) : go(host::ReaderConfiguration());
    return json::Ok();
  }

  std::string read() {
    const host::Minibatch minibatch = reader_->ReadMinibatch();
    json::Minibatch out;
    out.end_of_sweep = minibatch.end_of_sweep;
    out.end_of_epoch = minibatch.end_of_epoch;
    for (size_t id = 0; id < minibatch.streams.size(); ++id) {
      out.streams.push_back(view(*minibatch.streams[id], streams_[id]));
      json::StreamMinibatch& part = out.streams.back();
      for (const json::Record& record : part.records) {
        if (construct_old_style != nullptr) break;  // readers of old-style sections have no keys
        if (record.sequence != json::kGap) part.keys.push_back(minibatch.key_of_sequence(record.sequence));
      }
    }
    return json::Describe(out);
  }

  // A sparse block consists of the number of values, the values, their indices, and the column
  // offsets.
  static json::StreamMinibatch view(const host::StreamMinibatch& part, const json::Stream& stream) {
    json::StreamMinibatch out;
    view(part, stream, out);
    return out;
  }

  // Overwrites another view, reusing its memory.
  static void view(const host::StreamMinibatch& part, const json::Stream& stream,
                   json::StreamMinibatch& out) {
    out.records.clear();
    out.steps = part.layout->steps;
    out.lanes = part.layout->rows;
    for (const host::LayoutRecord& r : part.layout->records)
      out.records.push_back({r.id, r.row, r.begin, r.end});
    out.shape = host::kHasSampleShape ? host::Shape(part.sample_shape).dimensions : stream.shape;
    out.sparse = stream.sparse;
    out.is_double = stream.is_double;
    out.is_binary = stream.is_binary;
    out.values = part.data;
    if (stream.sparse) {
      const char* block = static_cast<const char*>(part.data);
      std::memcpy(&out.nonzeros, block, sizeof(size_t));
      out.values = block + sizeof(size_t);
      const char* rows =
          block + sizeof(size_t) + out.nonzeros * (stream.is_double ? sizeof(double) : sizeof(float));
      out.indices = reinterpret_cast<const int32_t*>(rows);
      out.column_offsets = out.indices + out.nonzeros;
    }
  }

  std::string state() {
    std::map<std::string, uint64_t> values;
    for (const auto& [key, value] : reader_->GetState()) values[narrow(key)] = value;
    return json::DescribeState(values);
  }

  std::string restore(std::istream& in) {
    host::State values;
    std::string key;
    for (size_t value = 0; in >> key >> value;) values[wide(key)] = value;
    reader_->SetState(values);
    return json::Ok();
  }

  // Reads to the end of the epoch without printing. Times begin with the start of the epoch, when a
  // reader may begin to load.
  std::string time() {
    bench::Stopwatch stopwatch(started_);
    size_t bytes = 0;
    json::StreamMinibatch part;  // reused, so that the driver does not allocate while it measures
    for (bool more = true; more;) {
      const host::Minibatch minibatch = reader_->ReadMinibatch();
      more = !minibatch.end_of_epoch;
      if (minibatch.streams.empty()) continue;
      size_t most = 0;
      for (size_t id = 0; id < minibatch.streams.size(); ++id) {
        view(*minibatch.streams[id], streams_[id], part);
        most = std::max(most, part.Samples());
        bytes += part.Bytes();
      }
      stopwatch.Add(most, minibatch.end_of_sweep);
    }
    json::Bench result = stopwatch.Finish();
    result.open = open_;
    const size_t peak = bench::Memory("VmHWM");
    return "{" + json::Describe(result) + ",\"bytes\":" + std::to_string(bytes) +
           ",\"copy\":" + json::Number(bench::CopySeconds(bytes, result.minibatches)) + ",\"copy_by_all\":" +
           json::Number(bench::CopySeconds(bytes, result.minibatches, std::thread::hardware_concurrency())) +
           ",\"memory_before\":" + std::to_string(memory_before_) + ",\"memory\":" + std::to_string(peak) +
           "}";
  }

  std::string opening() const {
    return "{\"open\":" + json::Number(open_) + ",\"memory_before\":" + std::to_string(memory_before_) +
           ",\"memory\":" + std::to_string(memory_after_) + "}";
  }

  std::string digest() {
    bench::Digest digest;
    for (bool more = true; more;) {
      const host::Minibatch minibatch = reader_->ReadMinibatch();
      more = !minibatch.end_of_epoch;
      json::Minibatch out;
      out.end_of_sweep = minibatch.end_of_sweep;
      out.end_of_epoch = minibatch.end_of_epoch;
      for (size_t id = 0; id < minibatch.streams.size(); ++id)
        out.streams.push_back(view(*minibatch.streams[id], streams_[id]));
      digest.Add(out);
    }
    return "{\"digest\":\"" + std::to_string(digest.Value()) + "\"}";
  }

  bool old_ = false;  // the host is older than 2.6
  void* math_ = nullptr;
  host::CreateCompositeDataReader* create_ = nullptr;
  host::ConfigParameters config_;
  std::unique_ptr<host::StateReader> reader_;
  std::vector<json::Stream> streams_;
  host::DeviceByStream devices_;
  double open_ = 0;  // seconds
  size_t memory_before_ = 0, memory_after_ = 0;
  bench::Clock::time_point started_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: host_replay MODULE CONFIG SCRIPT\n";
    return 2;
  }
  try {
    Replay replay(argv[1], argv[2]);
    if (!replay.create()) return 0;
    std::ifstream script(argv[3]);
    if (!script) throw std::runtime_error(std::string("cannot open ") + argv[3]);
    for (std::string line; std::getline(script, line);) {
      if (line.empty() || line[0] == '#') continue;
      if (line == "exit") std::exit(0);
      json::PrintStep(line, replay.step(line));
    }
  } catch (const std::exception& error) {
    std::cerr << "host_replay: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
