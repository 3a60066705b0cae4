// Objects that a host gets shared, and that are used again once it has dropped them.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>

namespace cntk_dropin {

// Two that take turns: a host drops what it has of one minibatch before it asks for the next but one. From
// one that keeps more, the object is left to it, and another one takes its place.
template <typename T>
class Recycled {
 public:
  // One that nobody else has, new or as it was left.
  const std::shared_ptr<T>& next() {
    current_ ^= 1;
    std::shared_ptr<T>& object = objects_[current_];
    if (object.use_count() != 1) {
      object = std::make_shared<T>();
    } else {
      // What other threads have read of it, they have read before they dropped it.
      std::atomic_thread_fence(std::memory_order_acquire);
    }
    return object;
  }

 private:
  std::array<std::shared_ptr<T>, 2> objects_;
  size_t current_ = 0;
};

}  // namespace cntk_dropin
