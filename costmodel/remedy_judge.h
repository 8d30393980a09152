#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "costmodel/remedy.h"

namespace headroom::cost {

/// Whether bounds may replace the replay of a plan that cannot fit.
enum class Bounds : std::uint8_t { kAllowed, kNone };

using Deadline = std::chrono::steady_clock::time_point;

/// `share` of the time that `limit` gives, from `begin` on.
[[nodiscard]] Deadline deadline_after(Deadline begin, Seconds limit, double share);

/// Copies verdict, peaks and margins of a replay into a remedy.
void take_result(const StepEstimate& replayed, Remedy& remedy);

/// The estimate of `plan`, which has the question's load of experts, with the step time of an even
/// share.
///
/// Errors:  those of `estimate`.
[[nodiscard]] Result<StepEstimate> replayed(const RemedyQuestion& question,
                                            const ir::ParallelPlan& plan);

/// Replays changed plans for one search. No plan is replayed twice.
class RemedyJudge {
 public:
  /// Question and estimate must outlive the judge. No replay starts after `deadline`.
  RemedyJudge(const RemedyQuestion& question, const StepEstimate& found, Deadline deadline);

  /// Whether a remedy is good enough: the answer to it is yes (`is_yes`), and it fits comfortably
  /// if the question's plan was tight.
  [[nodiscard]] bool mends(const Remedy& remedy) const;

  /// Sets whether only plans that fit comfortably mend from now on.
  void want_comfort(bool wanted) { comfort_ = wanted; }

  /// The plan after `changes`; nothing if one of them does not apply or the runtime refuses the
  /// plan.
  [[nodiscard]] std::optional<ir::ParallelPlan> changed(const std::vector<Change>& changes) const;

  /// The result of the plan after `changes`; nothing if they do not apply, the runtime refuses the
  /// plan or the time is over.
  [[nodiscard]] std::optional<Remedy> judge(const std::vector<Change>& changes,
                                            Bounds bounds = Bounds::kAllowed);

  /// Replaces the bounds of an estimated remedy with the results of a replay.
  void make_exact(Remedy& remedy);

  [[nodiscard]] std::size_t replays() const { return replays_; }
  [[nodiscard]] bool out_of_time() const {
    return std::chrono::steady_clock::now() > deadline_ || question_.stop.stop_requested();
  }
  [[nodiscard]] const RemedyQuestion& question() const { return question_; }
  [[nodiscard]] const ir::ParallelPlan& plan() const { return question_.plan; }

 private:
  [[nodiscard]] std::optional<Remedy> recall(const ir::ParallelPlan& plan, Bounds bounds) const;
  void bound_by(Bytes least, Remedy& remedy) const;
  [[nodiscard]] std::optional<Bytes> hopeless(const ir::ParallelPlan& plan) const;
  bool replay(Remedy& remedy);
  [[nodiscard]] Result<StepEstimate> replay_of(const ir::ParallelPlan& plan) const;
  [[nodiscard]] Result<StepEstimate> bare_replay_of(const ir::ParallelPlan& plan) const;

  const RemedyQuestion& question_;
  const StepEstimate& found_;
  Deadline deadline_;
  std::vector<Remedy> known_;
  std::vector<ir::ParallelPlan> refused_;
  std::size_t replays_ = 0;
  bool comfort_ = false;
};

/// The time of a step after a remedy, relative to the original one and at least 1; without times,
/// a number that grows with the price of the dearest change.
[[nodiscard]] double slowdown_of(const Remedy& remedy);

/// Whether a remedy trains something else than the question's plan.
[[nodiscard]] bool trains_otherwise(const Remedy& remedy);

/// Whether `remedy` comes before `other` among remedies that fit.
[[nodiscard]] bool is_cheaper(const Remedy& remedy, const Remedy& other);

}  // namespace headroom::cost
