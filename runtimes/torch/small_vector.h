#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

#include "model_ir/base/check.h"

namespace headroom::ir::torch {

/// A std::vector whose first `kRoom` items lie in the object itself. Items are destroyed from the
/// first to the last, as those of a std::vector are, because their destructors release memory.
template <class T, std::size_t kRoom>
class SmallVector {
  static_assert(std::is_nothrow_move_constructible_v<T>);

 public:
  SmallVector() = default;
  SmallVector(const SmallVector& other) { append(other); }
  SmallVector(SmallVector&& other) noexcept { take(other); }
  SmallVector& operator=(const SmallVector& other) {
    if (this != &other) {
      *this = SmallVector(other);
    }
    return *this;
  }
  SmallVector& operator=(SmallVector&& other) noexcept {
    if (this != &other) {
      const SmallVector before(std::move(*this));  // Its items die last, as a std::vector's do.
      take(other);
    }
    return *this;
  }
  ~SmallVector() {
    clear();
    drop_heap();
  }

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] T* begin() { return items_; }
  [[nodiscard]] T* end() { return items_ + size_; }
  [[nodiscard]] const T* begin() const { return items_; }
  [[nodiscard]] const T* end() const { return items_ + size_; }
  [[nodiscard]] T& operator[](std::size_t index) { return items_[index]; }
  [[nodiscard]] const T& operator[](std::size_t index) const { return items_[index]; }
  [[nodiscard]] const T& at(std::size_t index) const {
    HEADROOM_ASSERT(index < size_);
    return items_[index];
  }
  [[nodiscard]] T& back() { return items_[size_ - 1]; }

  void push_back(T item) {
    if (size_ == capacity_) {
      grow(2 * capacity_);
    }
    ::new (static_cast<void*>(items_ + size_)) T(std::move(item));
    ++size_;
  }
  void pop_back() { items_[--size_].~T(); }
  void clear() {
    const std::uint32_t count = std::exchange(size_, 0);
    std::destroy_n(items_, count);
  }
  void reserve(std::size_t count) {
    if (count > capacity_) {
      grow(static_cast<std::uint32_t>(count));
    }
  }

 private:
  [[nodiscard]] T* own_room() { return reinterpret_cast<T*>(room_.data()); }
  [[nodiscard]] bool on_heap() { return items_ != own_room(); }

  void drop_heap() {
    if (on_heap()) {
      std::allocator<T>().deallocate(items_, capacity_);
      items_ = own_room();
      capacity_ = std::uint32_t{kRoom};
    }
  }

  void grow(std::uint32_t capacity) {
    T* const larger = std::allocator<T>().allocate(capacity);
    std::uninitialized_move_n(items_, size_, larger);
    std::destroy_n(items_, size_);
    drop_heap();
    items_ = larger;
    capacity_ = capacity;
  }

  void append(const SmallVector& other) {
    reserve(other.size_);
    std::uninitialized_copy_n(other.items_, other.size_, items_);
    size_ = other.size_;
  }

  /// Takes the items of `other`, which is empty then. Requires that there are none here.
  void take(SmallVector& other) {
    if (other.on_heap()) {
      drop_heap();
      items_ = std::exchange(other.items_, other.own_room());
      capacity_ = std::exchange(other.capacity_, std::uint32_t{kRoom});
      size_ = std::exchange(other.size_, 0);
      return;
    }
    std::uninitialized_move_n(other.items_, other.size_, items_);
    size_ = other.size_;
    other.clear();
  }

  T* items_ = own_room();
  std::uint32_t size_ = 0;
  std::uint32_t capacity_ = std::uint32_t{kRoom};
  alignas(T) std::array<std::byte, kRoom * sizeof(T)> room_;
};

}  // namespace headroom::ir::torch
