#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "costmodel/estimate.h"
#include "planner/evaluate/plan_figures.h"
#include "planner/space/axis.h"

namespace headroom::plan {

/// The smallest change of one kind that makes an infeasible question feasible. It is replayed.
struct Mend {
  enum class Kind : std::uint8_t { kBudget, kHost, kGpus, kSequence, kAxis, kDevice };
  Kind kind = Kind::kGpus;
  Axis axis = Axis::kGpus;  ///< kAxis: the axis that changes.
  std::int64_t value = 0;   ///< Bytes of device or host, GPUs, tokens, or a value of `axis`.
  std::int64_t batch = 0;   ///< kGpus: sequences of a step, if more are needed.
  std::string device;       ///< kDevice: the device's name.
  /// Whether no smaller change of this kind suffices. Of memory, where replays are judged by their
  /// chance: whether none suffices that is smaller by a five-hundredth. False if a search for a
  /// smaller change ended after its effort, or was left out.
  bool proven = true;
  RatedPlan plan;
  cost::Verdict verdict = cost::Verdict::kFits;
  std::optional<double> chance;  ///< To fit on the device, if measured errors tell it.
};

}  // namespace headroom::plan
