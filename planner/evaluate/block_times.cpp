#include "planner/evaluate/block_times.h"

#include <algorithm>

#include "costmodel/hardware/work_time.h"
#include "model_ir/plan/megatron_stages.h"
#include "model_ir/spec/param_count.h"

namespace headroom::plan {
namespace {

constexpr std::int64_t kHalf = 2;    ///< Bytes of a 16-bit element.
constexpr std::int64_t kSingle = 4;  ///< Bytes of an fp32 element.

/// Sizes of one rank's part.
struct Sizes {
  ir::MegatronPlan degrees;
  std::int64_t batch = 1;
  std::int64_t queries = 1;  ///< Of a rank's part of a sequence.
  std::int64_t tokens = 1;   ///< T
  std::int64_t stretch = 1;  ///< Tokens between blocks: T, cut under sequence parallelism.
  ir::DType dtype = ir::DType::kBf16;
  bool flash = true;    ///< Attention in one kernel.
  bool native = false;  ///< That of Transformer Engine's fused backend.
};

Sizes sizes_of(const ir::ParallelPlan& plan) {
  Sizes sizes;
  sizes.degrees = *plan.megatron;
  sizes.batch = plan.micro_batch;
  sizes.queries = std::max<std::int64_t>(plan.sequence / sizes.degrees.context, 1);
  sizes.tokens = sizes.batch * sizes.queries;
  sizes.stretch = sizes.degrees.sequence_parallel
                      ? std::max<std::int64_t>(sizes.tokens / sizes.degrees.tensor, 1)
                      : sizes.tokens;
  sizes.dtype = plan.precision == ir::Precision::kFp32 ? ir::DType::kFp32 : ir::DType::kBf16;
  sizes.flash = sizes.degrees.attention != ir::MegatronAttention::kUnfused;
  sizes.native = sizes.degrees.attention == ir::MegatronAttention::kFused;
  return sizes;
}

/// Forward and backward of one piece.
struct Pass {
  Seconds forward;
  Seconds backward;
  Pass& operator+=(Pass other) {
    forward += other.forward;
    backward += other.backward;
    return *this;
  }
};

class Pricer {
 public:
  Pricer(const ir::ModelSpec& model, const ir::ParallelPlan& plan, const cost::Machine& machine)
      : model_(model), sizes_(sizes_of(plan)), machine_(machine) {}

  /// [m, k] by [k, n] and its two gradients.
  [[nodiscard]] Pass linear(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t count = 1,
                            ir::GemmBatch batch = ir::GemmBatch::kStrided) const {
    const auto time = [&](std::int64_t rows, std::int64_t columns, std::int64_t inner,
                          ir::GemmLayout layout) {
      return price(ir::GemmShape{.m = std::max<std::int64_t>(rows, 1),
                                 .n = std::max<std::int64_t>(columns, 1),
                                 .k = std::max<std::int64_t>(inner, 1),
                                 .count = count,
                                 .dtype = sizes_.dtype,
                                 .layout = layout,
                                 .batch = batch});
    };
    return {time(m, n, k, ir::GemmLayout::kTN),
            time(m, k, n, ir::GemmLayout::kNN) + time(n, k, m, ir::GemmLayout::kNT)};
  }

  /// Products of `count` experts: the device's time, or the host's for handing them out.
  [[nodiscard]] Pass series(std::int64_t m, std::int64_t n, std::int64_t k,
                            std::int64_t count) const {
    const Pass device = linear(m, n, k, count, ir::GemmBatch::kSeries);
    const cost::DevicePerformance& performance = machine_.performance;
    const Seconds call = std::max(performance.launch.eager, performance.gemm.series_call);
    const Seconds host = static_cast<double>(count) * call;
    return {std::max(device.forward, host), std::max(device.backward, 2 * host)};
  }

  /// Kernels that read and write `bytes` forward, and twice as much backward.
  [[nodiscard]] Pass traffic(std::int64_t bytes, std::int64_t launches = 1) const {
    return {price(ir::TrafficShape{.bytes = bytes, .launches = launches}),
            price(ir::TrafficShape{.bytes = 2 * bytes, .launches = launches})};
  }

  [[nodiscard]] Seconds collective(ir::CollectiveKind kind, std::int64_t bytes,
                                   ir::RankGroup group) const {
    return group.size <= 1
               ? Seconds{0}
               : price(ir::CollectiveShape{.kind = kind, .bytes = bytes, .group = group});
  }

