#include "data_reader.hpp"

#include <algorithm>
#include <array>
#include <mutex>
#include <new>

namespace cntk_dropin {
namespace {

using cntk_host::math::CreateReader;

// Allocated size of the adapter, which has 344 bytes.
constexpr size_t kShimSize = 512;

// Words of the adapter's virtual table: two before the address that objects hold, then the slots.
constexpr size_t kFront = 2;
constexpr size_t kSlots = 28;
constexpr size_t kIsLegacySlot = 9;
constexpr size_t kParallelSequencesSlot = 15;

size_t no_parallel_sequences(void*) { return 0; }
bool is_legacy(const void*) { return true; }

using VirtualTable = std::array<void*, kFront + kSlots>;

VirtualTable patched(void* const* original, Adapter adapter) {
  VirtualTable table;
  std::copy_n(original - kFront, table.size(), table.begin());
  if (!adapter.has_parallel_sequences)
    table[kFront + kParallelSequencesSlot] = reinterpret_cast<void*>(no_parallel_sequences);
  if (adapter.is_old_style) table[kFront + kIsLegacySlot] = reinterpret_cast<void*>(is_legacy);
  return table;
}

// `Tag` gives each of the two adapters a separate table.
template <typename Tag>
void* make(void (*construct)(void*, CreateReader*), CreateReader* create, Adapter adapter) {
  void* const memory = ::operator new(kShimSize);
  try {
    construct(memory, create);
  } catch (...) {
    ::operator delete(memory);
    throw;
  }
  void*** const table = static_cast<void***>(memory);
  static VirtualTable own = patched(*table, adapter);
  *table = own.data() + kFront;
  return memory;
}

}  // namespace

void* make_data_reader_float(CreateReader* create, Adapter adapter) {
  return make<float>(cntk_host::math::construct_shim_float, create, adapter);
}

void* make_data_reader_double(CreateReader* create, Adapter adapter) {
  return make<double>(cntk_host::math::construct_shim_double, create, adapter);
}

}  // namespace cntk_dropin
