#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "runtimes/megatron/activation_offload.h"
#include "runtimes/megatron/layer_offload.h"
#include "runtimes/megatron/weights.h"
#include "runtimes/torch/eager.h"

namespace headroom::ir::megatron {

/// Kernels that Triton autotunes when they are first called.
enum class TunedKernel : std::uint8_t {
  kLatentQuery,
  kLatentQueryBackward,
  kLatentKey,
  kLatentKeyBackward,
  kPermute,
  kPermuteBackward,
  kUnpermute,
  kUnpermuteBackward,
};

/// Tensors of the last micro-batch that the token dispatcher of a layer keeps.
struct DispatcherState {
  torch::Tensor probabilities;
  torch::Tensor map;
  torch::Tensor counts;
  torch::Tensor mapping;
  torch::Tensor dispatched;           ///< HybridEP: probabilities of the received tokens.
  torch::Tensor padded;               ///< HybridEP with a capacity: tokens of each expert.
  std::vector<torch::Tensor> handle;  ///< HybridEP: routing information from dispatch to combine.
};

/// Marks of started collectives that the next product waits for: those of each operand that arrives
/// in parts, part by part, and those that only have to end with the product.
struct Userbuffers {
  std::vector<std::vector<std::uint32_t>> in_parts;
  std::vector<std::uint32_t> in_bulk;
};

/// An FP8 matrix: row-wise data for products that read its rows, and column-wise data for products
/// that read its columns. With one scale for the whole tensor, the column-wise data are a
/// transposed copy. GPUs whose products support either layout (compute capability 10 and 11) need
/// no such copy.
/// Source: NVIDIA/TransformerEngine 2.11, pytorch/tensor/{float8,float8_blockwise,mxfp8}_tensor.py.
struct Fp8Tensor {
  torch::Tensor rows;
  torch::Tensor row_scales;  ///< Scales of both if the whole tensor has one scale.
  torch::Tensor columns;
  torch::Tensor column_scales;
};

/// Objects that a process makes once and keeps.
class Process {
 public:
  explicit Process(const Context& context)
      : context_(context), offload_(context), layer_offload_(context) {}

