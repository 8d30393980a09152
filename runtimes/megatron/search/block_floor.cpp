#include "runtimes/megatron/search/block_floor.h"

#include <algorithm>

#include "costmodel/hardware/work_time.h"
#include "planner/evaluate/plan_figures.h"
#include "runtimes/megatron/build_chunks.h"
#include "runtimes/megatron/plan.h"
#include "runtimes/megatron/te_gemm.h"

namespace headroom::plan {
namespace {

/// Sizes of one rank's part.
struct RankSizes {
  ir::Mesh mesh;
  ir::MegatronPlan options;
  std::int64_t batch = 1;
  std::int64_t queries = 1;     ///< Tokens of a sequence on one rank.
  std::int64_t tokens = 1;      ///< T.
  std::int64_t vocabulary = 1;  ///< With its padding, over all tensor-parallel ranks.
  std::int64_t stretch = 1;  ///< Tokens between blocks: T, or its share under sequence parallelism.
  ir::DType dtype = ir::DType::kBf16;
  ir::DType linear = ir::DType::kBf16;  ///< Type of the linear layers' operands.
  bool flash = true;                    ///< Attention runs as one kernel.
  bool native = false;  ///< The kernel is that of Transformer Engine's fused backend.
};

RankSizes sizes_of(const ir::ModelSpec& model, const ir::ParallelPlan& plan) {
  RankSizes sizes;
  sizes.vocabulary = ir::megatron::padded_vocabulary(model, plan);
  sizes.mesh = plan.mesh;
  sizes.options = megatron_of(plan);
  sizes.batch = plan.workload.micro_batch;
  sizes.queries = std::max<std::int64_t>(plan.workload.sequence / sizes.mesh.context, 1);
  sizes.tokens = sizes.batch * sizes.queries;
  sizes.stretch = sizes.options.sequence_parallel
                      ? std::max<std::int64_t>(sizes.tokens / sizes.mesh.tensor, 1)
                      : sizes.tokens;
  sizes.dtype = plan.precision == ir::Precision::kFp32 ? ir::DType::kFp32 : ir::DType::kBf16;
  sizes.linear = sizes.options.fp8 == ir::MegatronFp8::kNone ? sizes.dtype : ir::DType::kFp8;
  sizes.flash = sizes.options.attention != ir::MegatronAttention::kUnfused;
  sizes.native = sizes.options.attention == ir::MegatronAttention::kFused;
  return sizes;
}

/// Forward and backward times of one piece.
struct PassFloor {
  Seconds forward;
  Seconds backward;
  PassFloor& operator+=(PassFloor other) {
    forward += other.forward;
    backward += other.backward;
    return *this;
  }
};

class Pricer {
 public:
  Pricer(const ir::ModelSpec& model, const ir::ParallelPlan& plan, const cost::Machine& machine)
      : model_(model),
        sizes_(sizes_of(model, plan)),
        machine_(machine),
        performance_(cost::performance_in(machine, plan)) {}

  /// A product of [m, k] by [k, n], and its two gradients.
  [[nodiscard]] PassFloor linear(std::int64_t m, std::int64_t n, std::int64_t k) const {
    return product(m, n, k, 1, ir::GemmBatch::kStrided, sizes_.linear);
  }
  [[nodiscard]] PassFloor product(std::int64_t m, std::int64_t n, std::int64_t k,
                                  std::int64_t count, ir::GemmBatch batch, ir::DType dtype) const {
    const auto time = [&](std::int64_t rows, std::int64_t columns, std::int64_t inner,
                          ir::GemmLayout layout) {
      return price(ir::GemmShape{.m = std::max<std::int64_t>(rows, 1),
                                 .n = std::max<std::int64_t>(columns, 1),
                                 .k = std::max<std::int64_t>(inner, 1),
                                 .count = count,
                                 .dtype = dtype,
                                 .layout = layout,
                                 .batch = batch,
                                 .micro_scaled = is_micro_scaled(dtype)});
    };
    return {time(m, n, k, ir::GemmLayout::kTN),
            time(m, k, n, ir::GemmLayout::kNN) + time(n, k, m, ir::GemmLayout::kNT)};
  }

  /// The same where the ranks gather the rows before it under sequence parallelism.
  [[nodiscard]] PassFloor column_linear(std::int64_t m, std::int64_t n, std::int64_t k) const {
    PassFloor pass = linear(m, n, k);
    if (sizes_.options.tp_comm_overlap) {
      pass.forward = in_parts(m, n, k, ir::GemmLayout::kTN);
    } else if (sizes_.options.sequence_parallel) {
      pass.forward += collective(ir::CollectiveKind::kAllGather, operand_bytes(m, k), ranks());
    }
    return pass;
  }

