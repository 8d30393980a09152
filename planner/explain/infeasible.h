#pragma once

#include <optional>
#include <span>
#include <vector>

#include "planner/explain/mend.h"
#include "planner/search/search.h"

namespace headroom::plan {

/// Why no plan fits, and which changes would make one fit.
struct Infeasibility {
  /// The plan with the lowest peak in the space. Its capacity is the one under the question's
  /// budget.
  std::optional<RatedPlan> leanest;
  bool proven = false;  ///< Whether it is the lowest of all, not only of those evaluated.
  /// If the host has no room for any plan that was looked at, whatever the device has: the one that
  /// needs least of it.
  std::optional<RatedPlan> least_host;
  std::vector<Mend> mends;
};

/// A GPU on which the plans could run instead.
struct OtherDevice {
  cost::DeviceSpec device;
  cost::Machine machine;
};

/// The smallest change of each kind: more host memory, more GPUs, a shorter sequence, another value
/// of each axis that is held, a GPU with more memory, and more device memory. Each is replayed.
/// `found`: the answer of the search, in which nothing fits; more host memory is tried if some of
/// its plans lack nothing else.
///
/// Model:   memory: the least budget with which the replay of the leanest plan fits. Then steps of
///          doubling length towards the question's budget, with a search at each, and from the
///          first at which nothing fits, bisection to one segment of 2 MiB, or to a five-hundredth
///          where replays are judged by their chance. Host: the sizes that nodes have. GPUs: twice
///          as many, four times as many, and so on; then the fewest of all counts between the last
///          two; beyond one node, whole nodes. Sequences: 128 tokens, then by halving, then by
///          bisection to a sixty-fourth of the given length. Axes: the value nearest to the given
///          one, by position for words or by ratio for numbers. Devices: the one with the least
///          memory; `others` are in that order. Those with less than 95 % of the memory that was
///          found, or 75 % in another generation, are not tried, unless their hosts have more.
///          Every search ends after a fixed effort (`SearchQuestion::effort`).
/// Errors:  those of `search`.
[[nodiscard]] Result<Infeasibility> explain_infeasible(const SearchQuestion& question,
                                                       const PlanResult& found,
                                                       std::span<const OtherDevice> others,
                                                       SearchRecords& records);

/// The changes of hardware alone with which a plan of `question` fits: the fewest GPUs, and the GPU
/// with the least memory among `others`, which are in that order.
///
/// Errors:  those of `search`.
[[nodiscard]] Result<std::vector<Mend>> other_hardware(const SearchQuestion& question,
                                                       std::span<const OtherDevice> others,
                                                       SearchRecords& records);

}  // namespace headroom::plan
