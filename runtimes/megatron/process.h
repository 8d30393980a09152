#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "runtimes/megatron/activation_offload.h"
#include "runtimes/megatron/layer_offload.h"
#include "runtimes/megatron/weights.h"
#include "runtimes/torch/eager.h"

namespace headroom::ir::megatron {

/// Kernels that Triton tries out in several forms when they are first called.
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

/// What the token dispatcher of a layer keeps of the last micro-batch.
struct DispatcherState {
  torch::Tensor probabilities;
  torch::Tensor map;
  torch::Tensor counts;
  torch::Tensor mapping;
  torch::Tensor dispatched;  ///< HybridEP: probabilities of the tokens that came.
};

/// Collectives that have been started and that the next product waits for, by their marks: those of
/// every operand that comes in parts, part by part, and those that need only be over with it.
struct Userbuffers {
  std::vector<std::vector<std::uint32_t>> in_parts;
  std::vector<std::uint32_t> in_bulk;
};

/// A matrix in 8 bits, once for products that read its rows and once for those that read its
/// columns. With one scale for the whole tensor the columns are a transposed copy, which GPUs with
/// products of either layout (compute capability 10 and 11) do without.
/// Source: NVIDIA/TransformerEngine 2.11, pytorch/tensor/{float8,float8_blockwise,mxfp8}_tensor.py.
struct Fp8Tensor {
  torch::Tensor rows;
  torch::Tensor row_scales;  ///< Of both where the whole tensor has one.
  torch::Tensor columns;
  torch::Tensor column_scales;
};

/// Objects that a process makes once and keeps.
class Process {
 public:
  explicit Process(const Context& context)
      : context_(context), offload_(context), layer_offload_(context) {}

  /// Room for the GEMMs of Transformer Engine's modules.
  /// Source: transformer_engine/pytorch/cpp_extensions/gemm.py, get_cublas_workspace.
  void touch_te_workspace();
  /// The same for grouped GEMMs, which run on several streams.
  void touch_grouped_workspaces();
  /// What a fused weight gradient hands to autograd in place of a gradient: one tensor for all
  /// weights of one shape. Source: transformer_engine/pytorch/module/base.py, get_dummy_wgrad.
  [[nodiscard]] torch::Tensor dummy_gradient(const torch::Shape& shape);
  [[nodiscard]] bool is_dummy(const torch::Tensor& gradient) const;
  /// GlobalMemoryBuffer: grows to the largest request. Source: megatron/core/utils.py.
  void touch_memory_buffer(std::int64_t elements);
  /// A tensor in it.
  [[nodiscard]] torch::Tensor buffered(const torch::Shape& shape);
  /// Rotary angles of the whole sequence, made by the first forward that wants them.
  [[nodiscard]] torch::Tensor rotary_table(const Chunk& chunk);
  /// The tables of a layer's latent attention for this sequence and type.
  void touch_latent_tables(std::int32_t layer, const LatentTables& tables);
  /// Triton's autotuner at a kernel's first call: an array that clears the L2 cache between runs,
  /// and a copy of `restored` bytes that the kernel writes over.
  void tune(TunedKernel kernel, std::int64_t restored);
  [[nodiscard]] DispatcherState& dispatcher(std::int32_t layer) { return dispatchers_[layer]; }
  /// The parameters of a layer are gathered again: its next forward waits for the mark.
  void note_gather(std::int32_t layer, std::uint32_t mark) { gathers_[layer] = mark; }
  void wait_for_parameters(std::int32_t layer);
  /// The mask that unfused softmax keeps for its sequence length.
  /// Source: attention/dot_product_attention/softmax.py, _get_default_causal_mask.
  void touch_causal_mask();
  /// The orders that chunks of a sequence are put in before and after attention whose ranks
  /// exchange heads. Source: context_parallel.py, get_seq_chunk_ids_for_reordering_*.
  enum class ChunkOrder : std::uint8_t { kBefore, kAfter };
  void touch_chunk_order(ChunkOrder order);
  /// A module's quantizers for fp8, made when it first runs: scales and the largest values seen.
  /// Source: transformer_engine/pytorch/quantization.py, RecipeState.
  struct Casts {
    int forward = 0;
    int backward = 0;
  };
  /// Of a module of `products`: input, weight and output of each forward, two gradients backward.
  [[nodiscard]] static Casts linear_casts(int products) {
    return {.forward = 3 * products, .backward = 2 * products};
  }
  void touch_fp8_state(const torch::Tensor& weight, Casts casts);
  /// The same for a module that holds its weights in 8 bits: as it is made. Those count for
  /// reductions once it has run.
  void make_fp8_state(const torch::Tensor& weight, Casts casts);
  /// The same of the attention of a layer, which keeps quantizers without using them.
  void touch_fp8_attention(std::int32_t layer);
  struct Fp8Weight {
    Fp8Tensor tensor;
    bool current = false;  ///< Cast, or turned, since the optimizer's last step.
    bool held = false;     ///< There is no other: --fp8-param-gather.
  };
  [[nodiscard]] Fp8Weight& fp8_weight(const torch::Tensor& weight) {
    return fp8_weights_[weight.impl()];
  }
  /// A weight that is nothing but `tensor`.
  void hold_fp8_weight(const torch::Tensor& weight, const Fp8Tensor& tensor) {
    fp8_weights_[weight.impl()] = {.tensor = tensor, .current = true, .held = true};
  }
  /// set_is_first_microbatch: weights will be cast again.
  void begin_step();
  /// The log of experts' balancing losses, one number for each layer.
  /// Source: megatron/core/transformer/moe/moe_utils.py, save_to_aux_losses_tracker.
  void touch_balance_log();
  /// What runs beside the next product under --tp-comm-overlap.
  [[nodiscard]] Userbuffers& userbuffers() { return userbuffers_; }
  /// Delayed scaling: the largest values that all modules have seen in this direction are reduced
  /// over the ranks of the stage, once the layers have run.
  void reduce_fp8_scales(bool forward);
  /// Whether this is the first 8-bit module of its pass, whose backward is the last.
  [[nodiscard]] bool begins_fp8(const torch::Tensor& weight) const {
    return fp8_first_.contains(weight.impl());
  }
  /// The layers of a chunk begin: the next 8-bit module is the first one.
  void begin_fp8_layers() { fp8_begins_ = true; }
  /// What goes to the host of --offload-modules.
  [[nodiscard]] ActivationOffload& offload() { return offload_; }
  /// What goes to the host of --cpu-offloading-num-layers.
  [[nodiscard]] LayerOffload& layer_offload() { return layer_offload_; }
  /// cu_seqlens of whole sequences, of one length and half of it.
  void touch_sequence_lengths();
  [[nodiscard]] const torch::Tensor& sequence_lengths() const { return sequence_lengths_.front(); }

 private:
  const Context& context_;
  ActivationOffload offload_;
  LayerOffload layer_offload_;
  torch::Tensor te_workspace_;
  std::vector<torch::Tensor> grouped_workspaces_;
  Userbuffers userbuffers_;
  Casts fp8_casts_;  ///< Of all modules that have run.
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
  std::set<const torch::TensorImpl*> fp8_modules_;  ///< That have run.
  std::set<const torch::TensorImpl*> fp8_made_;     ///< Whose quantizers are there.
  std::set<std::int32_t> fp8_attention_;
  std::vector<torch::Tensor> fp8_state_;
};

}  // namespace headroom::ir::megatron