  /// The same where the ranks sum the result after it. Under sequence parallelism, each keeps its
  /// share of the rows.
  [[nodiscard]] PassFloor row_linear(std::int64_t m, std::int64_t n, std::int64_t k) const {
    if (sizes_.options.tp_comm_overlap) {
      return {scattered(m, n, k),
              in_parts(m, k, n, ir::GemmLayout::kNN) + linear_time(n, k, m, ir::GemmLayout::kNT)};
    }
    PassFloor pass = linear(m, n, k);
    pass.forward += collective(sizes_.options.sequence_parallel ? ir::CollectiveKind::kReduceScatter
                                                                : ir::CollectiveKind::kAllReduce,
                               m * n * element(), ranks());
    return pass;
  }

  [[nodiscard]] Seconds collective(ir::CollectiveKind kind, std::int64_t bytes,
                                   ir::RankGroup group) const {
    return group.size <= 1
               ? Seconds{0}
               : price(ir::CollectiveShape{.kind = kind, .bytes = bytes, .group = group});
  }

  [[nodiscard]] LayerTimes layer(bool sparse) const {
    PassFloor whole = core_attention();
    whole += projections();
    whole += sparse ? experts() : dense_mlp(model_.ffn);
    if (sparse && sizes_.options.overlap_expert_exchange) {
      whole.backward = std::max(whole.backward, least_exchange() - whole.forward);
    }
    return {.forward = kFloorRounding * whole.forward,
            .backward = kFloorRounding * whole.backward,
            .once = {},
            .saved = {},
            .core_attention = {},
            .norms = {},
            .mlp = {},
            .copies = {}};
  }

  /// The output projection without the loss.
  [[nodiscard]] Seconds head() const {
    const std::int64_t rows = sizes_.vocabulary / sizes_.mesh.tensor;
    const PassFloor pass =
        product(sizes_.tokens, rows, model_.hidden, 1, ir::GemmBatch::kStrided, sizes_.dtype);
    return kFloorRounding * (pass.forward + pass.backward);
  }

 private:
  [[nodiscard]] Seconds price(const ir::WorkShape& shape) const {
    return cost::work_time(performance_, machine_.topology, shape);
  }
  [[nodiscard]] std::int64_t element() const { return ir::bits_of(sizes_.dtype) / 8; }

  [[nodiscard]] bool is_micro_scaled(ir::DType dtype) const {
    return dtype == ir::DType::kFp8 && sizes_.options.fp8 == ir::MegatronFp8::kMxfp8;
  }
  [[nodiscard]] std::int64_t operand_bytes(std::int64_t rows, std::int64_t columns) const {
    return rows * columns * ir::bits_of(sizes_.linear) / 8;
  }
  [[nodiscard]] ir::RankGroup ranks() const { return {.size = sizes_.mesh.tensor, .stride = 1}; }

  [[nodiscard]] Seconds linear_time(std::int64_t rows, std::int64_t columns, std::int64_t inner,
                                    ir::GemmLayout layout) const {
    return price(ir::GemmShape{.m = std::max<std::int64_t>(rows, 1),
                               .n = std::max<std::int64_t>(columns, 1),
                               .k = std::max<std::int64_t>(inner, 1),
                               .dtype = sizes_.linear,
                               .layout = layout,
                               .micro_scaled = is_micro_scaled(sizes_.linear)});
  }

  /// A product beside the transfer of its rows around the ring (`ir::megatron::Beside::kInParts`).
  /// One band per rank; each but the first waits for its rows.
  [[nodiscard]] Seconds in_parts(std::int64_t rows, std::int64_t columns, std::int64_t inner,
                                 ir::GemmLayout layout) const {
    const std::int64_t bands = sizes_.mesh.tensor;
    const Seconds band = linear_time(ceil_div(rows, bands), columns, inner, layout);
    const Seconds send = collective(ir::CollectiveKind::kSend, operand_bytes(rows, inner) / bands,
                                    {.size = 2, .stride = 1});
    return band + static_cast<double>(bands - 1) * std::max(band, send);
  }

