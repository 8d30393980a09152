#include "runtimes/torchtitan/lowering.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtimes/fsdp/plan.h"
#include "runtimes/torch/clip.h"
#include "runtimes/torch/collective.h"
#include "runtimes/torch/ddp.h"
#include "runtimes/torch/ddp_plan.h"
#include "runtimes/torch/functions.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/optimizer.h"
#include "runtimes/torch/optimizer_resume.h"
#include "runtimes/torch/phase.h"
#include "runtimes/torch/range_scope.h"
#include "runtimes/torchtitan/forward.h"
#include "runtimes/torchtitan/loss.h"
#include "runtimes/torchtitan/pipeline.h"
#include "runtimes/torchtitan/plan.h"

namespace headroom::ir::torchtitan {
namespace {

using torch::Eager;
using torch::PhaseScope;
using torch::Shape;
using torch::Tensor;

/// maybe_enable_amp: active during the lifetime of this object.
class AutocastScope {
 public:
  AutocastScope(Eager& eager, bool enabled) : eager_(eager), enabled_(enabled) {
    if (enabled_) {
      eager_.enter_autocast(DType::kBf16);
    }
  }
  ~AutocastScope() {
    if (enabled_) {
      eager_.leave_autocast();
    }
  }
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  Eager& eager_;
  bool enabled_;
};

/// Trainer, and the tensors that its attributes hold between steps.
class Trainer {
 public:
  Trainer(const fsdp::Sharding& sharding, const ModelSpec& spec, const ParallelPlan& plan,
          std::int64_t stage);

  /// CheckpointManager.load. Each optimizer makes a step with gradients of zeros, and its states
  /// are read in place.
  /// Source: torchtitan 0.2.2 torchtitan/components/optimizer.py, OptimizersContainer.state_dict
  ///         (get_optimizer_state_dict) and load_state_dict; components/checkpoint.py, dcp_load.
  void resume();
  void step(int number);

 private:
  void load(fsdp::Sharding sharding, const ModelSpec& spec, std::int64_t stage);
  Tensor scalar(DType dtype) { return eager_.empty({}, dtype); }
  [[nodiscard]] bool alone() const { return plan_.world == 1; }
  /// Whether nothing is sharded. Then there are no FSDP groups, and autocast replaces the
  /// all-gathers in bf16.
  [[nodiscard]] bool whole() const { return shards_ == 1; }
  /// apply_ddp: replicate() wraps the model at its first forward, and then runs a hook before each
  /// forward.
  void before_forward();
  /// dist_sum: reduced over the ranks out of place, then read by the host.
  void sum_among_ranks(DType dtype) { const Tensor reduced = scalar(dtype); }
  /// prepare_context_parallel_input: shards ids and labels. Returns the positions of this rank's
  /// part.
  [[nodiscard]] Tensor share_sequence(Tensor& ids, Tensor& labels);
  Tensor forward_backward(Tensor ids, Tensor labels);
  Tensor chunked_forward_backward(Tensor ids, Tensor labels);
  Tensor pipelined_forward_backward(Tensor ids, Tensor labels);
  void run_piece(Context& context, const Tensor& piece);
  [[nodiscard]] torch::NormMesh expert_mesh() const;
  Tensor clip();
  void precompute_scales();
  void log(const Tensor& loss);

