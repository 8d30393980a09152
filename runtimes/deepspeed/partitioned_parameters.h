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

/// Streams of stage 3 where communication overlaps; 0 is the compute stream.
inline constexpr StreamId kGatherStream = 1;  ///< All-gathers of parameters.
inline constexpr StreamId kReduceStream = 2;  ///< Gradients on their way to their partition.

/// One parameter that zero.Init has partitioned.
struct PartitionedParameter {
  enum class Residence : std::uint8_t { kPartitioned, kInFlight, kAvailable };
  torch::Tensor whole;              ///< A leaf without memory while it is partitioned.
  torch::Tensor shard;              ///< This rank's part; undefined where the host holds it.
  std::int64_t shard_elements = 0;  ///< With the padding of the last rank.
  /// hpZ: there is a second part, of the ranks of a node; undefined where the host holds it.
  bool has_secondary = false;
  torch::Tensor secondary;
  bool persists = false;  ///< Stays whole between steps.
  Residence status = Residence::kPartitioned;
  std::vector<std::size_t> users;  ///< Modules that need it now.
};

/// An all-gather that has been started: what `wait` makes parameters of.
struct ParameterGather {
  std::vector<std::size_t> parameters;
  /// The ranks' parts of several parameters, by type; none for one alone.
  std::vector<torch::Tensor> flats;
  /// qwZ: what is gathered in place of `flats`, and what `wait` has made of it.
  std::optional<QuantisedTensor> packed;
  std::vector<torch::Tensor> inputs;  ///< What collectives read, until they have been waited for.
  std::vector<std::uint32_t> marks;   ///< Behind its collectives.
  bool complete = false;
};

/// hpZ: gives `parameter` its second part, a copy of what the ranks of a node share.
/// Source: partition_parameters.py, _partition_param_sec.
void make_secondary(torch::Eager& eager, const ParallelPlan& plan, const ZeroPlan& zero,
                    PartitionedParameter& parameter);

/// The parameters of a model in the order of their creation (`ds_id`), and how they are gathered
/// and partitioned.
///
/// Model:  one parameter is gathered into the memory that it then lives in. Several are gathered
///         into one buffer, from which each is concatenated when it is waited for; the buffer lives
///         until all of them have been.
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

  /// `all_gather_coalesced`: starts to gather parameters, which ascend. All of them have a second
  /// part or none.
  [[nodiscard]] std::shared_ptr<ParameterGather> start_gather(std::vector<std::size_t> indices);
  void wait(ParameterGather& gather);
  /// `param.all_gather(list)`: at once, each into memory of its own.
  void gather(std::span<const std::size_t> indices);
  /// `param.partition()`
  void partition(std::size_t index);
  /// The second part is no longer what the step has made.
  void drop_secondary(std::size_t index);

 private:
  [[nodiscard]] std::uint32_t start(const torch::Tensor& memory, std::int64_t ranks);
  /// Of the second part where there is one.
  [[nodiscard]] std::int64_t gather_ranks(std::size_t index) const;
  [[nodiscard]] std::int64_t part_elements(std::size_t index) const;
  [[nodiscard]] std::int64_t padded_elements(std::size_t index) const;
  [[nodiscard]] torch::Tensor shard_on_device(std::size_t index);
  /// The second part where there is one.
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
