#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "runtimes/deepspeed/plan.h"
#include "runtimes/deepspeed/quantised_tensor.h"
#include "runtimes/deepspeed/wrapper.h"

namespace headroom::ir::deepspeed {

/// Streams of stage 3 if communication overlaps; 0 is the compute stream.
inline constexpr StreamId kGatherStream = 1;  ///< All-gathers of parameters.
inline constexpr StreamId kReduceStream = 2;  ///< Reduction of gradients.

/// One parameter that zero.Init has partitioned.
struct PartitionedParameter {
  enum class Residence : std::uint8_t { kPartitioned, kInFlight, kAvailable };
  torch::Tensor whole;              ///< A leaf; has no memory while it is partitioned.
  torch::Tensor shard;              ///< This rank's part; undefined if the host holds it.
  std::int64_t shard_elements = 0;  ///< Including the padding of the last rank.
  /// hpZ: whether there is a secondary partition across the ranks of a node. The tensor is
  /// undefined if the host holds it.
  bool has_secondary = false;
  torch::Tensor secondary;
  bool persists = false;  ///< Stays gathered between steps.
  Residence status = Residence::kPartitioned;
  std::vector<std::size_t> users;  ///< Modules that need it at present.
};

/// An all-gather that has been started. `wait` makes parameters of its results.
struct ParameterGather {
  std::vector<std::size_t> parameters;
  /// The gathered parts of several parameters, one tensor for each type; none for a single
  /// parameter.
  std::vector<torch::Tensor> flats;
  /// qwZ: the quantised parts that are gathered; `wait` dequantises them.
  std::optional<QuantisedTensor> packed;
  std::vector<torch::Tensor> inputs;  ///< Inputs of the collectives, until these are complete.
  std::vector<std::uint32_t> marks;   ///< Marks after the collectives.
  bool complete = false;
};

/// hpZ: gives `parameter` its secondary partition, this rank's part of a copy that the ranks of a
/// node share.
/// Source: partition_parameters.py, _partition_param_sec.
void make_secondary(torch::Eager& eager, const ParallelPlan& plan, const ZeroPlan& zero,
                    PartitionedParameter& parameter);

/// The parameters of a model in the order of their creation (`ds_id`), and how they are gathered
/// and partitioned.
///
/// Model:  a single parameter is gathered into its final memory. Several are gathered into one
///         buffer, from which each is concatenated when it is waited for; the buffer lives until
///         all of them have been waited for.
/// Source: deepspeedai/DeepSpeed 0.19.8 deepspeed/runtime/zero/partition_parameters.py.
class PartitionedParameters {
 public:
  PartitionedParameters(EngineState state, std::vector<PartitionedParameter> parameters);

  [[nodiscard]] std::size_t size() const { return parameters_.size(); }
  [[nodiscard]] PartitionedParameter& operator[](std::size_t index) { return parameters_[index]; }
  [[nodiscard]] const PartitionedParameter& operator[](std::size_t index) const {
    return parameters_[index];
  }
  [[nodiscard]] std::size_t index_of(const torch::Tensor& whole) const;
  [[nodiscard]] bool has(const torch::Tensor& whole) const { return index_.contains(whole.impl()); }
  void add(PartitionedParameter parameter);

  /// `all_gather_coalesced`: starts to gather parameters in ascending order. Either all of them
  /// have a secondary partition or none has.
  [[nodiscard]] std::shared_ptr<ParameterGather> start_gather(std::vector<std::size_t> indices);
  void wait(ParameterGather& gather);
  /// `param.all_gather(list)`: gathers at once, each parameter into its own memory.
  void gather(std::span<const std::size_t> indices);
  /// `param.partition()`
  void partition(std::size_t index);
  /// Drops the secondary partition, which the step has made stale.
  void drop_secondary(std::size_t index);

 private:
  [[nodiscard]] std::uint32_t start(const torch::Tensor& memory, std::int64_t ranks);
  /// Ranks that gather the parameter: those of the secondary partition if there is one.
  [[nodiscard]] std::int64_t gather_ranks(std::size_t index) const;
  [[nodiscard]] std::int64_t part_elements(std::size_t index) const;
  [[nodiscard]] std::int64_t padded_elements(std::size_t index) const;
  [[nodiscard]] torch::Tensor shard_on_device(std::size_t index);
  /// This rank's part, from the secondary partition if there is one.
  [[nodiscard]] torch::Tensor part_on_device(std::size_t index);
  void share_shard(std::size_t index);
  void gather_alone(ParameterGather& gather, std::size_t index);
  void gather_together(ParameterGather& gather);
  void gather_by_sum(ParameterGather& gather);
  void gather_packed(ParameterGather& gather);
  void unpack(ParameterGather& gather);

  EngineState state_;
  std::vector<PartitionedParameter> parameters_;
  std::unordered_map<const torch::TensorImpl*, std::size_t> index_;
};

}  // namespace headroom::ir::deepspeed