  Eager& eager_;
  const ParallelPlan& plan_;
  TitanPlan titan_;
  TensorMesh mesh_;
  std::int64_t shards_;
  std::int64_t replicas_;
  /// One part, or the stages of a pipeline on this rank.
  std::vector<std::unique_ptr<ModelPart>> parts_;
  std::optional<Pipeline> pipeline_;
  std::vector<torch::OptimizerState> optimizers_;  ///< States of each part.
  Tensor batch_;    ///< Ids of the last batch, which the frame of the Python generator holds.
  Tensor barrier_;  ///< Tensor of the barrier after the first step.
  Tensor scales_;   ///< Scales of all weights that are gathered in FP8.
  std::optional<torch::Ddp> replicated_;
};

/// Streams of the model with index `index` in a process.
fsdp::Streams streams_of(std::size_t index) {
  constexpr std::size_t kFirstStream = 128;  // After the streams of communicators.
  constexpr std::size_t kEach = 4;
  if (index == 0) {
    return {};
  }
  const auto stream = [&](std::size_t offset) {
    return static_cast<StreamId>(kFirstStream + kEach * (index - 1) + offset);
  };
  return {.gather = stream(0), .collective = stream(1), .reduce = stream(2), .replica = stream(3)};
}

Trainer::Trainer(const fsdp::Sharding& sharding, const ModelSpec& spec, const ParallelPlan& plan,
                 std::int64_t stage)
    : eager_(sharding.eager),
      plan_(plan),
      titan_(titan_of(plan)),
      mesh_(eager_, plan.mesh.tensor, plan.mesh.pipeline > 1),
      shards_(sharding.ranks),
      replicas_(sharding.replicas) {
  load(sharding, spec, stage);
  optimizers_.resize(parts_.size());
  if (plan_.mesh.pipeline > 1) {
    pipeline_.emplace(eager_, mesh_, parts_, stage);
  }
}

void Trainer::load(fsdp::Sharding sharding, const ModelSpec& spec, std::int64_t stage) {
  const PhaseScope phase(eager_, PhaseKind::kLoad);
  std::int64_t blocks = 0;
  const auto layers = static_cast<std::int64_t>(spec.layers.size());
  for (const TitanChunk& chunk : titan_chunks(plan_, layers, stage)) {
    sharding.streams = streams_of(parts_.size());
    ShardedModel sharded = load_model(sharding, spec, plan_, chunk);
    sharded.model.blocks_before = blocks;
    blocks += chunk.layers.count;
    parts_.push_back(std::make_unique<ModelPart>(eager_, std::move(sharded)));
  }
}

void Trainer::resume() {
  const PhaseScope phase(eager_, PhaseKind::kResume);
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    torch::initialise_states(eager_, plan_.optimizer, parts_[i]->shards, optimizers_[i]);
  }
}

Tensor Trainer::share_sequence(Tensor& ids, Tensor& labels) {
  if (plan_.mesh.context == 1) {
    return {};
  }
  eager_.set_site("torchtitan.context_parallel", -1);
  const Shape whole = ids.shape();
  const Shape own = whole.with(1, whole[1] / plan_.mesh.context);
  const Tensor positions = eager_.empty({whole[1]}, DType::kInt32);
  // Order of the head and tail parts.
  const Tensor order = eager_.empty({whole[1]}, DType::kInt32);
  const auto part = [&](DType dtype) {
    const Tensor ordered = eager_.empty(whole, dtype);
    return eager_.empty(own, dtype, TensorRole::kInput);
  };
  ids = part(DType::kInt64);
  labels = part(DType::kInt64);
  return part(DType::kInt32);
}

void Trainer::before_forward() {
  if (!whole() || alone()) {
    return;
  }
  constexpr std::int64_t kBucketBytes = 100 * kMiB;
  const ModelPart& part = *parts_.front();
  if (!replicated_) {
    const DdpPlan ddp{.bucket_cap_bytes = kBucketBytes};
    // replicate() gives DDP a list of the parameters, which has no buffers.
    replicated_.emplace(eager_, ddp, plan_.world, part.shards, std::span<const Tensor>{});
  }
  replicated_->before_forward();
}

Tensor Trainer::forward_backward(Tensor ids, Tensor labels) {
  const Tensor own_positions = share_sequence(ids, labels);
  ModelPart& part = *parts_.front();
  Context context{eager_, part.model, mesh_, part.hooks};
  Tensor sum;  // loss_sum, which Python does not delete.
  Tensor loss;
  {
    const AutocastScope autocast(eager_, whole());
    const torch::RangeScope pass(eager_, RangeKind::kForwardPass);
    before_forward();
    const Tensor logits = forward(context, ids);
    sum = loss_of(eager_, plan_, logits, labels);
    loss = torch::scale(eager_, sum);
  }
  eager_.set_site("loss", -1);
  const Tensor seed = eager_.empty({}, DType::kFp32, TensorRole::kLogits);
  eager_.backward(loss, seed);
  part.hooks.finish_backward();
  return torch::detach(eager_, loss);
}

/// Forward and backward of one chunk. Its logits keep their name until the next chunk.
void Trainer::run_piece(Context& context, const Tensor& piece) {
  const Tensor labels =
      eager_.empty({piece.shape()[0] * piece.shape()[1]}, DType::kInt64, TensorRole::kInput);
  const Tensor logits = apply_head(context, piece);
  const Tensor sum = loss_of(eager_, plan_, logits, labels);
  const Tensor loss = torch::scale(eager_, sum);
  const Tensor seed = eager_.empty({}, DType::kFp32, TensorRole::kLogits);
  eager_.backward(loss, seed);
  context.hooks.finish_backward();
  eager_.drop_grad(piece);
}

/// ChunkedCELoss. The head processes the sequence in eight chunks, each of which runs backward at
/// once. The head stays gathered, and its gradients are accumulated unsharded until the last chunk.
/// The gradients of the chunks are concatenated in fp32; then backward continues through the
/// blocks.
/// Source: pytorch/torchtitan torchtitan/components/loss.py (2026), ChunkedCELoss.
Tensor Trainer::chunked_forward_backward(Tensor ids, Tensor labels) {
  constexpr std::int64_t kPieces = 8;
  const Tensor own_positions = share_sequence(ids, labels);
  ModelPart& part = *parts_.front();
  Context context{eager_, part.model, mesh_, part.hooks};
  const Tensor hidden = [&] {
    const torch::RangeScope pass(eager_, RangeKind::kForwardPass);
    return forward_hidden(context, ids);
  }();
  const std::int64_t length = ceil_div(hidden.shape()[1], kPieces);
  std::vector<Tensor> pieces;
  for (std::int64_t start = 0; start < hidden.shape()[1]; start += length) {
    const std::int64_t size = std::min(length, hidden.shape()[1] - start);
    pieces.push_back(eager_.empty(hidden.shape().with(1, size), hidden.dtype()));
    pieces.back()->requires_grad = true;
  }
  Tensor joined = eager_.empty(hidden.shape(), DType::kFp32, TensorRole::kGradient);
  const Tensor total = scalar(DType::kFp32);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    part.hooks.set_module(transformers::kHeadModule, i + 1 == pieces.size(), false);
    run_piece(context, pieces[i]);
  }
  part.hooks.set_module(transformers::kHeadModule, true, titan_.reshard == TitanReshard::kAlways);
  part.hooks.release(transformers::kHeadModule);
  pieces.clear();
  const Tensor seed = eager_.empty(hidden.shape(), hidden.dtype(), TensorRole::kGradient);
  joined.reset();
  eager_.set_site("loss", -1);
  eager_.backward(hidden, seed);
  part.hooks.finish_backward();
  return torch::detach(eager_, total);
}

