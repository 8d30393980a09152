#pragma once

#include <utility>
#include <variant>

#include "model_ir/base/check.h"
#include "model_ir/base/error.h"

namespace headroom {

/// A value, or the `Error` that kept it from being made.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value)
      : state_(std::in_place_index<0>, std::move(value)) {
  }  // NOLINT(google-explicit-constructor): `return value;`
  Result(Error error)
      : state_(std::in_place_index<1>, std::move(error)) {
  }  // NOLINT(google-explicit-constructor): `return error;`

  [[nodiscard]] bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }

  [[nodiscard]] const T& value() const& {
    check_value();
    return std::get<0>(state_);
  }
  [[nodiscard]] T& value() & {
    check_value();
    return std::get<0>(state_);
  }
  [[nodiscard]] T&& value() && {
    check_value();
    return std::get<0>(std::move(state_));
  }
  [[nodiscard]] const T& operator*() const& { return value(); }
  [[nodiscard]] const T* operator->() const { return &value(); }
  [[nodiscard]] T* operator->() { return &value(); }

  [[nodiscard]] const Error& error() const& {
    HEADROOM_ASSERT(!has_value());
    return std::get<1>(state_);
  }
  [[nodiscard]] Error&& error() && {
    HEADROOM_ASSERT(!has_value());
    return std::get<1>(std::move(state_));
  }

 private:
  void check_value() const {
    if (!has_value()) {
      throw InternalError("value of a failed Result: " + to_text(std::get<1>(state_)));
    }
  }

  std::variant<T, Error> state_;
};

/// The result of something that yields nothing but may fail.
using Status = Result<std::monostate>;
[[nodiscard]] inline Status ok() {
  return std::monostate{};
}

}  // namespace headroom
