#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace headroom::ir {

/// The options that belong to frameworks: at most one value of each type, in types that only the
/// frameworks' folders know. A type can be any that can be copied, compared and made by default.
/// Copies of the set share its values until one of them is edited. Sets are equal if they have
/// equal values of the same types, in whatever order these were added.
class OwnOptions {
 public:
  OwnOptions() = default;

  /// The value of type `T`; nullptr if there is none. Valid until the set is edited.
  template <typename T>
  [[nodiscard]] const T* find() const {
    for (const Held* held = first_.get(); held != nullptr; held = held->next.get()) {
      if (held->type == type_of<T>()) {
        return &static_cast<const HeldAs<T>*>(held)->value;
      }
    }
    return nullptr;
  }
  template <typename T>
  [[nodiscard]] bool has() const {
    return find<T>() != nullptr;
  }
  /// The value of type `T`; a default one if there is none. Valid until the set is edited.
  template <typename T>
  [[nodiscard]] const T& get() const {
    const T* const found = find<T>();
    return found != nullptr ? *found : usual<T>();
  }

  /// The value of type `T` to edit, which is added if there is none. Edit at once: copies that are
  /// made of this set later share the value.
  template <typename T>
  T& edit() {
    own();
    for (Held* held = first_.get(); held != nullptr; held = held->next.get()) {
      if (held->type == type_of<T>()) {
        return static_cast<HeldAs<T>*>(held)->value;
      }
    }
    auto added = std::make_unique<HeldAs<T>>(T{});
    T& value = added->value;
    added->next.reset(first_.release());
    first_ = First(added.release());
    return value;
  }
  /// Removes the value of type `T`, if there is one.
  template <typename T>
  void reset() {
    if (has<T>()) {
      remove_if([](const void* type) { return type == type_of<T>(); });
    }
  }
  /// Removes the values of all other types.
  template <typename... T>
  void keep() {
    remove_if([]([[maybe_unused]] const void* type) { return ((type != type_of<T>()) && ...); });
  }

  [[nodiscard]] bool empty() const { return first_.get() == nullptr; }

  friend bool operator==(const OwnOptions& a, const OwnOptions& b) {
    return a.first_.get() == b.first_.get() || (a.size() == b.size() && a.is_within(b));
  }

 private:
  /// One value in a chain. Only its first link is shared, so that a set that owns the first link
  /// owns all of them.
  struct Held {
    explicit Held(const void* its_type) : type(its_type) {}
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    virtual ~Held() = default;
    [[nodiscard]] virtual std::unique_ptr<Held> copy() const = 0;
    /// Requires that `other` is of the same type.
    [[nodiscard]] virtual bool equals(const Held& other) const = 0;

    const void* type;
    std::unique_ptr<Held> next;
    std::atomic<std::int32_t> sets{1};  ///< Those that share the chain that begins here.
  };
  template <typename T>
  struct HeldAs final : Held {
    explicit HeldAs(T its_value) : Held(type_of<T>()), value(std::move(its_value)) {}
    [[nodiscard]] std::unique_ptr<Held> copy() const override {
      return std::make_unique<HeldAs>(value);
    }
    [[nodiscard]] bool equals(const Held& other) const override {
      return value == static_cast<const HeldAs&>(other).value;
    }
    T value;
  };

  /// The first link of a chain. A `std::shared_ptr` cannot tell whether it is the only one in a way
  /// that orders the edit after the reads of a set that another thread has just destroyed.
  class First {
   public:
    First() = default;
    explicit First(Held* owned) : held_(owned) {}
    First(const First& other) : held_(other.held_) {
      if (held_ != nullptr) {
        held_->sets.fetch_add(1, std::memory_order_relaxed);
      }
    }
    First(First&& other) noexcept : held_(std::exchange(other.held_, nullptr)) {}
    First& operator=(First other) noexcept {
      std::swap(held_, other.held_);
      return *this;
    }
    ~First() {
      if (held_ != nullptr && held_->sets.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        delete held_;
      }
    }
    [[nodiscard]] Held* get() const { return held_; }
    /// Requires that no other set shares the chain.
    [[nodiscard]] Held* release() { return std::exchange(held_, nullptr); }
    [[nodiscard]] bool is_shared() const {
      return held_ != nullptr && held_->sets.load(std::memory_order_acquire) > 1;
    }

   private:
    Held* held_ = nullptr;
  };

  /// The address of a variable that each type has for itself.
  template <typename T>
  [[nodiscard]] static const void* type_of() {
    static const char kTag = 0;
    return &kTag;
  }
  template <typename T>
  [[nodiscard]] static const T& usual() {
    static const T value{};
    return value;
  }

  /// Copies the values if other sets share them.
  void own() {
    if (!first_.is_shared()) {
      return;
    }
    std::unique_ptr<Held> copied;
    std::unique_ptr<Held>* end = &copied;
    for (const Held* held = first_.get(); held != nullptr; held = held->next.get()) {
      *end = held->copy();
      end = &(*end)->next;
    }
    first_ = First(copied.release());
  }
  template <typename Goes>
  void remove_if(const Goes& goes) {
    own();
    std::unique_ptr<Held> chain(first_.release());
    std::unique_ptr<Held>* at = &chain;
    while (*at != nullptr) {
      if (goes((*at)->type)) {
        *at = std::move((*at)->next);
      } else {
        at = &(*at)->next;
      }
    }
    first_ = First(chain.release());
  }
  [[nodiscard]] std::size_t size() const {
    std::size_t count = 0;
    for (const Held* held = first_.get(); held != nullptr; held = held->next.get()) {
      ++count;
    }
    return count;
  }
  [[nodiscard]] bool is_within(const OwnOptions& other) const {
    for (const Held* held = first_.get(); held != nullptr; held = held->next.get()) {
      const Held* same = other.first_.get();
      while (same != nullptr && same->type != held->type) {
        same = same->next.get();
      }
      if (same == nullptr || !held->equals(*same)) {
        return false;
      }
    }
    return true;
  }

  First first_;
};

}  // namespace headroom::ir
