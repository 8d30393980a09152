#include "runtimes/megatron/lowering.h"

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "runtimes/megatron/build_chunks.h"
#include "runtimes/megatron/gradient_buffer.h"
#include "runtimes/megatron/gradient_sync.h"
#include "runtimes/megatron/layer_modules.h"
#include "runtimes/megatron/optimizer.h"
#include "runtimes/megatron/option_checks.h"
#include "runtimes/megatron/plan.h"
#include "runtimes/megatron/process.h"
#include "runtimes/megatron/rank_grid.h"
#include "runtimes/megatron/schedule.h"
#include "runtimes/megatron/stage.h"
#include "runtimes/megatron/weights.h"
#include "runtimes/torch/eager.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/phase.h"

namespace headroom::ir::megatron {
namespace {

using torch::Eager;
using torch::PhaseScope;
using torch::Tensor;

DType dtype_of(Precision precision) {
  switch (precision) {
    case Precision::kFp16Master:
      return DType::kFp16;
    case Precision::kFp32:
      return DType::kFp32;
    default:
      return DType::kBf16;
  }
}

/// bf16 gradients are accumulated in fp32 by default; fp16 and fp32 gradients in their own type.
DType gradient_dtype(const ParallelPlan& plan, const MegatronPlan& megatron) {
  const DType dtype = dtype_of(plan.precision);
  return dtype == DType::kBf16 && megatron.fp32_gradients ? DType::kFp32 : dtype;
}

/// ":4096:8", which PyTorch's deterministic algorithms require.
constexpr std::int64_t kDeterministicWorkspace = 4096 * 8 * kKiB;

/// The process during training, after its objects have been made.
class Trainer {
 public:
  Trainer(const Runner& run, std::vector<Chunk>& chunks, const std::vector<GradientBuffer>& buffers,
          std::vector<Optimizer>& optimizers)
      : context_(run.context),
        process_(run.process),
        run_(run),
        stage_(run_, chunks),
        sync_(run_, chunks, buffers),
        buffers_(buffers),
        optimizers_(optimizers) {}

  void step(int number) {
    const StepPosition at{.step = number};
    {
      const PhaseScope phase(context_.eager, PhaseKind::kForwardBackward, at);
      forward_backward();
    }
    const PhaseScope phase(context_.eager, PhaseKind::kOptimizer, at);
    optimize();
  }

 private:
  void forward_backward() {
    process_.begin_step();
    context_.eager.set_site("zero_gradients", -1);
    for (const GradientBuffer& buffer : buffers_) {
      torch::launch_fill(context_.eager, buffer.gradients);
    }
    for (Optimizer& optimizer : optimizers_) {
      optimizer.zero_grad();
    }
    if (context_.megatron.overlap_param_gather) {
      gather_parameters(run_, buffers_);
    }
    {
      context_.eager.set_site("schedule", -1);
      const Tensor token_count = context_.eager.empty({1}, DType::kInt32);
      run_step(run_, stage_, sync_);
      process_.offload().reset();
    }
    reports_ = stage_.take_reports();
  }

  void optimize() {
    for (Optimizer& optimizer : optimizers_) {
      optimizer.prepare();
    }
    measure_norms();
    for (Optimizer& optimizer : optimizers_) {
      optimizer.update();
    }
    if (!context_.megatron.overlap_param_gather) {
      for (std::size_t i = 0; i < optimizers_.size(); ++i) {
        gather_parameters(run_, buffers_);  // Each optimizer gathers all parameters of its chunks.
      }
    }
    log_loss();
  }

  /// Norms that the same ranks share are computed together.
  void measure_norms() {
    std::vector<std::int64_t> all;
    for (Optimizer& optimizer : optimizers_) {
      all.insert(all.end(), optimizer.in_norm().begin(), optimizer.in_norm().end());
      if (!context_.megatron.distributed_optimizer) {
        optimizer.measure_norm(optimizer.in_norm());
      }
    }
    if (context_.megatron.distributed_optimizer) {
      optimizers_.front().measure_norm(all);
    }
  }

  /// The training log sums the micro-batches' losses.
  void log_loss() {
    if (reports_.empty()) {
      return;
    }
    Eager& eager = context_.eager;
    eager.set_site("log", -1);
    {
      const auto count = static_cast<std::int64_t>(reports_.size());
      const Tensor stacked = eager.empty({count, 2}, DType::kFp32);
      log_[0] = eager.empty({2}, DType::kFp32);
    }
    log_[1] = eager.empty({1}, DType::kFp32);
    log_[2] = eager.empty({1}, DType::kFp32);
  }

  const Context& context_;
  Process& process_;
  Runner run_;
  Stage stage_;
  GradientSync sync_;
  const std::vector<GradientBuffer>& buffers_;
  std::vector<Optimizer>& optimizers_;
  std::vector<Tensor> reports_;
  std::array<Tensor, 3> log_;  ///< Sum, mean and running total of the losses.
};

}  // namespace

Result<RankProgram> lower(const ModelSpec& model, const ParallelPlan& plan, std::int64_t rank,
                          const DeviceTraits& device) {
  const MegatronPlan megatron = megatron_of(plan);
  const Result<RankGrid> grid = rank_grid(plan, rank);
  if (!grid) {
    return grid.error();
  }
  const Result<std::vector<LayerModules>> modules = all_layer_modules(
      model, {.batch = plan.workload.micro_batch, .sequence = plan.workload.sequence});
  if (!modules) {
    return modules.error();
  }
  if (const Status recipe = check_megatron_fp8_device(megatron.fp8, device); !recipe) {
    return recipe.error();
  }
  Eager eager(device);
  if (megatron.deterministic) {
    eager.set_cublas_workspace(kDeterministicWorkspace);
  }
  const Context context{.eager = eager,
                        .spec = model,
                        .plan = plan,
                        .megatron = megatron,
                        .grid = grid.value(),
                        .dtype = dtype_of(plan.precision),
                        .grad_dtype = gradient_dtype(plan, megatron)};
  Process process(context);
  const Runner run{context, process};
  std::vector<Chunk> chunks;
  {
    const PhaseScope phase(eager, PhaseKind::kModel);
    chunks = build_chunks(run, modules.value());
  }
  std::vector<GradientBuffer> buffers;
  {
    const PhaseScope phase(eager, PhaseKind::kDdp);
    for (const Chunk& chunk : chunks) {
      for (GradientBuffer& buffer : make_buffers(run, chunk, &chunk == &chunks.front())) {
        buffers.push_back(std::move(buffer));
      }
    }
  }
  std::vector<Optimizer> optimizers;
  {
    const PhaseScope phase(eager, PhaseKind::kOptimizerObject);
    optimizers = make_optimizers(run, buffers);
  }
  if (plan.workload.resume) {
    const PhaseScope phase(eager, PhaseKind::kResume);
    for (Optimizer& optimizer : optimizers) {
      optimizer.resume();
    }
  }
  Trainer trainer(run, chunks, buffers, optimizers);
  for (int number = 1; number <= plan.workload.steps; ++number) {
    trainer.step(number);
  }
  if (plan.workload.checkpoint_save) {
    const PhaseScope phase(eager, PhaseKind::kCheckpointSave);
    for (Optimizer& optimizer : optimizers) {
      optimizer.save();
    }
  }
  return eager.finish();
}

}  // namespace headroom::ir::megatron
