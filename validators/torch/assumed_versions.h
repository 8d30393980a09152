#pragma once

#include <string>
#include <utility>
#include <vector>

#include "model_ir/plan/parallel_plan.h"

namespace headroom::check {

/// A package whose code decides what is allocated.
struct PackageVersion {
  std::string package;
  std::string used;     ///< "2.11.0+cu130"
  std::string assumed;  ///< "2.11": the release that the prediction follows; empty: any.
  /// Whether `used` is of that release.
  [[nodiscard]] bool agrees() const;
  friend bool operator==(const PackageVersion&, const PackageVersion&) = default;
};

/// The packages of a run with the releases that the prediction for `plan` assumes.
[[nodiscard]] std::vector<PackageVersion> compared_versions(
    const ir::ParallelPlan& plan, const std::vector<std::pair<std::string, std::string>>& used);

}  // namespace headroom::check
