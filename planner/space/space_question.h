#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "model_ir/base/device_traits.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"
#include "planner/space/axis.h"

namespace headroom::plan {

class FrameworkSearch;

/// The plans among which the best is sought.
struct SpaceQuestion {
  const ir::ModelSpec& model;
  /// What no axis says: allocator, steps. Its sequence, world, precision and optimizer are the only
  /// ones of their axes where these are free. It has no framework's part.
  ir::ParallelPlan base;
  std::int64_t global_batch = 1;  ///< Sequences of a step, all ranks together.
  Constraints constraints;
  DeviceTraits device{};  ///< Which products in 8 bits there are.
};

/// Plans of one framework that differ only in `choices_of`: degrees, micro-batch and what else
/// decides the sizes of tensors are the same.
struct Cell {
  ir::ParallelPlan plan;  ///< Its first choice.
  std::uint64_t choices = 0;
  const FrameworkSearch* framework = nullptr;
};

/// The plans of a cell, which differ in what is recomputed and in switches that change no tensor's
/// size.
class Choices {
 public:
  Choices() = default;
  Choices(const Choices&) = delete;
  Choices& operator=(const Choices&) = delete;
  virtual ~Choices() = default;
  [[nodiscard]] virtual std::uint64_t size() const = 0;
  [[nodiscard]] virtual ir::ParallelPlan plan_at(std::uint64_t index) const = 0;
};

/// Choices that are listed one by one.
class ListedChoices final : public Choices {
 public:
  explicit ListedChoices(std::vector<ir::ParallelPlan> all) : plans(std::move(all)) {}
  [[nodiscard]] std::uint64_t size() const override { return plans.size(); }
  [[nodiscard]] ir::ParallelPlan plan_at(std::uint64_t index) const override {
    return plans[index];
  }
  const std::vector<ir::ParallelPlan> plans;
};

}  // namespace headroom::plan