  /// Allocates the workspace for GEMMs of Transformer Engine's modules.
  /// Source: transformer_engine/pytorch/cpp_extensions/gemm.py, get_cublas_workspace.
  void touch_te_workspace();
  /// The same for grouped GEMMs, which run on several streams.
  void touch_grouped_workspaces();
  /// The tensor that a fused weight gradient returns to autograd in place of a gradient: one tensor
  /// for all weights of one shape. Source: transformer_engine/pytorch/module/base.py,
  /// get_dummy_wgrad.
  [[nodiscard]] torch::Tensor dummy_gradient(const torch::Shape& shape);
  [[nodiscard]] bool is_dummy(const torch::Tensor& gradient) const;
  /// GlobalMemoryBuffer, which grows to the largest request. Source: megatron/core/utils.py.
  void touch_memory_buffer(std::int64_t elements);
  /// A tensor in the GlobalMemoryBuffer.
  [[nodiscard]] torch::Tensor buffered(const torch::Shape& shape);
  /// Rotary angles of the whole sequence. The first forward that needs them makes them.
  [[nodiscard]] torch::Tensor rotary_table(const Chunk& chunk);
  /// Makes the tables of a layer's latent attention for this sequence and type.
  void touch_latent_tables(std::int32_t layer, const LatentTables& tables);
  /// Triton's autotuner at the first call of a kernel. It allocates an array that clears the L2
  /// cache between runs, and a copy of the `restored` bytes that the kernel overwrites.
  void tune(TunedKernel kernel, std::int64_t restored);
  [[nodiscard]] DispatcherState& dispatcher(std::int32_t layer) { return dispatchers_[layer]; }
  /// Called when the parameters of a layer are gathered again: its next forward waits for the mark.
  void note_gather(std::int32_t layer, std::uint32_t mark) { gathers_[layer] = mark; }
  void wait_for_parameters(std::int32_t layer);
  /// Makes the mask that unfused softmax keeps for its sequence length.
  /// Source: attention/dot_product_attention/softmax.py, _get_default_causal_mask.
  void touch_causal_mask();
  /// The permutations of sequence chunks before and after attention in which ranks exchange heads.
  /// Source: context_parallel.py, get_seq_chunk_ids_for_reordering_*.
  enum class ChunkOrder : std::uint8_t { kBefore, kAfter };
  void touch_chunk_order(ChunkOrder order);
  /// Numbers of a module's FP8 quantizers, which are made when the module first runs. Each has a
  /// scale and the absolute maxima (amax) seen so far.
  /// Source: transformer_engine/pytorch/quantization.py, RecipeState.
  struct Casts {
    int forward = 0;
    int backward = 0;
  };
  /// For a module with `products` products. Each has input, weight and output in forward, and two
  /// gradients in backward.
  [[nodiscard]] static Casts linear_casts(int products) {
    return {.forward = 3 * products, .backward = 2 * products};
  }
  void touch_fp8_state(const torch::Tensor& weight, Casts casts);
  /// The same for a module that stores its weights in FP8. Its quantizers are made with the module,
  /// and take part in reductions once it has run.
  void make_fp8_state(const torch::Tensor& weight, Casts casts);
  /// The same for the attention of a layer, which keeps quantizers without using them.
  void touch_fp8_attention(std::int32_t layer);
  struct Fp8Weight {
    Fp8Tensor tensor;
    bool current = false;  ///< Cast or transposed since the optimizer's last step.
    bool held = false;     ///< There is no other copy: --fp8-param-gather.
  };
  [[nodiscard]] Fp8Weight& fp8_weight(const torch::Tensor& weight) {
    return fp8_weights_[weight.impl()];
  }
  /// Registers a weight that is stored only as `tensor`.
  void hold_fp8_weight(const torch::Tensor& weight, const Fp8Tensor& tensor) {
    fp8_weights_[weight.impl()] = {.tensor = tensor, .current = true, .held = true};
  }
  /// set_is_first_microbatch: weights are cast again.
  void begin_step();
  /// Allocates the log of the load-balancing losses, one number for each layer.
  /// Source: megatron/core/transformer/moe/moe_utils.py, save_to_aux_losses_tracker.
  void touch_balance_log();
  /// --delay-wgrad-compute: where products for gradients of weights are noted instead of being run;
  /// nullptr: they run. Returns the previous place.
  using Owed = std::vector<std::function<void()>>;
  Owed* exchange_owed(Owed* owed) { return std::exchange(owed_, owed); }
  [[nodiscard]] bool owes_weights() const { return owed_ != nullptr; }
  /// Runs `product` now or notes it. What it has captured lives until it has run.
  void run_or_owe(std::function<void()> product) {
    if (owed_ != nullptr) {
      owed_->push_back(std::move(product));
    } else {
      product();
    }
  }
  /// Collectives that overlap the next product with --tp-comm-overlap.
  [[nodiscard]] Userbuffers& userbuffers() { return userbuffers_; }
  /// Delayed scaling: once the layers have run, the absolute maxima (amax) of all modules in this
  /// direction are reduced over the ranks of the stage.
  void reduce_fp8_scales(bool forward);
  /// Whether this is the first FP8 module of its forward pass, whose backward is the last one.
  [[nodiscard]] bool begins_fp8(const torch::Tensor& weight) const {
    return fp8_first_.contains(weight.impl());
  }
  /// Called when the layers of a chunk begin: the next FP8 module is the first one.
  void begin_fp8_layers() { fp8_begins_ = true; }
  /// State of --offload-modules.
  [[nodiscard]] ActivationOffload& offload() { return offload_; }
  /// State of --cpu-offloading-num-layers.
  [[nodiscard]] LayerOffload& layer_offload() { return layer_offload_; }
  /// cu_seqlens of sequences of full length and of half the length.
  void touch_sequence_lengths();
  [[nodiscard]] const torch::Tensor& sequence_lengths() const { return sequence_lengths_.front(); }

 private:
  const Context& context_;
  ActivationOffload offload_;
  LayerOffload layer_offload_;
  torch::Tensor te_workspace_;
  std::vector<torch::Tensor> grouped_workspaces_;
  Userbuffers userbuffers_;
  Owed* owed_ = nullptr;
  Casts fp8_casts_;  ///< Quantizers of all modules that have run.
  bool fp8_begins_ = false;
  std::set<const torch::TensorImpl*> fp8_first_;
  std::map<std::pair<std::int64_t, std::int64_t>, torch::Tensor> dummies_;
  torch::Tensor memory_buffer_;
  std::map<const Chunk*, torch::Tensor> rotary_;
  std::map<std::int32_t, torch::Tensor> latent_angles_;
  std::set<TunedKernel> tuned_;
  std::map<std::int32_t, DispatcherState> dispatchers_;
  std::map<std::int32_t, std::uint32_t> gathers_;
  torch::Tensor causal_mask_;
  torch::Tensor balance_log_;
  std::vector<torch::Tensor> sequence_lengths_;
  std::map<ChunkOrder, torch::Tensor> chunk_orders_;
  void count_fp8_state(Casts casts);
  void add_fp8_state(Casts casts);
  std::map<const torch::TensorImpl*, Fp8Weight> fp8_weights_;
  std::set<const torch::TensorImpl*> fp8_modules_;  ///< Modules that have run.
  std::set<const torch::TensorImpl*> fp8_made_;     ///< Modules whose quantizers have been made.
  std::set<std::int32_t> fp8_attention_;
  std::vector<torch::Tensor> fp8_state_;
};

}  // namespace headroom::ir::megatron
