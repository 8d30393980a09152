#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "model_ir/plan/host_term.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::ir::transformers {

/// The ranks of a node for which `from_pretrained` loads the weights.
enum class LoadedBy : std::uint8_t {
  kEveryRank,
  kFirstOfNode,  ///< The others build the model on the meta device.
  kParts,        ///< Every rank, parameter by parameter, into its own part.
};

/// What `from_pretrained` takes of the host while a model loads.
///
/// Model:   weights are views of the file, which is mapped into memory: pages that the kernel may
///          drop. A checkpoint has 16-bit weights; parameters in another type are copies, all of
///          which are there before the model moves to the device. Quantised weights go to the
///          device one by one.
/// Source:  huggingface/transformers 5.17 src/transformers/modeling_utils.py,
///          _load_pretrained_model (get_slice; merged_state_dict for ZeRO-3; is_local_dist_rank_0
///          for FSDP). Measured with 5.17, torch 2.11 and a model of 334 million parameters: in
///          bf16 nothing but mapped pages, in fp32 1,274 MiB, 4 bytes for each parameter.
[[nodiscard]] std::vector<HostTerm> loading_terms(const ModelSpec& model, const ParallelPlan& plan,
                                                  LoadedBy by);

/// The terms of both lists.
[[nodiscard]] std::vector<HostTerm> joined(std::vector<HostTerm> terms,
                                           const std::vector<HostTerm>& more);

/// How the first rank collects the weights that a checkpoint gets.
enum class SavedFrom : std::uint8_t {
  kDevice,    ///< save_pretrained copies a file's tensors to the host at once.
  kGathered,  ///< All 16-bit weights are gathered on the host first.
};

/// What saving the model takes of the host of the first rank; none without `checkpoint_save`.
///
/// Model:   a file has at most 50 GB of weights. Of a model with adapters, only these are saved.
/// Source:  huggingface/transformers 5.17 src/transformers/modeling_utils.py, save_pretrained
///          (max_shard_size); safetensors 0.8 safetensors/torch.py, _flatten_as_ptr (copies of a
///          file's tensors live until it is written); deepspeedai/DeepSpeed 0.19.8
///          deepspeed/runtime/engine.py, _zero3_consolidated_16bit_state_dict.
[[nodiscard]] std::vector<HostTerm> saving_terms(const ModelSpec& model, const ParallelPlan& plan,
                                                 SavedFrom from);

/// The optimizer states of a checkpoint that a run resumes from (`resume`), as far as every rank
/// reads `bytes` of them for each trained parameter to the host.
///
/// Model:   they are there beside what training holds, until they are copied.
[[nodiscard]] std::vector<HostTerm> resuming_terms(const ModelSpec& model, const ParallelPlan& plan,
                                                   double bytes, std::string_view source);

}  // namespace headroom::ir::transformers
