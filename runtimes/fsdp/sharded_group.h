#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "model_ir/plan/parallel_plan.h"
#include "runtimes/fsdp/plan.h"
#include "runtimes/torch/eager.h"
#include "runtimes/torch/tensor.h"

namespace headroom::ir::fsdp {

/// Streams on which FSDP allocates; 0 is the compute stream.
inline constexpr StreamId kGatherStream = 1;   ///< Copies into all-gathers.
inline constexpr StreamId kReduceStream = 2;   ///< Reduce-scatters and what follows.
inline constexpr StreamId kReplicaStream = 3;  ///< All-reduces among replicas.
/// Stream of the all-gathers themselves; nothing is allocated on it.
inline constexpr StreamId kCollectiveStream = 5;

/// The streams of one root. Each model that is called by itself has its own.
struct Streams {
  StreamId gather = kGatherStream;
  StreamId collective = kCollectiveStream;
  StreamId reduce = kReduceStream;
  StreamId replica = kReplicaStream;
};

/// What all groups of a model share.
struct Sharding {
  torch::Eager& eager;
  const FsdpPlan& plan;
  DType stored = DType::kFp32;   ///< Type of the model's shards.
  DType trained = DType::kFp32;  ///< Type of adapters (fp32); without adapters, of all shards.
  std::int64_t replicas = 1;     ///< Copies of the sharded model (`Mesh::replicas`).
  std::int64_t ranks = 1;        ///< Ranks that share one of them.
  std::int64_t stride = 1;       ///< Distance between them; tensor-parallel ranks lie in between.
  std::int64_t rank = 0;         ///< This rank among `ranks`; the last ones may have fewer rows.
  bool autocast = false;         ///< Whether the model runs under torch.autocast.
  Streams streams{};
  /// Whether parameters are sharded along their second dim (shard_placement_fn). Gathered
  /// parameters and gradients then need a rearranged copy. Requires a dim that the ranks divide.
  bool by_columns = false;
  bool divides = false;  ///< Whether set_gradient_divide_factor was called, even with 1.
};

/// Rows that `sharding`'s rank keeps of a parameter with `rows` rows, as torch.chunk divides them.
[[nodiscard]] std::int64_t own_rows(const Sharding& sharding, std::int64_t rows);

/// One parameter: the whole, while its group is gathered, and this rank's rows.
struct ShardedParameter {
  torch::Tensor whole;              ///< Has no memory while the group is sharded.
  torch::Tensor shard;              ///< A leaf of its own, which the optimizer steps.
  std::int64_t shard_elements = 0;  ///< Including the padding of the last rank.
  torch::Tensor kept;               ///< Kept after forward if resharded to fewer ranks.
  torch::Tensor sum;                ///< Sum of whole gradients that are not reduced yet.
  bool partial = false;   ///< Whether the gradient must be summed over tensor-parallel ranks.
  torch::Tensor scale{};  ///< Scale of the whole if it is gathered in 8 bits.
};

/// Parameters that are gathered, released and reduced together, and their buffers.
///
/// Model:  shards have ceil(rows / ranks) rows. A gather casts and copies them into one buffer, on
///         its own stream, and copies the result into one storage per parameter. A reduction lays
///         out gradients in one buffer, whose reduced part becomes the gradients of the shards.
/// Source: pytorch/pytorch 2.11 torch/distributed/fsdp/_fully_shard/_fsdp_param.py,
///         _fsdp_collectives.py.
class ShardedGroup {
 public:
  ShardedGroup(Sharding sharding, std::int32_t module)
      : sharding_(sharding), module_(module), reshards_(sharding.plan.reshard_after_forward) {}

  void add(const torch::Tensor& whole, const torch::Tensor& shard, bool partial = false);
  /// Called when shards have been given memory: shards with fewer rows than others are padded.
  /// Source: _fsdp_param.py, reset_sharded_param, which FSDPModule._apply calls.
  void pad_shards();
  /// Sets, in place of the plan, whether parameters are resharded after forward.
  void set_reshards(bool reshards) { reshards_ = reshards; }
  /// Whether the scales of all parameters gathered in 8 bits are computed together after the
  /// optimizer step.
  void set_precomputed_scales(bool precomputed) { precomputed_scales_ = precomputed; }
  [[nodiscard]] bool reshards() const { return reshards_; }
  [[nodiscard]] std::span<const ShardedParameter> parameters() const { return parameters_; }
  [[nodiscard]] std::int32_t module() const { return module_; }

