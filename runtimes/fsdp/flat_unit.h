#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "runtimes/fsdp/sharded_group.h"
#include "runtimes/torch/eager.h"

namespace headroom::ir::fsdp {

/// Stream on which FullyShardedDataParallel casts shards before it gathers them.
inline constexpr StreamId kCastStream = 4;

/// Types of a FlatParameter, and whether it is trained. Either all of its parameters are, or none.
struct FlatTypes {
  DType moved = DType::kFp32;     ///< Type on the way from the host.
  DType stored = DType::kFp32;    ///< Type of this rank's part.
  DType gathered = DType::kFp32;  ///< Type of the gathered parameters and of the arithmetic.
  DType reduced = DType::kFp32;   ///< Type in which gradients are reduced.
  bool trained = true;
};

/// The FlatParameter of one wrapped module. It concatenates the module's parameters, of which this
/// rank keeps a part. The class models what happens to it in a step.
///
/// Model:  parameters start at multiples of 16 bytes of the gathered type; the whole is padded to a
///         multiple of the ranks. A gather casts the shard, then fills the flat tensor; the
///         module's parameters are views of it. Backward joins the views' gradients in one flat
///         tensor. Its reduced part is cast back, and the optimizer sees views of that. Without
///         `use_orig_params` nothing is aligned, and the last parts and gradients are padded. With
///         NO_SHARD every rank keeps the whole: a gather is only the cast, and a reduction is an
///         in-place all-reduce. With offload the host holds shards and their gradients; a shard is
///         copied to the device before each gather, even if the whole is there already.
/// Source: pytorch/pytorch 2.11 torch/distributed/fsdp/_flat_param.py, _runtime_utils.py.
class FlatUnit {
 public:
  FlatUnit(Sharding sharding, std::int32_t module, FlatTypes types)
      : sharding_(sharding), module_(module), types_(types) {}
  FlatUnit(const FlatUnit&) = delete;
  FlatUnit& operator=(const FlatUnit&) = delete;

  /// Adds a parameter. `slot`: where the module finds it. `companions` are moved to the device just
  /// before it: the factors and tables of a quantised weight, which are not sharded. Call `flatten`
  /// after the last one.
  void add(torch::Tensor* slot, std::vector<torch::Tensor> companions = {});
  /// Moves the parameters that are on the host to the device in `order`, flattens them and keeps
  /// this rank's part.
  void flatten(const std::vector<std::size_t>& order, const std::vector<torch::Tensor>& buffers);
  /// Called when all modules are wrapped: casts the trained parts that are stored in a wider type.
  void widen();

  [[nodiscard]] std::int32_t module() const { return module_; }
  [[nodiscard]] bool trained() const { return types_.trained; }
  /// Where the module finds its first parameter.
  [[nodiscard]] const torch::Tensor* first_slot() const { return members_.front().slot; }
  /// Adds this rank's part of each parameter, as the optimizer sees it, with the parameter's slot
  /// as key. Parameters of which the rank has no part are left out.
  void list_pieces(std::map<const torch::Tensor*, torch::Tensor>& pieces) const;
  /// The leaf whose gradient is complete when the module's backward is.
  [[nodiscard]] const torch::Tensor& flat() const { return flat_; }

  /// Before the first forward, allocates buffers and frees them again.
  void init_buffers();
  void gather();
  /// The gradients of a second micro-batch are added to those of the first.
  void prepare_backward();
  /// Makes the compute stream wait for the gather that has been started.
  void wait();
  void release();
  /// The same after forward.
  void release_after_forward(bool root);
  /// Makes the module's parameters views of the flat one.
  void make_views();
  /// Gives the module the views of its forward again, since backward has gathered.
  void restore_views();
  /// Takes the flat gradient, frees the parameters' memory and reduces the gradient. `released`
  /// runs before the reduction.
  void reduce(const std::function<void()>& released);
  /// After backward: gives the optimizer its gradients.
  void show_gradients();
  /// Frees the gradients' memory if the optimizer has dropped the views of it.
  void forget_gradients();

 private:
  struct Member {
    torch::Tensor* slot = nullptr;
    torch::Shape shape;
    std::int64_t padding = 0;  ///< Elements of the padding before it.
    std::int64_t offset = 0;   ///< Elements before it in the flat tensor.
    torch::Tensor view{};      ///< View of the flat tensor, made by forward.
    std::vector<torch::Tensor> companions{};
  };
  [[nodiscard]] bool casts() const { return types_.gathered != types_.stored; }
  [[nodiscard]] bool offloads() const { return sharding_.plan.cpu_offload; }
  /// Whether the plan shards nothing (NO_SHARD).
  [[nodiscard]] bool whole() const { return sharding_.ranks == 1; }
  [[nodiscard]] torch::Tensor bring_shard();
  /// Elements of the parts of all ranks together.
  [[nodiscard]] std::int64_t padded() const { return align_up(elements_, sharding_.ranks); }
  void join();
  void cut_pieces();
  void show_shards();
  void keep_views();
  void reduce_part(const torch::Tensor& gradient);
  void reduce_whole();
  void view_gradient(const torch::Tensor& gradient);
  void set_grad(const torch::Tensor& parameter, const torch::Tensor& gradient);

  Sharding sharding_;
  std::int32_t module_;
  FlatTypes types_;
  std::vector<Member> members_;
  std::int64_t last_padding_ = 0;             ///< Elements of padding after the last member.
  std::int64_t elements_ = 0;                 ///< Elements of the flat tensor, with padding.
  std::optional<std::uint32_t> was_reduced_;  ///< Mark after the last reduction.
  torch::Tensor flat_;                        ///< Has no memory unless gathered.
  torch::Tensor shard_;
  /// The shard on the device. The parameters are views of it until the optimizer's shards replace
  /// it.
  torch::Tensor brought_;
  std::vector<torch::Tensor> pieces_;
  torch::Tensor reduced_;  ///< Gradient of the shard.
  bool gathered_ = false;
  std::optional<std::uint32_t> was_gathered_;  ///< Mark after the all-gather.
};

}  // namespace headroom::ir::fsdp