  /// `ir::megatron::gemm_and_scatter`: the reduce-scatter of a band overlaps the products of later
  /// bands.
  [[nodiscard]] Seconds scattered(std::int64_t rows, std::int64_t columns,
                                  std::int64_t inner) const {
    constexpr std::int64_t kBands = ir::megatron::kScatterBands;
    const Seconds band = linear_time(ceil_div(rows, kBands), columns, inner, ir::GemmLayout::kTN);
    const Seconds scatter = collective(ir::CollectiveKind::kReduceScatter,
                                       rows * columns * element() / kBands, ranks());
    return band + static_cast<double>(kBands - 1) * std::max(band, scatter) + scatter;
  }

  [[nodiscard]] PassFloor projections() const {
    const std::int64_t cut = sizes_.mesh.tensor;
    const std::int64_t tokens = sizes_.tokens;
    PassFloor pass;
    if (model_.latent) {
      const ir::LatentAttention& latent = *model_.latent;
      const std::int64_t query = model_.heads * (latent.nope_dim + latent.rope_dim) / cut;
      if (latent.q_rank > 0) {
        pass += linear(sizes_.stretch, latent.q_rank, model_.hidden);
        pass += column_linear(tokens, query, latent.q_rank);
      } else {
        pass += column_linear(tokens, query, model_.hidden);
      }
      pass += linear(sizes_.stretch, latent.kv_rank + latent.rope_dim, model_.hidden);
      pass += column_linear(tokens, model_.heads * (latent.nope_dim + latent.v_dim) / cut,
                            latent.kv_rank);
      pass += row_linear(tokens, model_.hidden, model_.heads * latent.v_dim / cut);
    } else {
      const std::int64_t width = (model_.heads + 2 * model_.kv_heads) * model_.head_dim / cut;
      pass += column_linear(tokens, width, model_.hidden);
      pass += row_linear(tokens, model_.hidden, model_.heads * model_.head_dim / cut);
    }
    return pass;
  }