  [[nodiscard]] bool gathered() const { return gathered_; }
  /// Whether a gather has been started but the parameters do not have its result yet.
  [[nodiscard]] bool pending() const { return pending_; }
  [[nodiscard]] const Streams& streams() const { return sharding_.streams; }
  void start_gather();
  /// The same on the current stream: `unshard(async_op=True)`.
  void start_gather_here();
  /// Fills the parameters; returns the gather's buffer.
  [[nodiscard]] torch::Tensor finish_gather();
  void drop_pending();
  void release();
  /// The same after forward, when a larger part may stay (`FsdpPlan::reshard_ranks`).
  void release_after_forward();

  /// Adds the gradients of the whole parameters to sums in the type of the reduction, which replace
  /// them from then on. `begins`: whether a sum is created for a parameter that has none.
  void add_to_sums(bool begins);
  /// Takes the gradients of the whole parameters, or their sums, out of the parameters.
  [[nodiscard]] std::vector<std::size_t> take_gradients(std::vector<torch::Tensor>& gradients);
  /// Reduces the `gradients` of parameters `indices` and adds them to those of the shards. Returns
  /// the input of the reduce-scatter, which must outlive the latter.
  [[nodiscard]] torch::Tensor reduce(std::span<const std::size_t> indices,
                                     std::vector<torch::Tensor>& gradients);
  /// Frees the input of the all-reduce among replicas, which is complete.
  void finish_all_reduce() { all_reduce_input_.reset(); }
  /// Makes the compute stream wait for the end of a reduction.
  void wait_for_reduction();
  /// Mark after the reduce-scatter; its input can then be freed.
  [[nodiscard]] std::optional<std::uint32_t> scattered() const { return scattered_; }

 private:
  void gather_on(StreamId copies, StreamId collective);
  [[nodiscard]] bool casts(const ShardedParameter& parameter) const;
  /// Number of ranks whose parts a gather collects, and elements of this rank's part.
  [[nodiscard]] std::int64_t gather_ranks() const;
  [[nodiscard]] std::int64_t part_of(const ShardedParameter& parameter) const;
  /// Whether it is gathered in 8 bits (torchao's WeightWithDynamicFloat8CastTensor) from a wider
  /// shard.
  [[nodiscard]] bool quantises(const ShardedParameter& parameter) const;
  [[nodiscard]] torch::Tensor quantise(ShardedParameter& parameter);
  void make_scale(ShardedParameter& parameter);
  [[nodiscard]] std::vector<torch::Tensor> gather_inputs();
  void copy_out_alone();
  /// Cuts gradients along their second dim and lays the pieces one after the other. Returns the
  /// last gradient as it was before.
  [[nodiscard]] torch::Tensor turn_gradients(std::vector<torch::Tensor>& gradients);
  void drop_kept();
  void chunk_by_copies(std::span<const torch::Tensor> gradients, const torch::Tensor& input);
  void copy_in(std::span<const torch::Tensor> inputs);
  [[nodiscard]] torch::Tensor scatter(std::int64_t elements, DType trained);
  void accumulate(std::span<const std::size_t> indices, const torch::Tensor& reduced);

  Sharding sharding_;
  std::int32_t module_;
  bool reshards_;
  bool precomputed_scales_ = false;
  std::vector<ShardedParameter> parameters_;
  bool gathered_ = false;
  bool pending_ = false;
  bool kept_ = false;  ///< Whether this is between forward and backward.
  torch::Tensor buffer_;
  torch::Tensor all_reduce_input_;
  std::optional<std::uint32_t> was_gathered_;  ///< Mark after the all-gather.
  std::optional<std::uint32_t> was_released_;  ///< Mark after resharding in part after forward.
  std::optional<std::uint32_t> scattered_;     ///< Mark after the reduce-scatter.
  std::optional<std::uint32_t> reduced_;       ///< Mark after the whole reduction.
};

}  // namespace headroom::ir::fsdp
