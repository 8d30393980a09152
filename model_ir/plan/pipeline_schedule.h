#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "model_ir/base/result.h"

/// The order in which the stages of a pipeline process the micro-batches of a step.
namespace headroom::ir {

enum class PipelineKind : std::uint8_t {
  kGPipe,
  kOneForwardOneBackward,
  kInterleaved,  ///< 1F1B with several chunks of layers on each stage.
  kZbH1,         ///< Zero bubble with 1F1B's memory; with several chunks as kInterleaved.
  kZbV,          ///< Zero bubble with two chunks per stage in a V shape.
  kDualPipeV,    ///< Half of DualPipe: two chunks per stage in a V shape.
};
/// "gpipe", "1f1b", "interleaved", "zb-h1", "zb-v", "dualpipev".
[[nodiscard]] std::string_view name_of(PipelineKind kind);
/// Whether the two chunks of each stage form a V.
[[nodiscard]] bool is_v_shaped(PipelineKind kind);

/// A pipeline. `chunks`: pieces of the model on each stage, for kInterleaved and kZbH1; the
/// V-shaped schedules have two, the others one. `group`: micro-batches that an
/// interleaved schedule runs through one chunk before the next; 0: as many as stages. `together`:
/// an interleaved schedule runs each forward of its steady state at the same time as a backward.
struct PipelineShape {
  PipelineKind kind = PipelineKind::kOneForwardOneBackward;
  std::int64_t stages = 1;
  std::int64_t micro_batches = 1;
  std::int64_t chunks = 1;
  std::int64_t group = 0;
  bool together = false;
  friend bool operator==(const PipelineShape&, const PipelineShape&) = default;
};
/// Chunks on each stage under the shape's kind.
[[nodiscard]] std::int64_t chunks_of(const PipelineShape& shape);

/// A backward pass is whole or split in two: the gradient of the input, which the previous stage
/// needs, and the weight gradients, which no other stage needs.
enum class PipelineWork : std::uint8_t { kForward, kBackward, kBackwardInput, kBackwardWeight };

struct PipelineAction {
  PipelineWork work = PipelineWork::kForward;
  std::int32_t chunk = 0;  ///< Index of the chunk on the stage.
  std::int32_t micro_batch = 0;
  bool with_next = false;  ///< Runs at the same time as the next action (kDualPipeV, `together`).
  friend bool operator==(const PipelineAction&, const PipelineAction&) = default;
};

/// A chunk of layers on a stage.
struct PipelinePlace {
  std::int64_t stage = 0;
  std::int64_t chunk = 0;
  friend bool operator==(const PipelinePlace&, const PipelinePlace&) = default;
};
/// Where a micro-batch goes forward after `place`; nothing after the last layer.
[[nodiscard]] std::optional<PipelinePlace> place_after(const PipelineShape& shape,
                                                       PipelinePlace place);
/// Where a micro-batch comes from before `place`; nothing before the first layer.
[[nodiscard]] std::optional<PipelinePlace> place_before(const PipelineShape& shape,
                                                        PipelinePlace place);

/// Errors: kInvalidArgument naming what the schedule does not accept: stages or micro-batches below
/// 1,
///         DualPipe on an odd number of stages or with fewer micro-batches than it needs to fill
///         its stages.
[[nodiscard]] Status check_pipeline(const PipelineShape& shape);

/// The actions of one stage, in order.
///
/// Requires that `check_pipeline` accepts the shape.
/// Source:  Huang et al. 2019, "GPipe", arXiv:1811.06965, section 2.3; Narayanan et al. 2021,
///          arXiv:2104.04473, section 2.2, with the order of NVIDIA/Megatron-LM
///          megatron/core/pipeline_parallel/schedules.py; Qi et al. 2023, "Zero Bubble Pipeline
///          Parallelism", arXiv:2401.10241, sections 2 and 3 (H1, H2), with several chunks in the
///          order of pytorch/pytorch torch/distributed/pipelining/schedules.py,
///          ScheduleInterleavedZeroBubble; Qi et al. 2024,
///          arXiv:2405.15362 (V), with the order of pytorch/pytorch
///          torch/distributed/pipelining/schedules.py, ScheduleZBVZeroBubble; DeepSeek-AI 2024,
///          arXiv:2412.19437, section 3.2.1, with the order of deepseek-ai/DualPipe
///          dualpipe/dualpipe.py, `step`.
[[nodiscard]] std::vector<PipelineAction> actions_of_stage(const PipelineShape& shape,
                                                           std::int64_t stage);

/// The chunk that each step of an interleaved schedule runs on a stage, micro-batches in groups.
/// Source: Megatron-LM schedules.py, get_schedule_table.
[[nodiscard]] std::vector<std::int64_t> chunk_order(std::int64_t micro_batches, std::int64_t chunks,
                                                    std::int64_t group);

/// Micro-batches (of any chunk) that a stage of 1F1B or of an interleaved schedule runs forward
/// before its first backward.
/// Source: Megatron-LM schedules.py, get_pp_rank_microbatches.
[[nodiscard]] std::int64_t warmup_of_stage(const PipelineShape& shape, std::int64_t stage);

}  // namespace headroom::ir