  [[nodiscard]] PassFloor core_attention() const {
    const std::int64_t heads = std::max<std::int64_t>(model_.heads / sizes_.mesh.tensor, 1);
    const std::int64_t keys = sizes_.queries * sizes_.mesh.context;
    if (!sizes_.flash) {
      const std::int64_t count = sizes_.batch * heads;
      const auto strided = ir::GemmBatch::kStrided;
      PassFloor pass = product(sizes_.queries, keys, model_.head_dim, count, strided, sizes_.dtype);
      pass += product(sizes_.queries, model_.head_dim, keys, count, strided, sizes_.dtype);
      return pass;
    }
    ir::AttentionShape shape{
        .batch = sizes_.batch,
        .heads = heads,
        .kv_heads = std::max<std::int64_t>(model_.kv_heads / sizes_.mesh.tensor, 1),
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
    if (sizes_.options.context_exchange == ir::MegatronContext::kAllToAll) {
      shape.heads = std::max<std::int64_t>(heads / sizes_.mesh.context, 1);
      shape.kv_heads = std::max<std::int64_t>(shape.kv_heads / sizes_.mesh.context, 1);
      return kernels(shape);
    }
    return sizes_.mesh.context > 1 ? ring(shape) : kernels(shape);
  }

  /// One forward attention kernel and the kernels of its backward.
  [[nodiscard]] PassFloor kernels(ir::AttentionShape shape) const {
    const Seconds forward = price(shape);
    shape.backward = true;
    return {forward, price(shape)};
  }

  /// The step on the diagonal computes the whole causal matrix; each other step computes half of a
  /// matrix. Keys and values travel around the ring meanwhile, in backward together with their
  /// gradients.
  /// Source:  TransformerEngine, pytorch/attention/context_parallel.py, AttnFuncWithCPAndKVP2P.
  [[nodiscard]] PassFloor ring(ir::AttentionShape shape) const {
    const double others = static_cast<double>(sizes_.mesh.context - 1);
    shape.queries = shape.keys = sizes_.queries;
    PassFloor pass = kernels(shape);
    shape.causal = false;
    shape.queries = std::max<std::int64_t>(sizes_.queries / 2, 1);
    const PassFloor half = kernels(shape);
    pass += {others * half.forward, others * half.backward};
    const std::int64_t part =
        sizes_.tokens * shape.kv_heads * (shape.head_dim + shape.value_dim) * element();
    const Seconds hop = collective(ir::CollectiveKind::kReceive, part,
                                   {.size = sizes_.mesh.context, .stride = sizes_.mesh.tensor});
    return {std::max(pass.forward, others * hop), std::max(pass.backward, others * hop)};
  }

  [[nodiscard]] PassFloor dense_mlp(std::int64_t width) const {
    const std::int64_t part = width / sizes_.mesh.tensor;
    const std::int64_t inner = (model_.gated_mlp ? 2 : 1) * part;
    PassFloor pass = column_linear(sizes_.tokens, inner, model_.hidden);
    pass += row_linear(sizes_.tokens, model_.hidden, part);
    return pass;
  }

  /// The products of a shared expert on a stream of its own.
  [[nodiscard]] PassFloor overlapped_shared() const {
    const std::int64_t part = model_.moe->shared_ffn / sizes_.mesh.tensor;
    PassFloor pass = linear(sizes_.tokens, (model_.gated_mlp ? 2 : 1) * part, model_.hidden);
    pass += linear(sizes_.tokens, model_.hidden, part);
    return pass;
  }

  /// The exchange of tokens among experts in one direction.
  [[nodiscard]] Seconds dispatch(const ir::RankGroup& ranks) const {
    const ir::MoeSpec& moe = *model_.moe;
    const std::int64_t bytes = sizes_.stretch * model_.hidden * element();
    if (sizes_.options.dispatcher != ir::MegatronDispatcher::kHybridEp) {
      return collective(ir::CollectiveKind::kAllToAll, bytes * moe.top_k, ranks);
    }
    if (ranks.size <= 1) {
      return Seconds{0};
    }
    return price(ir::CollectiveShape{.kind = ir::CollectiveKind::kTokenExchange,
                                     .bytes = bytes,
                                     .group = ranks,
                                     .experts = static_cast<std::int32_t>(moe.experts),
                                     .top_k = static_cast<std::int32_t>(moe.top_k)});
  }

  /// The exchange of tokens for a forward and a backward. If a pass has only layers of experts, it
  /// takes at least as long as all its exchanges, whatever overlaps with them.
  [[nodiscard]] Seconds least_exchange() const {
    const bool all = std::ranges::all_of(model_.layers, &ir::LayerSpec::moe);
    const std::int64_t cut = expert_tensor_of(sizes_.mesh);
    return all ? 4.0 * dispatch({.size = sizes_.mesh.expert, .stride = cut}) : Seconds{};
  }

  /// Dispatch, products and combine, and the shared expert besides. Products never overlap each
  /// other, but those of an overlapped shared expert may overlap dispatch and combine.
  [[nodiscard]] PassFloor experts() const {
    const ir::MoeSpec& moe = *model_.moe;
    const std::int64_t cut = expert_tensor_of(sizes_.mesh);
    const std::int64_t local = std::max<std::int64_t>(moe.experts / sizes_.mesh.expert, 1);
    const std::int64_t received = sizes_.stretch * moe.top_k * cut;
    // `ir::megatron::run_per_expert`: if there are fewer rows than experts, one gets them all.
    const std::int64_t busy = received < local ? 1 : local;
    const std::int64_t rows = received / busy;
    const std::int64_t width = std::max<std::int64_t>(moe.expert_ffn / cut, 1);
    const auto series = ir::GemmBatch::kSeries;
    PassFloor pass = product(rows, (model_.gated_mlp ? 2 : 1) * width, model_.hidden, busy, series,
                             sizes_.linear);
    pass += product(rows, model_.hidden, width, busy, series, sizes_.linear);
    // With another micro-batch at the same time, all of it may be hidden.
    const Seconds exchange = sizes_.options.overlap_expert_exchange
                                 ? Seconds{}
                                 : dispatch({.size = sizes_.mesh.expert, .stride = cut});
    PassFloor beside{2 * exchange, 2 * exchange};
    if (moe.shared_ffn > 0 && sizes_.options.shared_expert_overlap) {
      const PassFloor shared = overlapped_shared();
      beside = {std::max(beside.forward, shared.forward),
                std::max(beside.backward, shared.backward)};
    } else if (moe.shared_ffn > 0) {
      beside += dense_mlp(moe.shared_ffn);
    }
    pass += beside;
    return pass;
  }

  const ir::ModelSpec& model_;
  RankSizes sizes_;
  const cost::Machine& machine_;
  cost::DevicePerformance performance_;
};

}  // namespace

BlockTimes block_floor(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                       const cost::Machine& machine) {
  const Pricer pricer(model, plan, machine);
  BlockTimes times;
  for (const bool sparse : {false, true}) {
    if (std::ranges::find(model.layers, sparse, &ir::LayerSpec::moe) != model.layers.end()) {
      (sparse ? times.sparse : times.dense) = pricer.layer(sparse);
    }
  }
  times.head.fill(pricer.head());
  return with_transfers(times, model, plan, machine);
}

}  // namespace headroom::plan
