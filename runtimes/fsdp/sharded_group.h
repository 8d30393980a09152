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

/// Streams of FSDP's allocations; 0 is the compute stream.
inline constexpr StreamId kGatherStream = 1;   ///< Copies into all-gathers.
inline constexpr StreamId kReduceStream = 2;   ///< Reduce-scatters and what follows.
inline constexpr StreamId kReplicaStream = 3;  ///< All-reduces among replicas.
/// Carries the all-gathers themselves; nothing is allocated there.
inline constexpr StreamId kCollectiveStream = 5;

/// The streams of one root: each model that is called by itself makes its own.
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
  DType stored = DType::kFp32;   ///< Of the model's shards.
  DType trained = DType::kFp32;  ///< Of adapters, which are fp32, or of all shards without any.
  std::int64_t ranks = 1;        ///< That share the model; `plan.replicas` such sets exist.
  std::int64_t stride = 1;       ///< Between them: tensor-parallel ranks lie in between.
  std::int64_t rank = 0;         ///< This one among `ranks`: the last may have fewer rows or none.
  bool autocast = false;         ///< The model runs under torch.autocast.
  Streams streams{};
  /// Parameters are cut along their second dim (shard_placement_fn): what is gathered, and what is
  /// reduced, is put together anew. Requires a dim that the ranks divide.
  bool by_columns = false;
  bool divides = false;  ///< set_gradient_divide_factor has been called, if only with one.
};

/// The rows of a parameter of `rows` rows that `sharding`'s rank keeps: torch.chunk's.
[[nodiscard]] std::int64_t own_rows(const Sharding& sharding, std::int64_t rows);

/// One parameter: whole while its group is gathered, and this rank's rows of it.
struct ShardedParameter {
  torch::Tensor whole;              ///< Its storage is empty while the group is sharded.
  torch::Tensor shard;              ///< A leaf of its own, which the optimizer steps.
  std::int64_t shard_elements = 0;  ///< With the padding of the last rank.
  torch::Tensor kept;               ///< Between forward and backward, where it goes to fewer ranks.
  torch::Tensor sum;                ///< Of whole gradients that are not reduced yet.
  bool partial = false;   ///< Its gradient is a part of a sum among tensor-parallel ranks.
  torch::Tensor scale{};  ///< Of the whole, where it is gathered in 8 bits.
};

/// Parameters that are gathered, released and reduced together, and their buffers.
///
/// Model:  shards are ceil(rows / ranks) rows. A gather copies them, cast, into one buffer on a
///         stream of its own, and from there into one storage per parameter. A reduction lays
///         gradients out in one buffer, whose reduced part becomes the gradients of the shards.
/// Source: pytorch/pytorch 2.11 torch/distributed/fsdp/_fully_shard/_fsdp_param.py,
///         _fsdp_collectives.py.
class ShardedGroup {
 public:
  ShardedGroup(Sharding sharding, std::int32_t module)
      : sharding_(sharding), module_(module), reshards_(sharding.plan.reshard_after_forward) {}

  void add(const torch::Tensor& whole, const torch::Tensor& shard, bool partial = false);
  /// Says otherwise than the plan whether parameters go back to shards after forward.
  /// Shards have got memory: those of fewer rows than the others' are padded. Source:
  /// _fsdp_param.py, reset_sharded_param, which FSDPModule._apply calls.
  void pad_shards();
  void set_reshards(bool reshards) { reshards_ = reshards; }
  /// Scales of parameters gathered in 8 bits are made for all at once behind the optimizer's step.
  void set_precomputed_scales(bool precomputed) { precomputed_scales_ = precomputed; }
  [[nodiscard]] bool reshards() const { return reshards_; }
  [[nodiscard]] std::span<const ShardedParameter> parameters() const { return parameters_; }
  [[nodiscard]] std::int32_t module() const { return module_; }

  [[nodiscard]] bool gathered() const { return gathered_; }
  /// A gather has been started whose result is not in the parameters yet.
  [[nodiscard]] bool pending() const { return pending_; }
  [[nodiscard]] const Streams& streams() const { return sharding_.streams; }
  void start_gather();
  /// The same on the current stream: `unshard(async_op=True)`.
  void start_gather_here();
  /// Fills the parameters; returns the gather's buffer.
  [[nodiscard]] torch::Tensor finish_gather();
  void drop_pending();
  void release();
  /// The same after forward: a larger part may stay (`FsdpPlan::reshard_ranks`).
  void release_after_forward();

  /// Gradients of the whole parameters are added to sums of the reduction's type, which stand for
  /// them from then on. `begins`: sums are begun where there are none yet.
  void add_to_sums(bool begins);
  /// Takes the gradients of the whole parameters, or their sums, away from them.
  [[nodiscard]] std::vector<std::size_t> take_gradients(std::vector<torch::Tensor>& gradients);
  /// Reduces `gradients` of parameters `indices` and adds them to those of the shards. Returns the
  /// input of the reduce-scatter, which must outlive it.
  [[nodiscard]] torch::Tensor reduce(std::span<const std::size_t> indices,
                                     std::vector<torch::Tensor>& gradients);
  /// The replicas' all-reduce is over.
  void finish_all_reduce() { all_reduce_input_.reset(); }
  /// The compute stream waits for what a reduction has left behind it.
  void wait_for_reduction();
  /// When the reduce-scatter is over: its input can be let go.
  [[nodiscard]] std::optional<std::uint32_t> scattered() const { return scattered_; }

 private:
  void gather_on(StreamId copies, StreamId collective);
  [[nodiscard]] bool casts(const ShardedParameter& parameter) const;
  /// Ranks among which a gather finds its parts, and the elements of this one's part.
  [[nodiscard]] std::int64_t gather_ranks() const;
  [[nodiscard]] std::int64_t part_of(const ShardedParameter& parameter) const;
  /// Gathered in 8 bits (torchao's WeightWithDynamicFloat8CastTensor) from a shard of more.
  [[nodiscard]] bool quantises(const ShardedParameter& parameter) const;
  [[nodiscard]] torch::Tensor quantise(ShardedParameter& parameter);
  void make_scale(ShardedParameter& parameter);
  [[nodiscard]] std::vector<torch::Tensor> gather_inputs();
  void copy_out_alone();
  /// Gradients cut along their second dim, with the pieces behind one another; returns the last of
  /// what they were.
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
  bool kept_ = false;  ///< Parameters are between forward and backward.
  torch::Tensor buffer_;
  torch::Tensor all_reduce_input_;
  std::optional<std::uint32_t> was_gathered_;  ///< Marks: behind the all-gather,
  std::optional<std::uint32_t> was_released_;  ///< where a part stayed after forward,
  std::optional<std::uint32_t> scattered_;     ///< behind the reduce-scatter,
  std::optional<std::uint32_t> reduced_;       ///< and behind all of the reduction.
};

}  // namespace headroom::ir::fsdp