  [[nodiscard]] LayerTimes layer(bool sparse) const {
    const Pass norms = norm_pass();
    const Pass core = core_attention();
    Pass mlp = sparse ? experts() : dense_mlp(model_.ffn);
    mlp += edges();
    Pass whole = norms;
    whole += core;
    whole += projections();
    whole += edges();
    whole += mlp;
    whole += traffic(3 * hidden_bytes(), 2);  // Residual additions.
    return {.forward = whole.forward,
            .backward = whole.backward,
            .core_attention = core.forward,
            .norms = norms.forward,
            .mlp = mlp.forward};
  }

  [[nodiscard]] Seconds embedding() const {
    const Pass pass = traffic(2 * hidden_bytes());
    return pass.forward + pass.backward;
  }

  /// Output projection and loss. The loss reads and writes fp32 logits as often as its kernels do.
  [[nodiscard]] Seconds head(int logit_passes) const {
    const std::int64_t rows = ceil_div(model_.vocabulary, sizes_.degrees.tensor);
    Pass pass = linear(sizes_.tokens, rows, model_.hidden);
    pass += norm_pass();
    const Seconds loss = price(ir::TrafficShape{
        .bytes = sizes_.tokens * rows * kSingle * logit_passes, .launches = logit_passes});
    return pass.forward + pass.backward + loss;
  }

  [[nodiscard]] Seconds transfer(std::int64_t stride) const {
    return collective(ir::CollectiveKind::kReceive, hidden_bytes(), {.size = 2, .stride = stride});
  }

 private:
  [[nodiscard]] Seconds price(const ir::WorkShape& shape) const {
    return cost::work_time(machine_.performance, machine_.topology, shape);
  }
  [[nodiscard]] std::int64_t element() const { return ir::bits_of(sizes_.dtype) / 8; }
  /// Hidden states between blocks.
  [[nodiscard]] std::int64_t hidden_bytes() const {
    return sizes_.stretch * model_.hidden * element();
  }

  [[nodiscard]] Pass norm_pass() const {
    return traffic(4 * hidden_bytes(), 2);  // Two of them, each with one read and one write.
  }

  /// What tensor-parallel ranks exchange at the two ends of a block: all-reduce behind it, or
  /// all-gather before and reduce-scatter behind it; the same in backward.
  [[nodiscard]] Pass edges() const {
    const ir::RankGroup ranks{.size = sizes_.degrees.tensor, .stride = 1};
    const std::int64_t bytes = sizes_.tokens * model_.hidden * element();
    if (sizes_.degrees.sequence_parallel) {
      const Seconds both = collective(ir::CollectiveKind::kAllGather, bytes, ranks) +
                           collective(ir::CollectiveKind::kReduceScatter, bytes, ranks);
      return {both, both};
    }
    const Seconds one = collective(ir::CollectiveKind::kAllReduce, bytes, ranks);
    return {one, one};
  }

  [[nodiscard]] Pass projections() const {
    const std::int64_t cut = sizes_.degrees.tensor;
    const std::int64_t tokens = sizes_.tokens;
    Pass pass;
    if (model_.latent) {
      const ir::LatentAttention& latent = *model_.latent;
      const std::int64_t query = model_.heads * (latent.nope_dim + latent.rope_dim) / cut;
      if (latent.q_rank > 0) {
        pass += linear(tokens, latent.q_rank, model_.hidden);
        pass += linear(tokens, query, latent.q_rank);
      } else {
        pass += linear(tokens, query, model_.hidden);
      }
      pass += linear(tokens, latent.kv_rank + latent.rope_dim, model_.hidden);
      pass += linear(tokens, model_.heads * (latent.nope_dim + latent.v_dim) / cut, latent.kv_rank);
      pass += linear(tokens, model_.hidden, model_.heads * latent.v_dim / cut);
    } else {
      const std::int64_t width = (model_.heads + 2 * model_.kv_heads) * model_.head_dim / cut;
      pass += linear(tokens, width, model_.hidden);
      pass += linear(tokens, model_.hidden, model_.heads * model_.head_dim / cut);
    }
    if (model_.position == ir::PositionKind::kRope) {
      const std::int64_t rotated =
          tokens * (model_.heads + model_.kv_heads) * model_.head_dim / cut * element();
      pass += traffic(2 * rotated, 2);
    }
    return pass;
  }

