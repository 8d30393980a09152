#pragma once

#include <memory>
#include <utility>

namespace headroom::ir {

/// The options of one framework, in a type that only its folder knows: either empty, or one value
/// of any type that can be copied and compared. Copies share the value until one of them is edited.
class OwnOptions {
 public:
  OwnOptions() = default;

  /// The options, if they are a `T`; nullptr otherwise.
  template <typename T>
  [[nodiscard]] const T* find() const {
    const auto* const held = dynamic_cast<const Held<T>*>(held_.get());
    return held == nullptr ? nullptr : &held->value;
  }
  /// The options as a `T` to edit. Edit at once: later copies of this object share the value. If
  /// the object is empty or has another type, a default `T` replaces its value.
  template <typename T>
  T& edit() {
    const T* const before = find<T>();
    auto copy = std::make_shared<Held<T>>(before == nullptr ? T{} : *before);
    T& value = copy->value;
    held_ = std::move(copy);
    return value;
  }
  void reset() { held_.reset(); }
  [[nodiscard]] bool has_value() const { return held_ != nullptr; }

  friend bool operator==(const OwnOptions& a, const OwnOptions& b) {
    return a.held_ == b.held_ || (a.held_ && b.held_ && a.held_->equals(*b.held_));
  }

 private:
  struct Any {
    Any() = default;
    Any(const Any&) = delete;
    Any& operator=(const Any&) = delete;
    virtual ~Any() = default;
    [[nodiscard]] virtual bool equals(const Any& other) const = 0;
  };
  template <typename T>
  struct Held final : Any {
    explicit Held(T options) : value(std::move(options)) {}
    [[nodiscard]] bool equals(const Any& other) const override {
      const auto* const same = dynamic_cast<const Held*>(&other);
      return same != nullptr && same->value == value;
    }
    T value;
  };
  std::shared_ptr<const Any> held_;
};

}  // namespace headroom::ir
