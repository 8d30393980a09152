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

/// Types of a FlatParameter, and whether it is trained: all of its parameters are, or none.
struct FlatTypes {
  DType moved = DType::kFp32;     ///< In which the parameters come from the host.
  DType stored = DType::kFp32;    ///< Of this rank's part.
  DType gathered = DType::kFp32;  ///< Of the whole, and of the arithmetic.
  DType reduced = DType::kFp32;   ///< Of gradients on their way.
  bool trained = true;
};

/// The FlatParameter of one wrapped module: its parameters end to end, of which this rank keeps a
/// part, and what becomes of them in a step.
///
/// Model:  parameters start at multiples of 16 bytes of the gathered type; the whole is padded to
///         the ranks. A gather casts the shard, then fills the flat tensor, whose views the
///         module's parameters are. Backward joins the views' gradients in one flat tensor, whose
///         reduced part, cast back, the optimizer sees through views of its own. Without
///         `use_orig_params` nothing is aligned, and the last parts and gradients are padded.
///         Under NO_SHARD every rank keeps the whole: a gather is the cast alone, a reduction an
///         all-reduce in place. With offload shards and their gradients are the host's; a shard is
///         copied to the device before each gather, also where the whole is there already.
/// Source: pytorch/pytorch 2.11 torch/distributed/fsdp/_flat_param.py, _runtime_utils.py.
class FlatUnit {
 public:
  FlatUnit(Sharding sharding, std::int32_t module, FlatTypes types)
      : sharding_(sharding), module_(module), types_(types) {}
  FlatUnit(const FlatUnit&) = delete;
  FlatUnit& operator=(const FlatUnit&) = delete;

  /// `slot`: where the module finds the parameter. `companions` come to the device just before it:
  /// the factors and tables of a quantised weight, which stay whole. Call `flatten` after the last.
  void add(torch::Tensor* slot, std::vector<torch::Tensor> companions = {});
  /// Moves the parameters, on the host until now, to the device in `order`, flattens them, keeps
  /// this rank's part.
  void flatten(const std::vector<std::size_t>& order, const std::vector<torch::Tensor>& buffers);
  /// All modules are wrapped: trained parts that are to be wider become so.
  void widen();

  [[nodiscard]] std::int32_t module() const { return module_; }
  [[nodiscard]] bool trained() const { return types_.trained; }
  /// Where the module finds its first parameter.
  [[nodiscard]] const torch::Tensor* first_slot() const { return members_.front().slot; }
  /// This rank's part of each parameter, as the optimizer sees it, by where the module finds the
  /// parameter; parameters of which it has none are left out.
  void list_pieces(std::map<const torch::Tensor*, torch::Tensor>& pieces) const;
  /// The leaf whose gradient the module's backward completes.
  [[nodiscard]] const torch::Tensor& flat() const { return flat_; }

  /// Before the first forward, buffers are made and their memory given back.
  void init_buffers();
  void gather();
  /// A second micro-batch's gradients are added to what the first left.
  void prepare_backward();
  /// The compute stream waits for the gather that has been started.
  void wait();
  void release();
  /// The same after forward.
  void release_after_forward(bool root);
  /// Makes the module's parameters views of the flat one.
  void make_views();
  /// The module finds the views of its forward again: backward has gathered.
  void restore_views();
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
    std::int64_t padding = 0;  ///< Elements of a padding tensor before it.
    std::int64_t offset = 0;   ///< Elements before it in the flat tensor.
    torch::Tensor view{};      ///< Of the flat tensor, as forward made it.
    std::vector<torch::Tensor> companions{};
  };
  [[nodiscard]] bool casts() const { return types_.gathered != types_.stored; }
  [[nodiscard]] bool offloads() const { return sharding_.plan.cpu_offload; }
  /// NO_SHARD.
  [[nodiscard]] bool whole() const { return sharding_.ranks == 1; }
  [[nodiscard]] torch::Tensor bring_shard();
  /// Elements of the parts of all ranks.
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
  std::int64_t last_padding_ = 0;  ///< Elements of a padding tensor behind the last member.
  std::int64_t elements_ = 0;      ///< Of the flat tensor, with the padding it has.
  std::optional<std::uint32_t> was_reduced_;  ///< Mark behind the last reduction.
  torch::Tensor flat_;                        ///< Empty storage unless gathered.
  torch::Tensor shard_;
  /// The shard on the device, which the parameters are views of until they are those of the host.
  torch::Tensor brought_;
  std::vector<torch::Tensor> pieces_;
  torch::Tensor reduced_;  ///< Gradient of the shard.
  bool gathered_ = false;
  std::optional<std::uint32_t> was_gathered_;  ///< Mark behind the all-gather.
};

}  // namespace headroom::ir::fsdp
