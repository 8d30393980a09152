#pragma once

#include <cstdint>
#include <vector>

#include "model_ir/plan/host_term.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/spec/model_spec.h"

namespace headroom::ir::transformers {

/// Which ranks of a node `from_pretrained` loads the weights for.
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
/// _load_pretrained_model
///          (get_slice; merged_state_dict for ZeRO-3; is_local_dist_rank_0 for FSDP). Measured with
///          5.17, torch 2.11 and a model of 334 million parameters: in bf16 nothing but mapped
///          pages, in fp32 1,274 MiB, 4 bytes for each parameter.
[[nodiscard]] std::vector<HostTerm> loading_terms(const ModelSpec& model, const ParallelPlan& plan,
                                                  LoadedBy by);

}  // namespace headroom::ir::transformers
