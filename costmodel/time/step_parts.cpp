#include "costmodel/time/step_parts.h"

namespace headroom::cost {
namespace {

struct Words {
  std::string_view name;
  std::string_view text;
};
constexpr std::array<Words, kStepParts> kWords = {
    {{"matrix", "matrix products"},
     {"experts", "experts"},
     {"attention", "attention"},
     {"memory_bound", "memory-bound kernels"},
     {"recompute", "recomputation"},
     {"optimizer", "optimizer"},
     {"host", "launches"},
     {"tensor_parallel", "tensor-parallel communication"},
     {"context_parallel", "context-parallel communication"},
     {"expert_parallel", "expert-parallel communication"},
     {"data_parallel", "data-parallel communication"},
     {"pipeline_transfers", "pipeline transfers"},
     {"bubble", "pipeline bubble"},
     {"offload", "host copies and offload"}}};

}  // namespace

std::string_view name_of(StepPart part) {
  return kWords.at(static_cast<std::size_t>(part)).name;
}

std::string_view describe(StepPart part) {
  return kWords.at(static_cast<std::size_t>(part)).text;
}

void PartTimes::add(const PartTimes& other, double factor) {
  for (std::size_t i = 0; i < kStepParts; ++i) {
    times_.at(i) += factor * other.times_.at(i);
  }
}

Seconds PartTimes::total() const {
  Seconds sum;
  for (const Seconds time : times_) {
    sum += time;
  }
  return sum;
}

StepPart part_of(ir::MeshAxis axis) {
  switch (axis) {
    case ir::MeshAxis::kData:
      return StepPart::kData;
    case ir::MeshAxis::kTensor:
      return StepPart::kTensor;
    case ir::MeshAxis::kContext:
      return StepPart::kContext;
    case ir::MeshAxis::kExpert:
      return StepPart::kExpert;
    case ir::MeshAxis::kPipeline:
      return StepPart::kPipeline;
  }
  return StepPart::kData;
}

}  // namespace headroom::cost
