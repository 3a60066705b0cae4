// host_v1 LIBRARY CONFIG SCRIPT
//
// Reads as BrainScript hosts and CNTK's unit tests of readers do: through the DataReader of CNTK's
// LIBRARY (libCntk.Math-2.7.so), which loads the modules that the configuration names. Prints one
// JSON line per step. The loader must find the host's libraries and the modules (LD_LIBRARY_PATH).
//
//   inputs NAME[:sparse][@LAYOUT] ...      what to read; inputs with the same LAYOUT share one
//   epoch MINIBATCH INDEX SAMPLES [RANK WORKERS]
//   read [COUNT]                           minibatches, up to the end of the epoch
//   end, position                          DataEnd, GetCurrentSamplePosition

#include <algorithm>
#include <cstring>
#include <iostream>
#include <sstream>
#include <unordered_set>

#include "host.hpp"
#include "json.hpp"

namespace v1 {

namespace host = cntk_host;
using driver::symbol;

// A minibatch layout of the host, opaque except for the printed members. Its matrices are the
// host's.
class Layout {
 public:
  // Hosts before 2.6 lack a member in front of the others.
  Layout(void* math, bool old) : shift_(old ? 8 : 0), math_(math) {
    new (bytes_) host::LayoutHead();
    for (const size_t at : {kToStart, kToEnd}) matrix("C1Ei", 'f')(at_(at), -1);
    matrix("C1Ei", 'c')(at_(kMask), -1);
    *static_cast<bool*>(at_(kWritable)) = true;
    new (at_(kAxis)) std::wstring(L"DynamicAxis");
  }
  // Never destroyed: the driver ends soon, and the host owns parts of it.

  const host::LayoutHead& head() const { return *reinterpret_cast<const host::LayoutHead*>(bytes_); }
  const std::vector<ptrdiff_t>& nearest_start() {
    return *static_cast<std::vector<ptrdiff_t>*>(at_(kNearestStart));
  }
  const std::vector<ptrdiff_t>& nearest_end() {
    return *static_cast<std::vector<ptrdiff_t>*>(at_(kNearestEnd));
  }
  const std::vector<bool>& has_gap() { return *static_cast<std::vector<bool>*>(at_(kHasGap)); }
  void* to_start() { return at_(kToStart); }
  void* to_end() { return at_(kToEnd); }

 private:
  // Offsets in hosts from 2.6.
  static constexpr size_t kToStart = 64, kToEnd = kToStart + host::kMatrixSize,
                          kNearestStart = kToEnd + host::kMatrixSize, kNearestEnd = kNearestStart + 24,
                          kHasGap = kNearestEnd + 24, kMask = kHasGap + 40,
                          kWritable = kMask + host::kMatrixSize, kAxis = kWritable + 8,
                          kSize = kAxis + host::kStringSize;

  void* at_(size_t offset) { return bytes_ + offset - shift_; }
  void (*matrix(const std::string& what, char type))(void*, int) {
    return symbol<void(void*, int)>(
        math_, (std::string("_ZN9Microsoft3MSR4CNTK6MatrixI") + type + "E" + what).c_str());
  }

  alignas(16) unsigned char bytes_[kSize] = {};
  const size_t shift_;
  void* const math_;
};

struct Input {
  std::shared_ptr<void> matrix;
  std::shared_ptr<Layout> layout;
  host::TensorShape shape;
};
static_assert(sizeof(Input) == 256);

struct Inputs {
  std::function<std::string(size_t)> key_of_sequence;
  std::map<std::wstring, Input> by_name;
};
static_assert(sizeof(Inputs) == 80);

// The host's codes for matrix types and formats.
constexpr int kDense = 1, kSparse = 2;
constexpr int kColumns = 0, kCsc = 6;

struct Description {
  std::wstring name;
  int device = -1;
  int matrix_type = kDense;
  int matrix_format = kColumns;

  bool operator==(const Description& other) const { return name == other.name; }
};
static_assert(sizeof(Description) == 16 + host::kStringSize);

// Not noexcept, because the host's set caches hashes in its nodes.
struct NameHash {
  size_t operator()(const Description& description) const {
    return std::hash<std::wstring>()(description.name);
  }
};
using Descriptions = std::unordered_set<Description, NameHash>;

// The host's reader, declared by the order of its virtual functions, most of which are never called
// here. (In an unnamed namespace, compilers would conclude that no object of this class can exist.)
class DataReader {
 public:
  virtual void init() = 0;
  virtual void init_record() = 0;
  virtual void destroy() = 0;
  virtual void destruct() = 0;
  virtual void destruct_and_delete() = 0;
  virtual void start(size_t minibatch, size_t epoch, const Descriptions&, size_t samples) = 0;
  virtual void start_distributed(size_t minibatch, size_t epoch, size_t rank, size_t workers,
                                 const Descriptions&, size_t samples) = 0;
  virtual void start_legacy() = 0;
  virtual bool supports_distributed() const = 0;
  virtual bool is_legacy() const = 0;
  virtual size_t position() = 0;
  virtual void start_distributed_legacy() = 0;
  virtual bool minibatch(Inputs&) = 0;
  virtual void minibatch_4se() = 0;
  virtual void hmm_data() = 0;
  virtual size_t parallel_sequences() = 0;
  virtual void set_parallel_sequences(size_t) = 0;
  virtual void label_mapping() = 0;
  virtual void set_label_mapping() = 0;
  virtual void data() = 0;
  virtual bool data_end() = 0;

