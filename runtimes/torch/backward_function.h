#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtimes/torch/tensor.h"

namespace headroom::ir::torch {

using Gradients = std::vector<Tensor>;

/// What a node runs: takes the gradients of the outputs, returns the gradients of the inputs
/// (undefined if not needed).
///
/// A std::function with more room of its own: what an operator remembers for backward lives as long
/// as the graph, and allocating it for every operator took a tenth of the time of a lowering.
class BackwardFunction {
 public:
  BackwardFunction() = default;
  template <class F>
  requires(!std::same_as<std::decay_t<F>, BackwardFunction> &&
           std::is_invocable_r_v<Gradients, std::decay_t<F>&, Eager&, Gradients&, Node&>)
      BackwardFunction(F&& function)  // NOLINT(google-explicit-constructor): as std::function.
      : methods_(&kMethods<std::decay_t<F>>) {
    using Own = std::decay_t<F>;
    if constexpr (fits<Own>()) {
      ::new (static_cast<void*>(room_.data())) Own(std::forward<F>(function));
    } else {
      ::new (static_cast<void*>(room_.data())) Own*(new Own(std::forward<F>(function)));
    }
  }
  BackwardFunction(const BackwardFunction& other) : methods_(other.methods_) {
    if (methods_ != nullptr) {
      methods_->copy(other, *this);
    }
  }
  BackwardFunction(BackwardFunction&& other) noexcept { take(other); }
  BackwardFunction& operator=(const BackwardFunction& other) {
    if (this != &other) {
      *this = BackwardFunction(other);
    }
    return *this;
  }
  BackwardFunction& operator=(BackwardFunction&& other) noexcept {
    if (this != &other) {
      reset();
      take(other);
    }
    return *this;
  }
  ~BackwardFunction() { reset(); }

  /// Forgets the function, and what it remembers.
  void reset() {
    if (const Methods* const methods = std::exchange(methods_, nullptr)) {
      methods->destroy(*this);
    }
  }
  Gradients operator()(Eager& eager, Gradients& gradients, Node& node) const {
    return methods_->call(*this, eager, gradients, node);
  }

 private:
  static constexpr std::size_t kRoom = 64;
  struct Methods {
    Gradients (*call)(const BackwardFunction&, Eager&, Gradients&, Node&);
    void (*copy)(const BackwardFunction& from, BackwardFunction& to);
    void (*move)(BackwardFunction& from, BackwardFunction& to);  ///< Nothing is left in `from`.
    void (*destroy)(BackwardFunction&);
  };

  template <class F>
  [[nodiscard]] static constexpr bool fits() {
    return sizeof(F) <= kRoom && alignof(F) <= alignof(std::max_align_t) &&
           std::is_nothrow_move_constructible_v<F>;
  }
  template <class F>
  [[nodiscard]] static F& function_of(const BackwardFunction& self) {
    if constexpr (fits<F>()) {
      return *std::launder(reinterpret_cast<F*>(self.room_.data()));
    } else {
      return **std::launder(reinterpret_cast<F**>(self.room_.data()));
    }
  }

  template <class F>
  static Gradients call_of(const BackwardFunction& self, Eager& eager, Gradients& grads,
                           Node& node) {
    return function_of<F>(self)(eager, grads, node);
  }
  template <class F>
  static void copy_of(const BackwardFunction& from, BackwardFunction& to) {
    const F& function = function_of<F>(from);
    if constexpr (fits<F>()) {
      ::new (static_cast<void*>(to.room_.data())) F(function);
    } else {
      ::new (static_cast<void*>(to.room_.data())) F*(new F(function));
    }
  }
  template <class F>
  static void move_of(BackwardFunction& from, BackwardFunction& to) {
    if constexpr (fits<F>()) {
      F& function = function_of<F>(from);
      ::new (static_cast<void*>(to.room_.data())) F(std::move(function));
      function.~F();
    } else {
      ::new (static_cast<void*>(to.room_.data())) F*(&function_of<F>(from));
    }
  }
  template <class F>
  static void destroy_of(BackwardFunction& self) {
    if constexpr (fits<F>()) {
      function_of<F>(self).~F();
    } else {
      delete &function_of<F>(self);
    }
  }
  template <class F>
  static constexpr Methods kMethods{&call_of<F>, &copy_of<F>, &move_of<F>, &destroy_of<F>};

  void take(BackwardFunction& other) {
    methods_ = std::exchange(other.methods_, nullptr);
    if (methods_ != nullptr) {
      methods_->move(other, *this);
    }
  }

  const Methods* methods_ = nullptr;
  alignas(std::max_align_t) mutable std::array<std::byte,
                                               kRoom> room_;  ///< The function, or where it is.
};

}  // namespace headroom::ir::torch
