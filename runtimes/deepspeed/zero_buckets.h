#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtimes/deepspeed/base_optimizer.h"
#include "runtimes/deepspeed/parameter_groups.h"
#include "runtimes/deepspeed/wrapper.h"

namespace headroom::ir::deepspeed {

/// The stream on which gradients are reduced if reduction overlaps backward.
inline constexpr StreamId kReductionStream = 1;

/// ZeRO stages 1 and 2. Each parameter group is flattened and cut into one partition per rank. Each
/// rank keeps fp32 masters of its partition. Gradients are reduced through a bucket.
///
///   backward, gradient by gradient     bucket full or at the end
///   gradient -> bucket (a view of it)  slices by owner -> [flattened] -> all-reduce
///                                      own gradients  -> gradients of the partition
///   a gradient larger than the bucket stays in its own memory and is reduced there
///
/// Stage 1 keeps whole gradients until the last micro-batch and fills the bucket after backward,
/// unless communication overlaps. If gradients are accumulated in fp32, stage 2 accumulates into
/// one flat fp32 partition per group instead of keeping 16-bit gradients.
///
/// Without contiguous_gradients there is no bucket: the gradients that would fill one are
/// flattened.
///
/// Source:   deepspeedai/DeepSpeed 0.19.8 deepspeed/runtime/zero/stage_1_and_2.py.
class ZeroBuckets final : public OptimizerWrapper {
 public:
  ZeroBuckets(EngineState state, BaseOptimizer& optimizer);
  ~ZeroBuckets() override;
  ZeroBuckets(const ZeroBuckets&) = delete;
  ZeroBuckets& operator=(const ZeroBuckets&) = delete;

  void initialize() override;
  void before_backward(bool boundary) override;
  void after_backward(bool boundary) override;
  void step() override;
  [[nodiscard]] std::vector<std::vector<torch::Tensor>> stepped() const override;
  [[nodiscard]] bool scales_loss() const override { return true; }

 private:
  struct Member {
    torch::Tensor parameter;
    std::int64_t offset = 0;    ///< Offset in the flat group, in elements.
    torch::Tensor accumulated;  ///< `grad_accum`: its gradient in another type (stage 1).
  };
  struct Group {
    std::vector<Member> members;      ///< In the module's order.
    std::vector<std::size_t> layout;  ///< `members` in the order of the flat group.
    std::int64_t partition = 0;       ///< Elements per rank.
    std::int64_t begin = 0;           ///< First element of this rank's partition.
    std::vector<std::size_t> owned;   ///< Members that this rank's partition touches.
    torch::Tensor flat;
    torch::Tensor master;
    std::vector<torch::Tensor> accumulated;  ///< Sums of the gradients of `owned` so far.
    std::vector<torch::Tensor> averaged;     ///< Their parts inside the partition.
    torch::Tensor compact;                   ///< The partition's fp32 gradient.
    /// Elements of a member inside this rank's partition.
    [[nodiscard]] std::int64_t inside(const Member& member) const;
    [[nodiscard]] bool touches(const Member& member) const { return inside(member) > 0; }
  };
  struct Position {
    std::size_t group = 0;
    std::size_t member = 0;
  };
  /// A part of a reduction that has a single owner.
  struct Slice {
    std::int64_t rank = 0;
    std::int64_t elements = 0;
  };

  void lay_out(Group& group);
  void begin_group();
  void flatten(Group& group);
  /// Copies the parameters to the host, where the flat group is made.
  void move_to_host(const Group& group);
  void make_master(Group& group);
  void hold_group(std::int64_t partition);
  void hold_accumulated();
  void make_buckets();
  void arrived(Position position);
  /// Copies one gradient into the bucket.
  void fill_bucket(Position position);
  void average(std::int64_t elements);
  void reduce_bucket();
  void reduce_apart();
  void clear_reduced();
  [[nodiscard]] std::vector<Slice> waiting_slices();
  void reduce_slices(const torch::Tensor& memory);
  void all_reduce(const std::vector<Slice>& slices, const torch::Tensor& memory,
                  CollectiveKind kind);
  void all_reduce_whole(const torch::Tensor& memory);
  /// Elements of all parameters that this rank's partitions touch, each counted whole.
  [[nodiscard]] std::int64_t owned_elements() const;
  void keep_gradient(Position position);
  void keep_offloaded(Position position);
  void collect_gradients(Group& group, std::vector<torch::Tensor>& newest);
  void cut_to_partition(Group& group);
  void step_group(std::size_t index, const torch::Tensor& norm);
  void check_overflow();
  [[nodiscard]] torch::Tensor global_norm();
  [[nodiscard]] torch::Tensor gradient_of(const Member& member) const;
  void clear_gradient(Member& member);
  [[nodiscard]] Member& at(Position position) {
    return groups_[position.group].members[position.member];
  }
  /// Whether gradients are accumulated in `compact`.
  [[nodiscard]] bool is_compact() const;
  /// Whether gradients are accumulated in `Member::accumulated`.
  [[nodiscard]] bool accumulates_apart() const;
  [[nodiscard]] torch::Tensor& compact_of(Group& group);

  EngineState state_;
  BaseOptimizer& optimizer_;
  DType dtype_;            ///< Type of the parameters.
  DType accumulation_;     ///< Type of accumulated gradients.
  DType communication_;    ///< Type in which gradients are reduced.
  bool overlaps_ = false;  ///< Whether reduction has its own stream.
  bool boundary_ = true;   ///< Whether this is the last micro-batch before a step.
  std::vector<Group> groups_;
  std::vector<torch::Tensor> buckets_;
  std::size_t current_ = 0;  ///< Index of the bucket that is being filled.
  std::int64_t filled_ = 0;
  std::vector<Position> waiting_;      ///< Those whose gradients wait to be reduced.
  std::vector<torch::Tensor> held_;    ///< Their gradients if there is no bucket.
  std::vector<Position> reduced_;      ///< Freed before the next reduction.
  torch::Tensor partition_gradients_;  ///< A buffer for the gradients that the partition touches.
  torch::Tensor staging_;              ///< For one gradient on its way to the host.
  std::vector<torch::Tensor> offloaded_norms_;
  torch::Tensor norm_;  ///< `_global_grad_norm`, which the engine keeps.
};

}  // namespace headroom::ir::deepspeed
