#include "runtimes/torchtitan/pipeline.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>

#include "runtimes/torch/range_scope.h"
#include "runtimes/torchtitan/loss.h"
#include "runtimes/torchtitan/plan.h"

namespace headroom::ir::torchtitan {

using torch::Eager;
using torch::Shape;
using torch::Tensor;

namespace {

/// Number of chunks that are kept gathered at the same time.
constexpr std::size_t kActiveChunks = 3;

/// The next chunks that have passes, starting with action `first`, in their order.
std::vector<std::int32_t> next_chunks(std::span<const PipelineAction> actions, std::size_t first) {
  std::vector<std::int32_t> next;
  for (std::size_t i = first; i < actions.size() && next.size() < kActiveChunks; ++i) {
    if (std::find(next.begin(), next.end(), actions[i].chunk) == next.end()) {
      next.push_back(actions[i].chunk);
    }
  }
  return next;
}

PipelineStep around(PipelineStep::Kind kind, std::int32_t chunk) {
  return {.kind = kind, .action = {.chunk = chunk}};
}

}  // namespace

std::vector<PipelineStep> with_gathers(std::span<const PipelineAction> actions,
                                       std::int64_t micro_batches) {
  std::vector<PipelineStep> steps;
  std::set<std::int32_t> active;
  std::vector<std::int64_t> ended;
  for (std::size_t i = 0; i < actions.size(); ++i) {
    // The schedule treats the two actions as one.
    const bool joined = i > 0 && actions[i - 1].with_next;
    const std::vector<std::int32_t> next = next_chunks(actions, i);
    for (auto chunk = active.begin(); chunk != active.end() && !joined;) {
      if (std::find(next.begin(), next.end(), *chunk) == next.end()) {
        steps.push_back(around(PipelineStep::Kind::kReshard, *chunk));
        chunk = active.erase(chunk);
      } else {
        ++chunk;
      }
    }
    for (const std::int32_t chunk : next) {
      if (!joined && active.insert(chunk).second) {
        steps.push_back(around(PipelineStep::Kind::kUnshard, chunk));
      }
    }
    const PipelineAction& action = actions[i];
    steps.push_back({.kind = PipelineStep::Kind::kPass, .action = action});
    if (action.work == PipelineWork::kBackward || action.work == PipelineWork::kBackwardWeight) {
      const auto index = static_cast<std::size_t>(action.chunk);
      ended.resize(std::max(ended.size(), index + 1));
      if (++ended[index] == micro_batches) {
        steps.push_back(around(PipelineStep::Kind::kReduce, action.chunk));
      }
    }
  }
  for (const std::int32_t chunk : active) {
    steps.push_back(around(PipelineStep::Kind::kReshard, chunk));
  }
  return steps;
}

Pipeline::Pipeline(Eager& eager, TensorMesh& mesh,
                   std::span<const std::unique_ptr<ModelPart>> parts, std::int64_t rank)
    : eager_(eager), plan_(*parts.front()->model.plan) {
  const auto layers = static_cast<std::int64_t>(parts.front()->model.spec->layers.size());
  shape_ = titan_pipeline(plan_, layers);
  actions_ = actions_of_stage(shape_, rank);
  const std::vector<TitanChunk> chunks = titan_chunks(plan_, layers, rank);
  const auto is_here = [&chunks](std::int64_t index) {
    return std::any_of(chunks.begin(), chunks.end(),
                       [index](const TitanChunk& chunk) { return chunk.index == index; });
  };
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const StagePlace place{.chunk = chunks[i],
                           .previous_here = is_here(chunks[i].index - 1),
                           .next_here = is_here(chunks[i].index + 1),
                           .micro_batches = shape_.micro_batches,
                           .distance = plan_.world / shape_.stages};
    stages_.push_back(std::make_unique<PipelineStage>(eager, mesh, *parts[i], place));
  }
}

/// tensor_split along the batch; the results are views.
Pipeline::Pieces Pipeline::split(const Tensor& whole) const {
  const Shape piece = whole.shape().with(0, titan_of(plan_).pipeline_batch);
  Pieces pieces;
  for (std::int64_t i = 0; i < shape_.micro_batches; ++i) {
    pieces.push_back(eager_.alias(whole, piece, true));
  }
  return pieces;
}

/// _initialize_stages: sends a number to each neighbour, then stages allocate their buffers.
void Pipeline::prepare() {
  if (std::exchange(prepared_, true)) {
    return;
  }
  eager_.set_site("pipeline.neighbours", -1);
  Pieces numbers;
  for (std::size_t i = 0; i < 2 * stages_.size(); ++i) {
    numbers.push_back(eager_.empty({1}, DType::kFp32, TensorRole::kCommunication));
  }
  for (const std::unique_ptr<PipelineStage>& stage : stages_) {
    stage->prepare_forward();
  }
  for (const std::unique_ptr<PipelineStage>& stage : stages_) {
    stage->prepare_backward();
  }
}