 protected:
  ~DataReader() = default;
};

class Session {
 public:
  Session(const std::string& library, const std::string& config)
      : old_(library != "libCntk.Math-2.7.so" && library != "libCntk.Math-2.6.so") {
    math_ = dlopen(library.c_str(), RTLD_LAZY);
    if (math_ == nullptr) throw std::runtime_error(dlerror());
    // libCntk.Core defines symbols that libCntk.Math needs.
    if (const size_t version = library.find('-'); version != std::string::npos)
      dlopen(("libCntk.Core" + library.substr(version)).c_str(), RTLD_LAZY | RTLD_GLOBAL);
    driver::parse(math_, config, config_);
  }

  bool create() {
    return attempt("create", [&] {
      memory_.reset(::operator new(kReaderSize));
      std::memset(memory_.get(), 0, kReaderSize);
      symbol<void(void*, const host::ConfigParameters&)>(
          math_, "_ZN9Microsoft3MSR4CNTK10DataReaderC1INS1_16ConfigParametersEEERKT_")(memory_.get(),
                                                                                       config_);
      reader_ = static_cast<DataReader*>(memory_.get());
      const auto* precision = find("precision");
      double_ = precision != nullptr && *precision == "double";
      return "{\"distributed\":" + json::Bool(reader_->supports_distributed()) +
             ",\"legacy\":" + json::Bool(reader_->is_legacy()) + "}";
    });
  }

  void step(const std::string& line) {
    std::istringstream in(line);
    std::string word;
    in >> word;
    if (word == "read") {
      size_t count = SIZE_MAX;
      in >> count;
      for (bool more = true; more && count-- > 0;) {
        const bool done = attempt(line, [&] { return read(more); });
        if (!done) return;
      }
      return;
    }
    attempt(line, [&]() -> std::string {
      if (word == "inputs") return choose(in);
      if (word == "epoch") return start(in);
      if (word == "end") return json::Bool(reader_->data_end());
      if (word == "position") return std::to_string(reader_->position());
      throw std::logic_error("unknown step");
    });
  }

  // Destroys the reader as hosts do.
  void finish() {
    if (reader_ != nullptr) reader_->destruct();
  }

 private:
  struct Wanted {
    std::string name;
    bool sparse = false;
    std::shared_ptr<Layout> layout;
  };

  // Larger than the reader of any host.
  static constexpr size_t kReaderSize = 4096;

  // Prints the result of an action, or the kind and first line of its exception.
  template <typename Action>
  bool attempt(const std::string& step, Action action) {
    try {
      json::PrintStep(step, action());
      return true;
    } catch (const std::exception& error) {
      std::string text = error.what();
      text = text.substr(0, text.find('\n'));
      json::PrintStep(step, "{\"error\":" + json::Text(driver::kind_of(error)) +
                                ",\"message\":" + json::Text(text) + "}");
      return false;
    }
  }

  const std::string* find(const std::string& key) const {
    const auto found = config_.values.find(key);
    return found == config_.values.end() ? nullptr : &found->second.text;
  }

  template <typename Function>
  Function* matrix(const std::string& prefix, const std::string& what) {
    return symbol<Function>(
        math_, (prefix + "9Microsoft3MSR4CNTK6MatrixI" + (double_ ? "d" : "f") + "E" + what).c_str());
  }

  std::string choose(std::istream& in) {
    std::map<std::string, std::shared_ptr<Layout>> layouts;
    wanted_.clear();
    for (std::string word; in >> word;) {
      Wanted wanted;
      const size_t at = word.find('@');
      std::shared_ptr<Layout> own;
      auto& layout = at == std::string::npos ? own : layouts[word.substr(at)];
      if (!layout) layout.reset(new Layout(math_, old_), [](Layout*) {});
      wanted.layout = layout;
      word = word.substr(0, at);
      wanted.sparse = word.find(":sparse") != std::string::npos;
      wanted.name = word.substr(0, word.find(':'));
      wanted_.push_back(wanted);
    }
    inputs_.by_name.clear();
    for (const Wanted& wanted : wanted_) {
      Input input;
      void* bytes = ::operator new(256);
      std::memset(bytes, 0, 256);
      matrix<void(void*, int)>("_ZN", "C1Ei")(bytes, -1);
      if (wanted.sparse) become(bytes, kSparse, kCsc, false);
      input.matrix.reset(bytes, [](void*) {});
      input.layout = wanted.layout;
      inputs_.by_name[driver::wide(wanted.name)] = input;
    }
    return json::Ok();
  }

