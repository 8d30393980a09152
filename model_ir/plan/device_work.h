#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "model_ir/spec/dtype.h"

/// The work that a program gives to the device, item by item. The time model gives each distinct
/// shape a time once and lays the items out on streams.
namespace headroom::ir {

/// Which operands of C[m, n] = A[m, k] B[k, n] are transposed for the BLAS library. Frameworks use
/// these names in forward (TN), for input gradients (NN) and for weight gradients (NT).
enum class GemmLayout : std::uint8_t { kTN, kNN, kNT };

/// How `GemmShape::count` products run: as one strided batched call of the library; grouped by
/// expert in one kernel, which counts as a kernel and not as a library call; or one call each, in
/// parallel on a few streams, as Transformer Engine's GroupedLinear does.
enum class GemmBatch : std::uint8_t { kStrided, kGrouped, kSeries };

/// `count` products of [m, k] by [k, n].
struct GemmShape {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t count = 1;
  DType dtype = DType::kBf16;  ///< Type of the operands.
  GemmLayout layout = GemmLayout::kTN;
  GemmBatch batch = GemmBatch::kStrided;
  bool accumulate = false;    ///< Adds to the content of C (weight gradients in a buffer).
  bool micro_scaled = false;  ///< 8-bit operands have a scale for each 32 values (MXFP8).
  [[nodiscard]] double flops() const {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) *
           static_cast<double>(count);
  }
  friend bool operator==(const GemmShape&, const GemmShape&) = default;
};

/// Which attention kernel runs: FlashAttention-2, which PyTorch and flash-attn run on every GPU;
/// kernels of the GPU's own generation (FlashAttention-3 or cuDNN, as Transformer Engine and
/// PyTorch pick them); or PyTorch's memory-efficient kernels, which take masks.
enum class AttentionKernel : std::uint8_t { kFlash2, kNative, kEfficient };

/// A fused attention kernel over [batch, heads, queries, head_dim]: one launch. The kernels that
/// prepare its inputs or finish its outputs are separate items of traffic.
struct AttentionShape {
  std::int64_t batch = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t queries = 0;  ///< Rows of the scores.
  std::int64_t keys = 0;     ///< Columns of the scores.
  std::int64_t head_dim = 0;
  std::int64_t value_dim = 0;
  std::int64_t window = 0;  ///< Number of keys that a query sees; 0: all.
  DType dtype = DType::kBf16;
  bool causal = true;
  bool backward = false;
  AttentionKernel kernel = AttentionKernel::kFlash2;
  friend bool operator==(const AttentionShape&, const AttentionShape&) = default;
};

/// Kernels bound by memory, by kind. All but the elementwise ones reach a lower share of the memory
/// bandwidth.
/// Sources: NVIDIA/TransformerEngine transformer_engine/pytorch/triton (permutation, loss);
///          pytorch/pytorch aten/src/ATen/native/cuda/MultiTensorApply.cuh, fused_adam_impl.cu;
///          bitsandbytes-foundation/bitsandbytes csrc/kernels.cu, kOptimizer*8bit2StateBlockwise.
enum class TrafficKind : std::uint8_t {
  kElementwise,
  kOneByOne,       ///< kElementwise of PyTorch itself, in a framework with kernels of its own.
  kPermutation,    ///< Sorts rows by expert and back (Transformer Engine's Triton kernels).
  kCrossEntropy,   ///< Whole rows of logits (Triton kernels of Transformer Engine and Liger).
  kList,           ///< One operation on a list of tensors (multi_tensor_apply).
  kFusedStep,      ///< The whole Adam step on such a list.
  kQuantisedStep,  ///< A step whose states are looked up in a table (bitsandbytes, 8 bits).
};

/// Kernels bound by memory: the bytes that they read and write together.
struct TrafficShape {
  std::int64_t bytes = 0;
  std::int64_t launches = 1;
  TrafficKind kind = TrafficKind::kElementwise;
  /// kList: elements of the list's tensors. kElementwise, kOneByOne: elements that each take one
  /// thread, because the operands differ in type, size or order; 0: a thread handles several
  /// elements in one vectorised access.
  std::int64_t elements = 0;
  friend bool operator==(const TrafficShape&, const TrafficShape&) = default;
};

/// Groups of `size` ranks, each `stride` apart; `outer_size` such groups, each `outer_stride`
/// apart, form the whole. This describes a group along one axis of the mesh or along two axes that
/// are not adjacent.
struct RankGroup {
  std::int64_t size = 1;
  std::int64_t stride = 1;
  std::int64_t outer_size = 1;
  std::int64_t outer_stride = 1;
  [[nodiscard]] std::int64_t ranks() const { return size * outer_size; }
  friend bool operator==(const RankGroup&, const RankGroup&) = default;
};

