// Page-locked copies of minibatch data for streams that the host wants on a device.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <new>
#include <vector>

namespace cntk_dropin {

// The host's allocator of page-locked memory.
struct PageLocker {
  void* (*allocate)(size_t bytes, int device);
  void (*release)(void* memory, int device);
};

// Two alternating sets of buffers: the host copies one to its device while the other is being
// filled. Data of streams that stay on the CPU (device -1) are not copied, and nothing is allocated
// for them.
class Staging {
 public:
  explicit Staging(PageLocker locker) : locker_(locker) {}
  ~Staging() {
    for (auto& set : sets_) {
      for (Buffer& buffer : set) drop(buffer);
    }
  }
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  // Sets the device of each stream.
  void select(std::vector<int> devices) { devices_ = std::move(devices); }

  // Begins a minibatch.
  void turn() { current_ ^= 1; }

  // Returns the address of a stream's data for the host: `data` itself, or a page-locked copy.
  const void* place(size_t stream, const void* data, size_t bytes) {
    const int device = stream < devices_.size() ? devices_[stream] : -1;
    if (device < 0) return data;
    auto& set = sets_[current_];
    if (set.size() <= stream) set.resize(stream + 1);
    Buffer& buffer = set[stream];
    if (buffer.capacity < bytes || buffer.device != device) grow(buffer, bytes, device);
    std::memcpy(buffer.memory, data, bytes);
    return buffer.memory;
  }

 private:
  struct Buffer {
    void* memory = nullptr;
    size_t capacity = 0;
    int device = -1;
  };

  void drop(Buffer& buffer) {
    if (buffer.memory != nullptr) locker_.release(buffer.memory, buffer.device);
    buffer = {};
  }

  void grow(Buffer& buffer, size_t bytes, int device) {
    drop(buffer);
    const size_t capacity = bytes + bytes / 2;  // minibatches vary in size
    void* memory = locker_.allocate(capacity, device);
    if (memory == nullptr) throw std::bad_alloc();
    buffer = {memory, capacity, device};
  }

  PageLocker locker_;
  std::vector<int> devices_;
  std::array<std::vector<Buffer>, 2> sets_;
  size_t current_ = 0;
};

}  // namespace cntk_dropin
