#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model_ir/base/device_traits.h"
#include "model_ir/base/result.h"
#include "model_ir/plan/host_term.h"
#include "model_ir/plan/rank_program.h"
#include "runtimes/megatron/search/sample_form.h"

namespace headroom::plan {

/// Memory of a Megatron program before and between the micro-batches: parameters, gradient buffers
/// and optimizer shards, in bytes.
struct StaticMemory {
  std::int64_t construction_peak = 0;  ///< Peak of the phases before the first step.
  struct Step {
    std::int64_t base = 0;            ///< Alive between zero_grad and the optimizer.
    std::int64_t optimizer_peak = 0;  ///< Without what remains of activations.
    std::int64_t optimizer_end = 0;
    friend bool operator==(const Step&, const Step&) = default;
  };
  std::vector<Step> steps;
  std::vector<ir::HostTerm> host;  ///< The optimizer's memory on the host.
  friend bool operator==(const StaticMemory&, const StaticMemory&) = default;
};

/// Lowers everything of `plan` except its micro-batches.
///
/// Errors:  those of the runtime's lowering.
[[nodiscard]] Result<StaticMemory> static_memory(const ir::ModelSpec& model,
                                                 const ir::ParallelPlan& plan, ir::Rank rank,
                                                 const DeviceTraits& device);

/// The position of a moment in a program, so that the same moment is found in a longer program. It
/// consists of the step, the direction, the operator, and the layer counted from both ends of its
/// run.
using RegionKey = std::string;

/// The maximum of live bytes in each region of a program's steps, above `StaticMemory::Step::base`.
struct RegionPeak {
  RegionKey key;
  int step = 0;
  std::int64_t bytes = 0;
};

/// What is read off one short program.
struct ProgramSample {
  std::vector<RegionPeak> regions;  ///< Sorted by their keys.
  struct Step {
    /// Alive when the optimizer begins, above the static program's bytes.
    std::int64_t remains = 0;
    std::int64_t log = 0;  ///< While losses are logged, above `optimizer_end`.
  };
  std::vector<Step> steps;
};

/// Lowers `question` and its static part for `rank`, and reads the peaks of all regions.
///
/// Model:   the layers of a run between its second and its last but one allocate like these two,
///          with bytes that change linearly from one to the other. So only the first two and the
///          last two are regions.
/// Errors:  those of the runtime's lowering.
[[nodiscard]] Result<ProgramSample> sample_program(const ShortQuestion& question,
                                                   const SampleForm& form, ir::Rank rank,
                                                   const DeviceTraits& device);

}  // namespace headroom::plan
