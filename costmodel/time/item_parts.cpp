#include "costmodel/time/item_parts.h"

#include <algorithm>

#include "model_ir/plan/work_range.h"

namespace headroom::cost {
namespace {

/// The part of work that is neither recomputed nor the optimizer's.
StepPart plain_part(const ir::WorkShape& shape) {
  if (const auto* gemm = std::get_if<ir::GemmShape>(&shape)) {
    return gemm->batch != ir::GemmBatch::kStrided ? StepPart::kExperts : StepPart::kMatrix;
  }
  return std::holds_alternative<ir::AttentionShape>(shape) ? StepPart::kAttention
                                                           : StepPart::kMemoryBound;
}

StepPart shape_part(const ir::WorkShape& shape) {
  if (const auto* collective = std::get_if<ir::CollectiveShape>(&shape)) {
    return part_of(collective->axis);
  }
  if (const auto* copy = std::get_if<ir::CopyShape>(&shape);
      copy != nullptr && copy->kind != ir::CopyKind::kDeviceToDevice) {
    return StepPart::kOffload;
  }
  return plain_part(shape);
}

bool is_computation(StepPart part) {
  return part == StepPart::kMatrix || part == StepPart::kExperts || part == StepPart::kAttention ||
         part == StepPart::kMemoryBound;
}

}  // namespace

std::vector<StepPart> item_parts(const ir::RankProgram& program) {
  const std::vector<ir::WorkItem>& items = program.work.items;
  std::vector<StepPart> parts(items.size(), StepPart::kHost);
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (items[i].kind == ir::WorkItem::Kind::kRun) {
      parts[i] = shape_part(program.work.shapes[items[i].index]);
    }
  }
  const auto replace = [&parts](std::size_t begin, std::size_t end, StepPart with) {
    for (std::size_t i = begin; i < end; ++i) {
      parts[i] = is_computation(parts[i]) ? with : parts[i];
    }
  };
  // The optimizer's computation counts as its own even where it would be recomputed.
  for (const ir::Phase& phase : program.phases) {
    if (ir::runs_optimizer(phase.name.kind)) {
      replace(phase.first_item, phase.end_item, StepPart::kOptimizer);
    }
  }
  for (const ir::WorkRange& range : ir::work_ranges(program)) {
    if (range.kind == ir::RangeKind::kRecomputation) {
      replace(range.begin, range.end, StepPart::kRecompute);
    }
  }
  return parts;
}

}  // namespace headroom::cost