enum class CollectiveKind : std::uint8_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kBroadcast,
  kReduce,  ///< To one rank.
  kAllToAll,
  kSend,     ///< To a rank `group.stride` away. Sends and receives of one batch use two streams.
  kReceive,  ///< From a rank `group.stride` away.
  /// Tokens go to the ranks that have their experts, once per rank however many of its experts a
  /// token has (HybridEP).
  kTokenExchange,
};
/// "all_reduce", "send", ...
[[nodiscard]] std::string_view name_of(CollectiveKind kind);

/// The axis of the device mesh that a collective serves, independent of the ranks in its group.
enum class MeshAxis : std::uint8_t {
  kData,      ///< Gradients, parameters and sharded states; the norm of all gradients.
  kTensor,    ///< Tensor parallelism and sequence parallelism, which shards what it replicates.
  kContext,   ///< Tokens of one sequence that are on other ranks.
  kExpert,    ///< Tokens on their way to experts and back.
  kPipeline,  ///< Activations and gradients between stages; weights that two stages share.
};

/// A collective of NCCL: a kernel of its own, which is not counted among `Work::kernels`.
struct CollectiveShape {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  std::int64_t bytes = 0;  ///< Size of the full (gathered, unsharded) buffer.
  RankGroup group;
  MeshAxis axis = MeshAxis::kData;
  std::int32_t experts = 0;  ///< kTokenExchange: experts of all ranks; `bytes` are those of a
                             ///< rank's tokens.
  std::int32_t top_k = 0;    ///< kTokenExchange: experts per token.
  friend bool operator==(const CollectiveShape&, const CollectiveShape&) = default;
};

enum class CopyKind : std::uint8_t {
  kDeviceToDevice,
  kHostToDevice,
  kDeviceToHost,
  kHostWork,
  kNvme
};

/// A copy; or, as `kHostWork`, work on the host that reads or writes `bytes` of host memory (CPU
/// Adam); or, as `kNvme`, bytes that the host reads from a drive or writes to it.
struct CopyShape {
  CopyKind kind = CopyKind::kDeviceToDevice;
  std::int64_t bytes = 0;
  friend bool operator==(const CopyShape&, const CopyShape&) = default;
};

using WorkShape = std::variant<GemmShape, AttentionShape, TrafficShape, CollectiveShape, CopyShape>;

/// Device work of a phase: sums over its items.
struct Work {
  double gemm_flops = 0;       ///< FLOPs of library calls; grouped kernels count in `kernels`.
  double apex_gemm_flops = 0;  ///< Share of `gemm_flops` in apex's extension for weight gradients.
  std::int64_t gemms = 0;
  std::int64_t kernels = 0;        ///< Launches other than library calls.
  std::int64_t traffic_bytes = 0;  ///< Bytes that kernels bound by memory read and write.
  std::int64_t host_to_device_bytes = 0;
  std::int64_t device_to_host_bytes = 0;
  std::int64_t device_to_device_bytes = 0;
  struct Collective {
    CollectiveKind kind = CollectiveKind::kAllReduce;
    std::int64_t ranks = 0;
    std::int64_t calls = 0;
    std::int64_t bytes = 0;  ///< Size of the full (gathered, unsharded) buffers.
  };
  std::vector<Collective> collectives;

  void add(const GemmShape& shape);
  void add(const AttentionShape& shape);
  void add(const TrafficShape& shape);
  void add(const CollectiveShape& shape);
  void add(const CopyShape& shape);
};

/// One item, in the order in which the host issues them.
struct WorkItem {
  enum class Kind : std::uint8_t {
    kRun,     ///< Runs `WorkShape` number `index` on `stream`.
    kRecord,  ///< Records mark number `index` after all work given to `stream` so far.
    kWait,    ///< `stream` goes on only when mark number `index` is reached.
    kHost,    ///< The host itself waits for mark number `index` (a synchronisation).
  };
  Kind kind = Kind::kRun;
  std::uint8_t stream = 0;  ///< 0: the compute stream.
  /// The loop inside one operator that issues the item, such as the products of a series. 0: none,
  /// the operator issues the item itself. N >= 1: before this item, the loop has made N - 1
  /// tensors.
  std::uint16_t loop = 0;
  std::uint32_t index = 0;
  std::uint32_t event = 0;  ///< Index of the memory event that comes next.
  std::uint32_t site = 0;   ///< Index into `RankProgram::sites`.
};

/// The items of a whole program; each phase knows its range.
struct DeviceWork {
  std::vector<WorkItem> items;
  std::vector<WorkShape> shapes;     ///< Each distinct shape once.
  std::vector<std::string> streams;  ///< "compute", "all_gather", ...: indexed by stream.
  std::uint32_t marks = 0;
};

/// The share of tokens that have at least one of their `shape.top_k` experts in a given one of
/// `parts` equal parts of the `shape.experts` experts, if all choices are equally likely: 1 - C(E -
/// E/p, k) / C(E, k).
///
/// Shapes:  requires a kTokenExchange and `parts` of 1 or more.
[[nodiscard]] double reached_share(const CollectiveShape& shape, double parts);

}  // namespace headroom::ir
