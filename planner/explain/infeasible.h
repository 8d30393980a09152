#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "planner/search/search.h"

namespace headroom::plan {

/// A change of the question that makes it feasible, replayed.
struct Mend {
  enum class Kind : std::uint8_t { kBudget, kGpus, kSequence, kAxis, kDevice };
  Kind kind = Kind::kGpus;
  Axis axis = Axis::kGpus;  ///< kAxis: which.
  std::int64_t value = 0;   ///< Bytes of the device, GPUs, tokens, or of `axis`.
  std::int64_t batch = 0;   ///< kGpus: sequences of a step, where these must be more.
  std::string device;       ///< kDevice: its name.
  bool proven = true;       ///< No smaller change of this kind would do.
  RatedPlan plan;
  cost::Verdict verdict = cost::Verdict::kFits;
};

/// Why nothing fits and what would.
struct Infeasibility {
  /// The lowest peak of the space; its capacity is that under the budget asked about.
  std::optional<RatedPlan> leanest;
  bool proven = false;  ///< It is the lowest of all; else of the plans that were looked into.
  std::vector<Mend> mends;
};

/// A GPU that the plans could run on instead.
struct OtherDevice {
  cost::DeviceSpec device;
  cost::Machine machine;
};

/// The smallest change of each kind: device memory, GPUs, a shorter sequence, another value of each
/// axis that is held, a GPU with more memory. Each is replayed.
///
/// Model:   memory: the least budget under which the leanest plan's replay fits, then, halving
///          towards what the question has, that of the plan which a search finds at each middle,
///          to the 2 MiB of a segment. GPUs: the fewest of all counts up to twice as many, then of
///          those up to four times, and so on. Sequences: by halving, then to a sixty-fourth of
///          what was asked. Axes: the value nearest to what was asked, in the order of the axis's
///          words or by ratio. Devices: the least memory of `others`, which are in that order.
/// Errors:  those of `search`.
[[nodiscard]] Result<Infeasibility> explain_infeasible(const SearchQuestion& question,
                                                       std::span<const OtherDevice> others,
                                                       SearchRecords& records);

}  // namespace headroom::plan
