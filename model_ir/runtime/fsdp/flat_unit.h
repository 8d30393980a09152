#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "model_ir/runtime/fsdp/sharded_group.h"
#include "model_ir/runtime/torch/eager.h"

namespace headroom::ir::fsdp {

/// Stream on which FullyShardedDataParallel casts shards before it gathers them.
inline constexpr StreamId kCastStream = 4;

/// The FlatParameter of one wrapped module: its parameters end to end, of which this rank keeps a
/// part, and what becomes of them in a step.
///
/// Model:  parameters start at multiples of 16 bytes of the gathered type; the whole is padded to
///         the ranks. A gather casts the shard, then fills the flat tensor, whose views the
///         module's parameters are. Backward joins the views' gradients in one flat tensor, whose
///         reduced part, cast back, the optimizer sees through views of its own.
/// Source: pytorch/pytorch 2.11 torch/distributed/fsdp/_flat_param.py, _runtime_utils.py.
class FlatUnit {
 public:
  FlatUnit(Sharding sharding, std::int32_t module) : sharding_(sharding), module_(module) {}
  FlatUnit(const FlatUnit&) = delete;
  FlatUnit& operator=(const FlatUnit&) = delete;

  /// `slot`: where the module finds the parameter. Call `flatten` after the last one.
  void add(torch::Tensor* slot, const torch::Shape& shape);
  /// Moves the parameters, on the host until now, to the device in `order`, flattens them, keeps
  /// this rank's part.
  void flatten(const std::vector<std::size_t>& order, const std::vector<torch::Tensor>& buffers);

  [[nodiscard]] std::int32_t module() const { return module_; }
  [[nodiscard]] bool gathered() const { return gathered_; }
  /// This rank's part of each parameter, as the optimizer sees it; undefined where it has none.
  [[nodiscard]] const std::vector<torch::Tensor>& pieces() const { return pieces_; }
  /// The leaf whose gradient the module's backward completes.
  [[nodiscard]] const torch::Tensor& flat() const { return flat_; }

  /// Before the first forward, buffers are made and their memory given back.
  void init_buffers();
  void gather();
  /// The compute stream waits for the gather that has been started.
  void wait();
  void release();
  /// Makes the module's parameters views of the flat one.
  void make_views();
  [[nodiscard]] bool has_recorded_views() const;
  /// Takes the flat gradient, gives the parameters' memory back, reduces. `released` runs before
  /// the reduction.
  void reduce(const std::function<void()>& released);
  /// Backward is over: the optimizer gets its gradients.
  void show_gradients();
  /// If the optimizer has dropped its gradients, what they were views of goes.
  void forget_gradients();

 private:
  struct Member {
    torch::Tensor* slot = nullptr;
    torch::Shape shape;
    std::int64_t offset = 0;  ///< Elements before it in the flat tensor.
  };
  [[nodiscard]] bool casts() const { return sharding_.plan.param_dtype != sharding_.stored; }
  void cut_pieces();

  Sharding sharding_;
  std::int32_t module_;
  std::vector<Member> members_;
  std::int64_t elements_ = 0;                 ///< Of the flat tensor, with all padding.
  std::optional<std::uint32_t> was_reduced_;  ///< Mark behind the last reduction.
  torch::Tensor flat_;                        ///< Empty storage unless gathered.
  torch::Tensor shard_;
  std::vector<torch::Tensor> pieces_;
  torch::Tensor reduced_;  ///< Gradient of the shard.
  bool gathered_ = false;
  std::optional<std::uint32_t> was_gathered_;  ///< Mark behind the all-gather.
};

}  // namespace headroom::ir::fsdp