  [[nodiscard]] Pass core_attention() const {
    const std::int64_t heads = std::max<std::int64_t>(model_.heads / sizes_.degrees.tensor, 1);
    const std::int64_t keys = sizes_.queries * sizes_.degrees.context;
    if (!sizes_.flash) {
      const std::int64_t scores = sizes_.batch * heads * sizes_.queries * keys;
      Pass pass = linear(sizes_.queries, keys, model_.head_dim, sizes_.batch * heads);
      pass += linear(sizes_.queries, model_.head_dim, keys, sizes_.batch * heads);
      pass += traffic(scores * (4 * kHalf + 2 * kSingle), 4);
      return pass;
    }
    ir::AttentionShape shape{
        .batch = sizes_.batch,
        .heads = heads,
        .kv_heads = std::max<std::int64_t>(model_.kv_heads / sizes_.degrees.tensor, 1),
        .queries = keys,
        .keys = keys,
        .head_dim = model_.head_dim,
        .value_dim = model_.head_dim,
        .dtype = sizes_.dtype,
        .kernel = sizes_.native ? ir::AttentionKernel::kNative : ir::AttentionKernel::kFlash2};
    if (model_.latent) {
      shape.head_dim = model_.latent->nope_dim + model_.latent->rope_dim;
      shape.value_dim = model_.latent->v_dim;
    }
    return sizes_.degrees.context > 1 ? ring(shape) : kernels(shape);
  }

  /// One attention kernel forward and those of its backward.
  [[nodiscard]] Pass kernels(ir::AttentionShape shape) const {
    const Seconds forward = price(shape);
    shape.backward = true;
    return {forward, price(shape)};
  }

  /// Keys and values go round the ring while attention runs; what is longer shows. The step on the
  /// diagonal sees everything, causally; each other half of it. Outputs are corrected and added up
  /// step by step, and so are gradients.
  /// Source:  TransformerEngine, pytorch/attention/context_parallel.py, AttnFuncWithCPAndKVP2P.
  [[nodiscard]] Pass ring(ir::AttentionShape shape) const {
    const std::int64_t ranks = sizes_.degrees.context;
    const std::int64_t steps = ranks - 1;
    shape.queries = shape.keys = sizes_.queries;
    Pass pass = kernels(shape);
    shape.causal = false;
    shape.queries = std::max<std::int64_t>(sizes_.queries / 2, 1);
    const Pass half = kernels(shape);
    const double others = static_cast<double>(steps);
    pass += {others * half.forward, others * half.backward};
    const std::int64_t output = sizes_.tokens * shape.heads * shape.value_dim * element();
    const std::int64_t query = sizes_.tokens * shape.heads * shape.head_dim * element();
    const std::int64_t part =
        sizes_.tokens * shape.kv_heads * (shape.head_dim + shape.value_dim) * element();
    pass += {price(ir::TrafficShape{.bytes = 3 * ranks * output + 2 * part, .launches = 2 * ranks}),
             price(ir::TrafficShape{.bytes = 3 * (ranks * query + part + steps * part / 2),
                                    .launches = 3 * ranks})};
    const Seconds hop = collective(ir::CollectiveKind::kReceive, part,
                                   {.size = ranks, .stride = sizes_.degrees.tensor});
    return {std::max(pass.forward, others * hop), std::max(pass.backward, 2 * others * hop)};
  }

  [[nodiscard]] Pass dense_mlp(std::int64_t width) const {
    const std::int64_t part = width / sizes_.degrees.tensor;
    Pass pass = linear(sizes_.tokens, (model_.gated_mlp ? 2 : 1) * part, model_.hidden);
    pass += linear(sizes_.tokens, model_.hidden, part);
    pass += activation(sizes_.tokens * part);
    return pass;
  }

  [[nodiscard]] Pass activation(std::int64_t elements) const {
    const std::int64_t bytes = elements * element();
    return traffic((model_.gated_mlp ? 3 : 2) * bytes);
  }

  /// Tokens to the order of their experts and back; between ranks in that of ranks and back.
  [[nodiscard]] Pass permutation(std::int64_t routed) const {
    const std::int64_t rows = routed * model_.hidden * element();
    const Seconds order = price(ir::TrafficShape{.bytes = 2 * (hidden_bytes() + rows),
                                                 .launches = 2,
                                                 .kind = sizes_.degrees.permute_fusion
                                                             ? ir::TrafficKind::kPermutation
                                                             : ir::TrafficKind::kElementwise});
    const Seconds copies = price(ir::TrafficShape{.bytes = 4 * rows, .launches = 4});
    return {order + copies, order + copies};
  }

