#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <tuple>
#include <vector>

#include "runtimes/megatron/plan.h"
#include "runtimes/megatron/weights.h"
#include "runtimes/torch/node.h"

namespace headroom::ir::megatron {

/// A module that --offload-modules may name.
using OffloadModule = bool MegatronOffload::*;

/// Pinned memory of the host. A block that is given back serves the next request of the same size.
/// Blocks are powers of two and stay allocated.
/// Source: pytorch/pytorch aten/src/ATen/core/CachingHostAllocator.h.
class PinnedMemory {
 public:
  explicit PinnedMemory(torch::Eager& eager) : eager_(eager) {}
  void take(std::int64_t bytes);
  void give_back(std::int64_t bytes);

 private:
  torch::Eager& eager_;
  std::map<std::int64_t, std::int64_t> free_;  ///< Blocks by size.
};

/// Tensors on the host, pooled by shape and type: a free one is reused when its kind is needed.
/// Attention's tensors have a dim for heads where others are matrices.
class HostTensors {
 public:
  explicit HostTensors(PinnedMemory& memory) : memory_(memory) {}
  void take(const torch::Shape& shape, DType dtype, bool heads);
  void give_back(const torch::Shape& shape, DType dtype, bool heads);

 private:
  using Kind = std::tuple<std::int64_t, std::int64_t, DType, bool>;
  [[nodiscard]] static Kind kind_of(const torch::Shape& shape, DType dtype, bool heads);

  PinnedMemory& memory_;
  std::map<Kind, std::int64_t> free_;
};

/// The tensors that one call of a module saves. They are offloaded and reloaded together.
/// Source: OffloadTensorGroup, and the hooks of PipelineOffloadManager.
class OffloadGroup final : public torch::SavedTensorHooks {
 public:
  OffloadGroup(const Context& context, OffloadModule module, PinnedMemory& pinned,
               HostTensors& pool)
      : context_(context), module_(module), pinned_(pinned), pool_(pool) {}

  std::size_t pack(torch::Eager& eager, const torch::Tensor& tensor, torch::Tensor& kept) override;
  [[nodiscard]] torch::Tensor unpack(torch::Eager& eager, std::size_t slot) override;
  void forget(std::size_t slot) override;

  void begin() { slots_.clear(); }
  /// Copies every large enough tensor to the host, once the device has computed it.
  void offload();
  /// Copies the tensors back, overlapped with the device's computation.
  void reload();
  /// The device waits for the reloaded tensors.
  void wait() const;

  [[nodiscard]] OffloadModule module() const { return module_; }
  [[nodiscard]] bool stays() const { return stays_; }
  void keep() { stays_ = true; }

 private:
  struct Slot {
    torch::Tensor tensor;
    /// A leaf that requires a gradient. The operator's place for that gradient keeps the leaf alive
    /// until the operator releases what it saved.
    /// Source: torch/csrc/autograd/saved_variable.cpp, save_metadata.
    torch::Tensor leaf;
    torch::Shape shape;
    DType dtype = DType::kBf16;
    bool requires_grad = false;
    bool on_host = false;
  };
  void send(Slot& slot);
  void fetch(Slot& slot);
  [[nodiscard]] bool has_pool() const;
  [[nodiscard]] bool has_heads() const { return module_ == &MegatronOffload::core_attention; }

  const Context& context_;
  OffloadModule module_;
  PinnedMemory& pinned_;
  HostTensors& pool_;
  std::vector<Slot> slots_;
  std::uint32_t left_ = 0;  ///< CUDA events after the copies.
  std::uint32_t back_ = 0;
  bool stays_ = false;
};

/// Whether a tensor goes to the host: it is large enough and not a parameter.
[[nodiscard]] bool is_offloaded(const Context& context, const torch::Tensor& tensor);

/// Fine-grained activation offloading. Tensors that the chosen modules save are copied to pinned
/// memory of the host on one stream. They are copied back on another stream, one group ahead of the
/// backward pass.
///
/// Model:   each pass of a micro-batch through a chunk has a list of groups. A group is offloaded
///          when its module's forward ends. It is reloaded when the backward of the group after it
///          ends, or when backward asks for it. The first step offloads every group. From the
///          second step on, the last group of each kind stays on the device if its backward comes
///          next, and so does the last group of each kind of the first backward:
///
///             compute  | g1 | g2 | g3 | loss | g3' | g2' | g1' |
///             to host       |g1--|g2--|
///             from host                |g2----|g1----|
///
/// Ignores: the time that a copy takes: its block serves the next allocation at once.
/// Source:  NVIDIA/Megatron-LM core_v0.16.1,
///          megatron/core/pipeline_parallel/fine_grained_activation_offload.py.
class ActivationOffload {
 public:
  explicit ActivationOffload(const Context& context);

  /// One pass of a micro-batch through a chunk of the stage. Source: ChunkOffloadHandler.
  struct Pass {
    std::vector<std::shared_ptr<OffloadGroup>> groups;
    std::size_t started = 0;
    std::vector<OffloadGroup*> under_way;  ///< Groups that have begun and are not yet offloaded.
    std::vector<OffloadGroup*> away;
    std::vector<OffloadGroup*> coming;
  };

  [[nodiscard]] bool offloads(OffloadModule module) const {
    return module != nullptr && context_.megatron.offload_modules.*module;
  }
  /// Called when a forward pass through a chunk begins.
  void begin_pass(std::size_t chunk, std::size_t chunks);
  /// The pass that a module's call belongs to, or null if there is none.
  [[nodiscard]] Pass* next_pass(OffloadModule module);
  [[nodiscard]] Pass* current_pass() { return forward_; }
  /// Called when a module's forward begins.
  [[nodiscard]] OffloadGroup& start(Pass& pass, OffloadModule module);
  /// Called when a module's forward ends. Offloads its group and frees the memory of `released`,
  /// even if others still hold these tensors.
  void commit(Pass& pass, std::span<const torch::Tensor> released);
  /// Called when a module's backward begins.
  void begin_backward(Pass& pass, OffloadModule module);
  /// Called when a module's backward ends. Reloads the group before it, or the last group of the
  /// next backward pass.
  void finish_backward(Pass& pass);
  /// Ends a step.
  void reset();

 private:
  void flush();
  void choose_staying();
  void meet();
  [[nodiscard]] bool leaves(const Pass& pass) const;
  [[nodiscard]] Pass* next_backward(OffloadModule module) const;

  const Context& context_;
  PinnedMemory pinned_;
  HostTensors pool_;
  bool first_step_ = true;
  std::vector<std::vector<Pass*>> staged_;  ///< Passes of each chunk, in the first step.
  std::vector<std::unique_ptr<Pass>> passes_;
  std::vector<Pass*> backward_order_;
  std::size_t next_forward_ = 0;
  std::size_t next_backward_ = 0;
  Pass* forward_ = nullptr;
  Pass* backward_ = nullptr;
  torch::Tensor barrier_;
};

}  // namespace headroom::ir::megatron
