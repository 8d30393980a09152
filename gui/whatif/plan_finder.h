#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "gui/whatif/scenario.h"
#include "model_ir/base/result.h"
#include "planner/explain/explain.h"
#include "planner/search/search.h"

namespace headroom::gui {

/// The frameworks that are searched.
enum class SearchedFrameworks : std::uint8_t { kOwn, kAll };

/// A search for plans that do what a scenario does: its model, GPUs, sequence and global batch.
///
/// Model:   the space and the rules of `headroom plan`: arithmetic in 16 bits with fp32 masters,
///          the scenario's optimizer, adapters and allocator; a plan must fit with a chance of at
///          least 90 %.
class PlanFinder {
 public:
  /// Errors:  those of `load_source`, `load_device` and `load_machine`.
  [[nodiscard]] static Result<std::shared_ptr<PlanFinder>> make(const std::string& config_dir,
                                                                const Scenario& scenario,
                                                                SearchedFrameworks frameworks);
  PlanFinder(const PlanFinder&) = delete;
  PlanFinder& operator=(const PlanFinder&) = delete;
  ~PlanFinder() = default;

  /// The question, which refers to this object.
  [[nodiscard]] plan::SearchQuestion& question() { return question_; }
  [[nodiscard]] const plan::SearchQuestion& question() const { return question_; }
  /// Results that the finder's searches share.
  [[nodiscard]] plan::SearchRecords& records() { return records_; }
  [[nodiscard]] Bytes capacity() const { return capacity_; }

  /// Only plans that have the values of `plan` on every axis but those of `free`, by option; none
  /// free: nothing is held.
  void holdAllBut(const std::set<std::string>& free, const ir::ParallelPlan& plan);
  /// Only plans that have the values of `plan` on every axis but recomputation.
  void holdAllButRecomputation(const ir::ParallelPlan& plan);

  /// Tokens of a step of `rated` per second of its predicted time, all ranks together.
  [[nodiscard]] double tokensPerSecond(const plan::RatedPlan& rated) const;

 private:
  struct Parts {
    ir::ModelSpec model;
    cost::DeviceSpec device;
    cost::Machine machine;
    std::vector<cost::ResidualSet> residuals;
  };
  PlanFinder(Parts parts, const Scenario& scenario, SearchedFrameworks frameworks);

  Parts parts_;
  plan::SearchQuestion question_;
  plan::SearchRecords records_;
  Bytes capacity_;
};

/// An axis on which two plans differ: its option and both values, as a user types them.
struct AxisDifference {
  plan::Axis axis;
  std::string one;
  std::string other;
};
[[nodiscard]] std::vector<AxisDifference> differences(const ir::ParallelPlan& one,
                                                      const ir::ParallelPlan& other);

}  // namespace headroom::gui
