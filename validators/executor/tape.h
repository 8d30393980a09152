#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "validators/executor/context.h"

namespace headroom::exec {

/// The place of a gradient on a tape.
enum class Slot : std::int32_t { kNone = -1 };

/// A tensor in forward, with the slot in which its gradient arrives in backward.
struct Var {
  Tensor tensor;
  Slot slot = Slot::kNone;
};

/// The operators of a forward pass in order, with what each saves for backward.
///
/// A tape holds nothing but the saved tensors: whatever else forward makes lives as long as the
/// caller's `Var`. In backward, an operator takes the gradient of its output, adds to those of its
/// inputs, and is then destroyed with what it saved. A tape that does not record (`Mode::kSilent`)
/// runs the same code and keeps nothing, which is all that recomputation needs.
class Tape {
 public:
  enum class Mode : std::uint8_t { kRecord, kSilent };
  Tape(Context& context, Mode mode) : context_(context), mode_(mode) {}
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  struct Node {
    std::string_view operation;  ///< A literal.
    int layer = -1;
    std::vector<Tensor> saved;
    std::function<void(Tape&, Node&)> backward;
  };

  [[nodiscard]] Context& context() { return context_; }
  [[nodiscard]] bool records() const { return mode_ == Mode::kRecord; }

  /// A tensor that has a gradient in backward.
  [[nodiscard]] Var variable(const Tensor& tensor);
  /// Keeps an operator for backward.
  void record(std::string_view operation, std::vector<Tensor> saved,
              std::function<void(Tape&, Node&)> backward);
  /// Runs the backward of all operators, the last one first.
  void backward();

  /// The gradient that has arrived in a slot, which is then empty; an empty tensor if none has.
  [[nodiscard]] Tensor take(Slot slot);
  /// Adds to the gradient in a slot: in place if nobody else has that tensor.
  void add(Slot slot, const Tensor& gradient);
  /// The gradient in a slot if it may be added to in place; otherwise an empty tensor.
  [[nodiscard]] Tensor to_add_to(Slot slot) const;

  [[nodiscard]] std::size_t size() const { return nodes_.size(); }
  /// Blocks of activations that the operators from number `first` on have saved, each once.
  [[nodiscard]] std::vector<std::shared_ptr<Storage>> saved_since(std::size_t first) const;

 private:
  [[nodiscard]] Tensor& gradient(Slot slot) { return gradients_[static_cast<std::size_t>(slot)]; }

  Context& context_;
  Mode mode_;
  std::vector<Node> nodes_;
  std::vector<Tensor> gradients_;  ///< Gradients by slot.
};

/// Runs `body` without saving anything but `inputs`, and once more in backward.
///
/// Source: Chen et al. 2016, Training Deep Nets with Sublinear Memory Cost, arXiv:1604.06174.
[[nodiscard]] Var recompute(Tape& tape, const std::vector<Var>& inputs,
                            const std::function<Var(Tape&, const std::vector<Var>&)>& body);

}  // namespace headroom::exec