/// Runs all micro-batches of a pipeline. Ranks without the last stage log -1.
Tensor Trainer::pipelined_forward_backward(Tensor ids, Tensor labels) {
  const Tensor own_positions = share_sequence(ids, labels);
  const std::vector<Tensor> losses = pipeline_->step(ids, labels);
  eager_.set_site("loss", -1);
  if (losses.empty()) {
    return eager_.empty({1}, DType::kFp32, TensorRole::kLogits);
  }
  Tensor sum;
  {
    const Tensor stacked =
        eager_.empty({static_cast<std::int64_t>(losses.size())}, DType::kFp32, TensorRole::kLogits);
    sum = scalar(DType::kFp32);
  }
  return scalar(DType::kFp32);
}

/// Dimensions of the experts' mesh. Without tensor parallelism and replicas, the group that sums
/// losses covers the whole mesh, and one reduction is enough.
torch::NormMesh Trainer::expert_mesh() const {
  const std::int64_t inner = plan_.mesh.expert * titan_expert_tensor(plan_.mesh);
  const std::int64_t outer = shards_ * plan_.mesh.tensor / inner;
  if (plan_.mesh.tensor == 1 && replicas_ == 1) {
    return {.ranks = outer * inner};
  }
  return {.ranks = outer,
          .tensor_ranks = plan_.mesh.expert,
          .third_ranks = titan_expert_tensor(plan_.mesh)};
}

Tensor Trainer::clip() {
  torch::NormGroup dense{.parameters = {},
                         .mesh = {.ranks = shards_, .tensor_ranks = plan_.mesh.tensor}};
  torch::NormGroup experts{.parameters = {}, .mesh = expert_mesh()};
  for (const std::unique_ptr<ModelPart>& part : parts_) {
    for (std::size_t i = 0; i < part->shards.size(); ++i) {
      torch::NormGroup& group = part->spread[i] ? experts : dense;
      group.parameters.push_back(part->shards[i]);
      group.mesh.replicated.push_back(part->replicated[i]);
    }
  }
  if (experts.parameters.empty()) {
    return torch::clip_grad_norm(eager_, dense.parameters, dense.mesh);
  }
  const std::vector<torch::NormGroup> groups{std::move(experts), std::move(dense)};
  return torch::clip_grad_norm(eager_, groups);
}

/// precompute_float8_dynamic_scale_for_fsdp: the absolute maxima (amax) of all weights that are
/// gathered in FP8, reduced together.
/// Source: pytorch/ao 0.17 torchao/float8/fsdp_utils.py.
void Trainer::precompute_scales() {
  eager_.set_site("torchtitan.precompute_scales", -1);
  const Tensor largest = torch::stacked_norms(eager_, parts_.front()->quantised);
  torch::finish_collective(eager_, {.kind = CollectiveKind::kAllReduce,
                                    .bytes = torch::bytes_of(largest),
                                    .group = {.size = shards_, .stride = plan_.mesh.tensor}});
  const Tensor wide = torch::computed(eager_, largest.shape(), DType::kFp64, {&largest});
  const Tensor quotient = torch::computed(eager_, largest.shape(), DType::kFp64, {&wide});
  scales_ = torch::computed(eager_, largest.shape(), DType::kFp32, {&quotient});
}

