#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model_ir/base/device_traits.h"
#include "model_ir/base/result.h"
#include "model_ir/plan/rank_program.h"
#include "runtimes/megatron/search/sample_form.h"

namespace headroom::plan {

/// What stands before and between the micro-batches of a Megatron program: parameters, gradient
/// buffers, optimizer shards. Bytes.
struct StaticMemory {
  std::int64_t construction_peak = 0;  ///< Of the phases model, ddp and optimizer_object.
  struct Step {
    std::int64_t base = 0;            ///< Alive between zero_grad and the optimizer.
    std::int64_t optimizer_peak = 0;  ///< Without activations' remains.
    std::int64_t optimizer_end = 0;
    friend bool operator==(const Step&, const Step&) = default;
  };
  std::vector<Step> steps;
  friend bool operator==(const StaticMemory&, const StaticMemory&) = default;
};

/// Lowers everything of `plan` but its micro-batches.
///
/// Errors:  those of the runtime's lowering.
[[nodiscard]] Result<StaticMemory> static_memory(const ir::ModelSpec& model,
                                                 const ir::ParallelPlan& plan, ir::Rank rank,
                                                 const DeviceTraits& device);

/// Where in a program a moment is, so that the same moment is found in a longer one: step,
/// direction, operator, and the layer counted from both ends of its run.
using RegionKey = std::string;

/// The most that is alive in each region of a program's steps, above `StaticMemory::Step::base`.
struct RegionPeak {
  RegionKey key;
  int step = 0;
  std::int64_t bytes = 0;
};

/// One short program, read off.
struct ProgramSample {
  std::vector<RegionPeak> regions;  ///< In the order of their keys.
  struct Step {
    std::int64_t remains = 0;  ///< Alive at the optimizer's begin, above the static program's.
    std::int64_t log = 0;      ///< While losses are logged, above `optimizer_end`.
  };
  std::vector<Step> steps;
};

/// Lowers `question` and its static part for `rank` and reads the peaks of all regions.
///
/// Model:   layers of a run between its second and its last but one do what these do, with bytes
///          that grow linearly from one to the other: only the two first and the two last are
///          regions.
/// Errors:  those of the runtime's lowering.
[[nodiscard]] Result<ProgramSample> sample_program(const ShortQuestion& question,
                                                   const SampleForm& form, ir::Rank rank,
                                                   const DeviceTraits& device);

}  // namespace headroom::plan
