// Objects that are shared with a host, and used again once the host has released them.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>

namespace cntk_dropin {

// Two objects that are used in turn: a host releases what it has of a minibatch before it asks for the next
// but one. If a host keeps an object for longer, the object is left to the host, and a new one takes its
// place.
template <typename T>
class Recycled {
 public:
  // An object that has no other owner: a new one, or one in the state in which it was last used.
  const std::shared_ptr<T>& next() {
    current_ ^= 1;
    std::shared_ptr<T>& object = objects_[current_];
    if (object.use_count() != 1) {
      object = std::make_shared<T>();
    } else {
      // Orders what other threads have read of the object, before they released it, before what is written
      // now.
      std::atomic_thread_fence(std::memory_order_acquire);
    }
    return object;
  }

 private:
  std::array<std::shared_ptr<T>, 2> objects_;
  size_t current_ = 0;
};

}  // namespace cntk_dropin
