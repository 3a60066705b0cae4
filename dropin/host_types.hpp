// The types that a host, CNTK 2.0 to 2.7, and its reader modules exchange (Linux x86-64,
// libstdc++).
//
// Written from the measured layout of the binaries. The names of fields and classes are this
// project's; sizes, offsets and the order of virtual functions are the host's. Members from the
// standard library are the real libstdc++ types, whose layout is stable from GCC 5 on;
// _GLIBCXX_USE_CXX11_ABI selects the type of strings. host_versions.hpp has the differences between
// versions of the host.
#pragma once

#include <strings.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "host_versions.hpp"

namespace cntk_host {

// ---- Configuration

struct ConfigParameters;

// Orders keys case-insensitively.
struct KeyLess {
  bool operator()(const std::string& a, const std::string& b) const {
    return strcasecmp(a.c_str(), b.c_str()) < 0;
  }
};

// The raw text of a value, with the path of its key.
struct ConfigValue {
  std::string text;
  std::string path;
  const ConfigParameters* owner;
};
static_assert(sizeof(ConfigValue) == 8 + 2 * kStringSize && alignof(ConfigValue) == 8);

// A section. The host's class is polymorphic; this project only copies `vtable`, or leaves it null.
struct ConfigParameters {
  const void* vtable = nullptr;
  char separator = ';';
  std::string name = "unknown";
  std::map<std::string, ConfigValue, KeyLess> values;
  const ConfigParameters* parent = nullptr;
};
static_assert(sizeof(ConfigParameters) == 72 + kStringSize && alignof(ConfigParameters) == 8);

// ---- Streams and minibatches

enum class Storage : int32_t { dense = 0, sparse_csc = 1, sparse_block_column = 2 };
enum class Element : uint32_t { unknown = 0, float32 = 1, float64 = 2, byte = 3 };

// First dimension varies fastest; a single dimension of SIZE_MAX - 1 means "unknown".
struct Shape {
  std::vector<size_t> dimensions;
};
static_assert(sizeof(Shape) == 24);

struct StreamInformation {
  std::wstring name;
  size_t id = 0;
  Storage storage = Storage::dense;
  Element element = Element::unknown;
  Shape shape;
  bool defines_mb_size = false;
  [[no_unique_address]] MemberIf<kHasBinaryStreams, bool> is_binary{};
};
static_assert(sizeof(StreamInformation) == 48 + kStringSize && alignof(StreamInformation) == 8);

// The shape of a tensor, which is a view of memory. The first dimension varies fastest.
struct TensorShape {
  static constexpr size_t kMostDimensions = 12;
  size_t dimensions[kMostDimensions] = {};
  size_t rank = 0;
  ptrdiff_t strides[kMostDimensions] = {};
  size_t stride_rank = 0;
  size_t offset = 0;
  size_t allocation = 1;
};
static_assert(sizeof(TensorShape) == 224);

// The stream description of hosts up to 2.0.
struct SharedStreamInformation {
  std::wstring name;
  size_t id = 0;
  Storage storage = Storage::dense;
  Element element = Element::unknown;
  std::shared_ptr<TensorShape> shape;
  [[no_unique_address]] MemberIf<kHasDefinesMbSize, bool> defines_mb_size{};
};
static_assert(sizeof(SharedStreamInformation) == (kHasDefinesMbSize ? 40 : 32) + kStringSize);

constexpr size_t kGap = SIZE_MAX;  // id of a layout record that marks columns without data

struct LayoutRecord {
  size_t id;
  size_t row;
  int64_t begin;
  size_t end;
};
static_assert(sizeof(LayoutRecord) == 32);

// The first members of a minibatch layout, which are sufficient for reading it. The others differ
// between versions.
struct LayoutHead {
  size_t steps;
  size_t rows;
  std::vector<LayoutRecord> records;
};
static_assert(sizeof(LayoutHead) == 40);

struct StreamMinibatch {
  void* data = nullptr;
  std::shared_ptr<LayoutHead> layout;
  [[no_unique_address]] MemberIf<kHasSampleShape, Shape> sample_shape;
};
static_assert(sizeof(StreamMinibatch) == (kHasSampleShape ? 48 : 24));

struct Minibatch {
  bool end_of_sweep = false;
  bool end_of_epoch = false;
  std::vector<std::shared_ptr<StreamMinibatch>> streams;
  std::function<std::string(size_t)> key_of_sequence;
};
static_assert(sizeof(Minibatch) == 64);

// ---- The reader of a composite module

using DeviceByStream = std::map<std::wstring, int>;
using State = std::map<std::wstring, size_t>;

// The configurations differ between versions, so they are passed as untyped addresses.
class StateReader {
 public:
  virtual void StartEpoch(const void* epoch_configuration, const DeviceByStream& devices) = 0;
  virtual void SetConfiguration(const void* reader_configuration, const DeviceByStream& devices) = 0;
  virtual std::vector<StreamInformation> GetStreamDescriptions() = 0;
  virtual Minibatch ReadMinibatch() = 0;
  virtual State GetState() = 0;
  virtual void SetState(const State& state) = 0;
  virtual ~StateReader() = default;
};
static_assert(sizeof(StateReader) == 8);

// The reader of hosts up to 2.0.
class PositionReader {
 public:
  virtual std::vector<std::shared_ptr<SharedStreamInformation>> GetStreamDescriptions() = 0;
  virtual void StartEpoch(const void* epoch_configuration, const DeviceByStream& devices) = 0;
  virtual void SetConfiguration(const void* reader_configuration, const DeviceByStream& devices) = 0;
  virtual size_t GetCurrentSamplePosition() = 0;
  virtual void SetCurrentSamplePosition(size_t position) = 0;
  virtual Minibatch ReadMinibatch() = 0;
  virtual ~PositionReader() = default;
};
static_assert(sizeof(PositionReader) == 8);

using Reader = std::conditional_t<kHasStates, StateReader, PositionReader>;

// The key of a state that consists of one number.
constexpr wchar_t kPosition[] = L"minibatchSourcePosition";

using CreateCompositeDataReader = Reader*(const ConfigParameters*);

}  // namespace cntk_host