  void become(void* bytes, int type, int format, bool keep) {
    matrix<void(void*, int, int, bool)>("_ZN", "18SwitchToMatrixTypeENS1_10MatrixTypeENS1_12MatrixFormatEb")(
        bytes, type, format, keep);
  }

  std::string start(std::istream& in) {
    size_t minibatch = 0, epoch = 0, samples = 0, rank = 0, workers = 0;
    std::string limit;
    in >> minibatch >> epoch >> limit;
    samples = limit == "sweep" ? SIZE_MAX >> 2 : std::stoull(limit);
    Descriptions descriptions;
    for (const Wanted& wanted : wanted_) {
      Description description;
      description.name = driver::wide(wanted.name);
      description.matrix_type = wanted.sparse ? kSparse : kDense;
      description.matrix_format = wanted.sparse ? kCsc : kColumns;
      descriptions.insert(description);
    }
    if (in >> rank >> workers) {
      reader_->start_distributed(minibatch, epoch, rank, workers, descriptions, samples);
    } else {
      reader_->start(minibatch, epoch, descriptions, samples);
    }
    return json::Ok();
  }

  std::string read(bool& more) {
    more = false;
    more = reader_->minibatch(inputs_);
    if (!more) return "{\"data\":false}";
    std::string out;
    for (const Wanted& wanted : wanted_) {
      Input& input = inputs_.by_name.at(driver::wide(wanted.name));
      out += (out.empty() ? "" : ",") + json::Text(wanted.name) + ":" + describe(wanted, input);
    }
    return "{\"data\":true,\"parallel\":" + std::to_string(reader_->parallel_sequences()) + ",\"inputs\":{" +
           out + "}}";
  }

  std::string describe(const Wanted& wanted, Input& input) {
    if (wanted.sparse) become(input.matrix.get(), kDense, kColumns, true);
    const size_t rows = matrix<size_t(const void*)>("_ZNK", "10GetNumRowsEv")(input.matrix.get());
    const size_t columns = matrix<size_t(const void*)>("_ZNK", "10GetNumColsEv")(input.matrix.get());
    json::StreamMinibatch part;
    Layout& layout = *input.layout;
    part.steps = layout.head().steps;
    part.lanes = layout.head().rows;
    for (const host::LayoutRecord& r : layout.head().records) {
      part.records.push_back({r.id, r.row, r.begin, r.end});
      if (r.id != host::kGap) part.keys.push_back(key(r.id));
    }
    part.shape = {rows};
    part.is_double = double_;
    if (columns != part.Columns()) throw std::logic_error("the matrix has not the layout's columns");
    void* values = matrix<void*(const void*)>("_ZNK", "11CopyToArrayEv")(input.matrix.get());
    part.values = values;
    std::string text = json::Describe(part);
    ::operator delete(values);
    if (wanted.sparse) become(input.matrix.get(), kSparse, kCsc, false);
    text.pop_back();
    const std::vector<bool> filled = part.Filled();
    const auto flags = layout.has_gap();
    return text + ",\"sample\":" + json::Integers(input.shape.dimensions, input.shape.rank) +
           ",\"to_start\":" + distances(layout.to_start(), filled) +
           ",\"to_end\":" + distances(layout.to_end(), filled) + ",\"nearest_start\":" +
           json::Integers(layout.nearest_start().data(), layout.nearest_start().size()) +
           ",\"nearest_end\":" + json::Integers(layout.nearest_end().data(), layout.nearest_end().size()) +
           ",\"gaps\":" + json::Array(flags.size(), [&](size_t i) { return json::Bool(flags[i]); }) + "}";
  }

  // Old-style readers do not report keys.
  std::string key(size_t sequence) {
    if (!inputs_.key_of_sequence) return "none";
    try {
      return inputs_.key_of_sequence(sequence);
    } catch (const std::exception& error) {
      return driver::kind_of(error);
    }
  }

  std::string distances(const void* floats, const std::vector<bool>& filled) {
    auto copy = symbol<float*(const void*)>(math_, "_ZNK9Microsoft3MSR4CNTK6MatrixIfE11CopyToArrayEv");
    float* values = copy(floats);
    const std::string text = json::Array(
        filled.size(), [&](size_t i) { return filled[i] ? json::Number(values[i]) : std::string("null"); });
    ::operator delete(values);
    return text;
  }

  struct Release {
    void operator()(void* memory) const { ::operator delete(memory); }
  };

  const bool old_;
  bool double_ = false;
  void* math_ = nullptr;
  host::ConfigParameters config_;
  std::unique_ptr<void, Release> memory_;
  DataReader* reader_ = nullptr;
  std::vector<Wanted> wanted_;
  Inputs inputs_;
};

}  // namespace v1

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: host_v1 LIBRARY CONFIG SCRIPT\n";
    return 2;
  }
  try {
    v1::Session session(argv[1], argv[2]);
    if (!session.create()) return 0;
    std::istringstream script(driver::read_file(argv[3]));
    for (std::string line; std::getline(script, line);) {
      if (!line.empty() && line[0] != '#') session.step(line);
    }
    session.finish();
  } catch (const std::exception& error) {
    std::cerr << "host_v1: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
