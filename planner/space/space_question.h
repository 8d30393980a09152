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

/// The space of plans in which the best is searched.
struct SpaceQuestion {
  const ir::ModelSpec& model;
  /// What is not an axis: allocator, steps. If the axes of its sequence, world, precision and
  /// optimizer are free, they have only its values. It has no framework's own options.
  ir::ParallelPlan base;
  std::int64_t global_batch = 1;  ///< Sequences of a step on all ranks together.
  Constraints constraints;
  DeviceTraits device{};  ///< Determines which 8-bit products exist.
};

/// A cell contains plans of one framework that have the same tensor sizes: degrees, micro-batch and
/// everything else that determines sizes are equal. They differ only in `choices_of`.
struct Cell {
  ir::ParallelPlan plan;  ///< Its first choice.
  std::uint64_t choices = 0;
  const FrameworkSearch* framework = nullptr;
};

/// The plans of a cell. They differ in recomputation and in switches (settings that change no
/// tensor's size).
class Choices {
 public:
  Choices() = default;
  Choices(const Choices&) = delete;
  Choices& operator=(const Choices&) = delete;
  virtual ~Choices() = default;
  [[nodiscard]] virtual std::uint64_t size() const = 0;
  [[nodiscard]] virtual ir::ParallelPlan plan_at(std::uint64_t index) const = 0;
};

/// Choices in an explicit list.
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