/// Reduces over the ranks what a step logs.
void Trainer::log(const Tensor& loss) {
  eager_.set_site("torchtitan.log", -1);
  Tensor average;
  {
    const Tensor product = scalar(DType::kFp32);
    average = scalar(DType::kFp32);
  }
  sum_among_ranks(DType::kFp32);
  sum_among_ranks(DType::kFp32);
  const Tensor seen = scalar(DType::kInt64);
  sum_among_ranks(DType::kInt64);
  static_cast<void>(loss);
}

void Trainer::step(int number) {
  const PhaseScope phase(eager_, PhaseKind::kWholeStep, {.step = number});
  // set_pg_timeouts after the first step, not after that of a resumed run: the barrier's tensor
  // stays alive, and its result is freed.
  if (number == 2 && !plan_.workload.resume) {
    eager_.set_site("barrier", -1);
    barrier_ = eager_.empty({1}, DType::kUInt8, TensorRole::kCommunication);
    sum_among_ranks(DType::kFp32);
  }
  for (const std::unique_ptr<ModelPart>& part : parts_) {
    torch::zero_grad(eager_, part->shards);
  }
  batch_.reset();
  eager_.set_site("torchtitan.train_step", -1);
  const Tensor valid_tokens = scalar(DType::kInt64);
  const Tensor all_tokens = alone() ? scalar(DType::kFp32) : Tensor{};
  if (!alone()) {
    sum_among_ranks(DType::kInt64);
  }
  std::vector<Tensor> batches;
  std::vector<Tensor> losses;
  Tensor labels;
  for (std::int64_t micro = 0; micro < plan_.workload.accumulation; ++micro) {
    labels.reset();  // The loop copies the next labels from the host.
    const Shape shape{plan_.workload.micro_batch, plan_.workload.sequence};
    eager_.set_site("input_ids", -1);
    batch_ = eager_.empty(shape, DType::kInt64, TensorRole::kInput);
    batches.push_back(batch_);
    labels = eager_.empty(shape, DType::kInt64, TensorRole::kInput);
    if (pipeline_) {
      losses.push_back(pipelined_forward_backward(batch_, labels));
    } else {
      losses.push_back(has_chunked_loss(plan_) ? chunked_forward_backward(batch_, labels)
                                               : forward_backward(batch_, labels));
    }
  }
  const Tensor norm = clip();
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    torch::step(eager_, plan_.optimizer, parts_[i]->shards, optimizers_[i]);
  }
  if (titan_.float8_precompute) {
    precompute_scales();
  }
  eager_.set_site("torchtitan.train_step", -1);
  Tensor loss;
  {
    const Tensor stacked = eager_.empty({plan_.workload.accumulation}, DType::kFp32);
    loss = scalar(DType::kFp32);
  }
  if (!alone()) {
    log(loss);
  }
}

}  // namespace

Result<RankProgram> lower(const ModelSpec& spec, const ParallelPlan& plan, std::int64_t rank,
                          const DeviceTraits& device) {
  if (const std::optional<Error> error = unsupported(spec, plan)) {
    return *error;
  }
  // Below compute capability 8.9, Float8LinearConverter leaves the layers as they are, and warns.
  // Source: torchtitan/components/quantization/float8.py.
  const bool eight = has_titan(plan) && titan_of(plan).float8 != Float8Recipe::kNone;
  if (eight && device.compute_major * 10 + device.compute_minor < 89) {
    return Error::invalid_argument("titan", "float8", "a GPU of compute capability 8.9 or later",
                                   "leave out float8: torchtitan ignores it on this GPU");
  }
  // Below compute capability 9.0, use_grouped_mm is disabled with a warning. A loop over experts
  // replaces it, for which the host must know the row counts.
  // Source: torchtitan/models/qwen3/model/args.py.
  if (spec.moe && device.compute_major < 9) {
    return Error::invalid_argument("model", spec.name + ", which has experts",
                                   "a GPU of compute capability 9.0 or later, or a model without "
                                   "experts",
                                   "leave out --titan");
  }
  const FsdpPlan fsdp = fsdp_of(plan);
  Eager eager(device);
  const DType stored = plan.precision == Precision::kBf16 ? DType::kBf16 : DType::kFp32;
  const fsdp::Sharding sharding{
      .eager = eager,
      .plan = fsdp,
      .stored = stored,
      .trained = stored,
      .replicas = plan.mesh.replicas,
      .ranks = plan.world / plan.mesh.replicas / plan.mesh.tensor / plan.mesh.pipeline,
      .stride = plan.mesh.tensor,
      .divides = true};
  Trainer trainer(sharding, spec, plan, rank * plan.mesh.pipeline / plan.world);
  if (plan.workload.resume && plan.optimizer.kind != OptimizerKind::kNone) {
    trainer.resume();
  }
  for (int number = 1; number <= plan.workload.steps; ++number) {
    trainer.step(number);
  }
  return eager.finish();
}

}  // namespace headroom::ir::torchtitan