std::vector<Tensor> Pipeline::step(const Tensor& ids, const Tensor& labels) {
  for (const std::unique_ptr<PipelineStage>& stage : stages_) {
    stage->clear();
  }
  ids_ = split(ids);
  labels_ = split(labels);
  prepare();
  if (stages_.size() == 1) {
    run_one_stage();
  } else {
    run_stages();
  }
  ids_.clear();
  labels_.clear();
  return std::exchange(losses_, {});
}

/// The stage `step` stages later in the model, if it is in this process.
PipelineStage* Pipeline::neighbour(const PipelineStage& stage, std::int64_t step) {
  for (const std::unique_ptr<PipelineStage>& other : stages_) {
    if (other->place().chunk.index == stage.place().chunk.index + step) {
      return other.get();
    }
  }
  return nullptr;
}

Tensor Pipeline::run_forward(const PipelineAction& action) {
  const torch::RangeScope pass(eager_, RangeKind::kForwardPass, action.chunk);
  PipelineStage& stage = *stages_[static_cast<std::size_t>(action.chunk)];
  const auto index = static_cast<std::size_t>(action.micro_batch);
  stage.receive_input();
  Tensor output = stage.forward(action.micro_batch, ids_[index]);
  stage.send_output(output);
  return output;
}

/// Returns the gradient for the previous stage.
Tensor Pipeline::run_backward(const PipelineAction& action) {
  const bool whole = action.work == PipelineWork::kBackward;
  const torch::RangeScope pass(eager_, whole ? RangeKind::kBackwardPass : RangeKind::kInputPass,
                               action.chunk);
  PipelineStage& stage = *stages_[static_cast<std::size_t>(action.chunk)];
  stage.receive_gradient();
  const Tensor loss =
      stage.place().chunk.last ? losses_[static_cast<std::size_t>(action.micro_batch)] : Tensor{};
  if (whole) {
    stage.backward(action.micro_batch, loss);
  } else {
    stage.backward_input(action.micro_batch, loss);
  }
  Tensor gradient = stage.take_gradient(action.micro_batch);
  stage.send_gradient(gradient);
  return gradient;
}

void Pipeline::run_weight(const PipelineAction& action) {
  const torch::RangeScope pass(eager_, RangeKind::kWeightPass, action.chunk);
  stages_[static_cast<std::size_t>(action.chunk)]->backward_weight(action.micro_batch);
}

/// Schedule1F1B and ScheduleGPipe. The gradient that was sent back last keeps its name: with 1F1B
/// until the next gradient has been computed, with GPipe until the next backward begins.
void Pipeline::run_one_stage() {
  PipelineStage& stage = *stages_.front();
  Tensor output;
  Tensor gradient;
  for (const PipelineAction& action : actions_) {
    if (action.work == PipelineWork::kForward) {
      output = run_forward(action);
      if (stage.place().chunk.last) {
        const auto index = static_cast<std::size_t>(action.micro_batch);
        losses_.push_back(loss_of(eager_, plan_, output, labels_[index]));
      }
      continue;
    }
    if (shape_.kind == PipelineKind::kGPipe) {
      gradient.reset();
    }
    gradient = run_backward(action);
  }
  stage.hooks().reduce_gradients();
}

void Pipeline::run_pass(const PipelineAction& action) {
  PipelineStage& stage = *stages_[static_cast<std::size_t>(action.chunk)];
  stage.hooks().wait_unshard();
  if (action.work == PipelineWork::kForward) {
    const Tensor output = run_forward(action);
    if (stage.place().chunk.last) {
      const auto index = static_cast<std::size_t>(action.micro_batch);
      losses_.push_back(loss_of(eager_, plan_, output, labels_[index]));
    } else if (PipelineStage* const next = neighbour(stage, 1)) {
      next->set_input(action.micro_batch, output);
    }
    return;
  }
  if (action.work == PipelineWork::kBackwardWeight) {
    run_weight(action);
    return;
  }
  const Tensor gradient = run_backward(action);
  if (PipelineStage* const previous = neighbour(stage, -1)) {
    previous->set_gradient(action.micro_batch, gradient);
  }
}

void Pipeline::run_stages() {
  for (const PipelineStep& step : with_gathers(actions_, shape_.micro_batches)) {
    fsdp::FullyShard& hooks = stages_[static_cast<std::size_t>(step.action.chunk)]->hooks();
    switch (step.kind) {
      case PipelineStep::Kind::kUnshard:
        hooks.unshard();
        break;
      case PipelineStep::Kind::kReshard:
        hooks.reshard();
        break;
      case PipelineStep::Kind::kReduce:
        hooks.reduce_gradients();
        break;
      case PipelineStep::Kind::kPass:
        run_pass(step.action);
        break;
    }
  }
}

}  // namespace headroom::ir::torchtitan