  /// Router, dispatch, grouped products, combination; the shared expert beside them.
  [[nodiscard]] Pass experts() const {
    const ir::MoeSpec& moe = *model_.moe;
    const ir::MegatronPlan& degrees = sizes_.degrees;
    const std::int64_t cut = degrees.expert_tensor > 0 ? degrees.expert_tensor : degrees.tensor;
    const std::int64_t local = std::max<std::int64_t>(moe.experts / degrees.expert, 1);
    const std::int64_t routed = sizes_.stretch * moe.top_k;  // Sent by this rank.
    const std::int64_t rows = std::max<std::int64_t>(routed * cut / local, 1);
    const std::int64_t width = std::max<std::int64_t>(moe.expert_ffn / cut, 1);
    Pass pass = linear(sizes_.stretch, moe.experts, model_.hidden);
    pass += series(rows, (model_.gated_mlp ? 2 : 1) * width, model_.hidden, local);
    pass += series(rows, model_.hidden, width, local);
    pass += activation(rows * local * width);
    pass += permutation(routed);
    const ir::RankGroup ranks{.size = degrees.expert, .stride = cut};
    const Seconds exchange =
        collective(ir::CollectiveKind::kAllToAll, routed * model_.hidden * element(), ranks);
    pass += {2 * exchange, 2 * exchange};
    // Ranks that share an expert's weights gather its tokens and scatter what comes of them.
    const std::int64_t shared = routed * cut * model_.hidden * element();
    const Seconds parts = collective(ir::CollectiveKind::kAllGather, shared, {.size = cut}) +
                          collective(ir::CollectiveKind::kReduceScatter, shared, {.size = cut});
    pass += {parts, parts};
    if (moe.shared_ffn > 0) {
      pass += dense_mlp(moe.shared_ffn);
    }
    return pass;
  }

  const ir::ModelSpec& model_;
  Sizes sizes_;
  const cost::Machine& machine_;
};

void count_block_parameters(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                            BlockTimes& times) {
  const ir::MegatronPlan& degrees = *plan.megatron;
  const ir::LayerSpec dense;
  times.dense_parameters = ir::layer_parameters(model, dense).total() / degrees.tensor;
  times.table_parameters = model.vocabulary * model.hidden / degrees.tensor;
  if (!model.moe) {
    return;
  }
  const ir::LayerSpec sparse{.moe = true, .window = {}};
  const std::int64_t whole = ir::layer_parameters(model, sparse).total();
  const std::int64_t experts =
      model.moe->experts * model.moe->expert_ffn * model.hidden * (model.gated_mlp ? 3 : 2);
  const std::int64_t cut = degrees.expert_tensor > 0 ? degrees.expert_tensor : degrees.tensor;
  times.expert_parameters = experts / (degrees.expert * cut);
  times.sparse_parameters = (whole - experts) / degrees.tensor;
}

}  // namespace

BlockKey block_key(const ir::ParallelPlan& plan) {
  const Sizes sizes = sizes_of(plan);
  const ir::MegatronPlan& degrees = sizes.degrees;
  return {sizes.batch,
          sizes.queries,
          sizes.stretch,
          static_cast<std::int64_t>(sizes.dtype),
          sizes.flash ? 1 : 0,
          sizes.native ? 1 : 0,
          degrees.tensor,
          degrees.context,
          degrees.expert,
          degrees.expert_tensor,
          degrees.sequence_parallel ? 1 : 0,
          degrees.permute_fusion ? 1 : 0,
          degrees.pipeline > 1 ? plan.world / degrees.pipeline : 0};  // How far the next stage is.
}

BlockTimes block_times(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                       const cost::Machine& machine) {
  const Pricer pricer(model, plan, machine);
  BlockTimes times;
  times.dense = pricer.layer(false);
  if (model.moe) {
    times.sparse = pricer.layer(true);
  }
  times.embedding = pricer.embedding();
  // Reads and writes of fp32 logits by the kernels of each form of the loss, both directions.
  constexpr std::array<int, 3> kPasses = {10, 6, 3};
  for (std::size_t form = 0; form < times.head.size(); ++form) {
    times.head[form] = pricer.head(kPasses.at(form));
  }
  for (std::size_t order = 0; plan.megatron->pipeline > 1 && order < times.transfer.size();
       ++order) {
    ir::MegatronPlan placed = *plan.megatron;
    placed.pipeline_before_data = order != 0;
    times.transfer.at(order) = pricer.transfer(ir::stage_stride(placed, plan.world));
  }
  count_block_parameters(model, plan, times);
  return times;
}

}  // namespace headroom::plan
