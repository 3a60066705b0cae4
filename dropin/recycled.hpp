// Objects that are shared with a host, and reused once the host has released them.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>

namespace cntk_dropin {

// Two alternating objects: a host releases its references to a minibatch before it requests the
// next but one. If a host keeps an object for longer, the object is left to the host and replaced
// by a new one.
template <typename T>
class Recycled {
 public:
  // Returns an object without another owner: a new one, or one in the state of its last use.
  const std::shared_ptr<T>& next() {
    current_ ^= 1;
    std::shared_ptr<T>& object = objects_[current_];
    if (object.use_count() != 1) {
      object = std::make_shared<T>();
    } else {
      // Orders reads by other threads, before they released the object, before the writes that
      // follow.
      std::atomic_thread_fence(std::memory_order_acquire);
    }
    return object;
  }

 private:
  std::array<std::shared_ptr<T>, 2> objects_;
  size_t current_ = 0;
};

}  // namespace cntk_dropin
