#include "runtimes/fsdp/host_memory.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "model_ir/spec/dtype.h"
#include "model_ir/spec/param_count.h"
#include "runtimes/fsdp/plan.h"
#include "runtimes/interface/host_terms.h"

namespace headroom::ir::fsdp {

std::vector<HostTerm> checkpoint_terms(const ModelSpec& model, const ParallelPlan& plan) {
  const bool whole = has_fsdp(plan) && fsdp_of(plan).version == 1;
  const bool on_host = has_fsdp(plan) && fsdp_of(plan).cpu_offload;
  if (plan.lora || !has_fsdp(plan) || (on_host && !whole)) {
    return {};
  }
  const std::int64_t ranks = std::max<std::int64_t>(plan.world / plan.mesh.replicas, 1);
  const std::int64_t elements = count_parameters(model).total() / (whole ? 1 : ranks);
  const std::int64_t tensors = std::max<std::int64_t>(state_count(plan.optimizer), 1);
  const Bytes copies = bytes_of(tensors * elements, param_dtype(plan.precision));
  std::vector<HostTerm> terms;
  if (plan.workload.checkpoint_save) {
    terms.push_back({.use = HostUse::kSaving,
                     .span = HostSpan::kSaving,
                     .once = whole,
                     .requested = copies,
                     .bytes = copies,
                     .source = "accelerate 1.15 fsdp_utils.py, save_fsdp_optimizer: state dicts "
                               "with offload_to_cpu"});
  }
  if (plan.workload.resume) {
    terms.push_back({.use = HostUse::kLoading,
                     .span = HostSpan::kResuming,
                     .once = whole,
                     .requested = copies,
                     .bytes = copies,
                     .source = "accelerate 1.15 fsdp_utils.py, load_fsdp_optimizer: state dicts "
                               "with offload_to_cpu"});
  }
  return terms;
}

std::vector<HostTerm> quantised_terms(const ModelSpec& model, const ParallelPlan& plan) {
  if (!plan.quant || !has_fsdp(plan) || !fsdp_of(plan).quantised_on_host) {
    return {};
  }
  // Two codes a byte; embeddings, output layer and norms have 16 bits and few elements.
  const Bytes codes{count_parameters(model).total() / 2};
  return {{.use = HostUse::kLoading,
           .span = HostSpan::kLoading,
           .once = true,
           .requested = codes,
           .bytes = codes,
           .source = "transformers 4.57.1 modeling_utils.py, _load_state_dict_into_meta_model: "
                     "the first rank of a node keeps quantised weights, the others none"}};
}

}  // namespace headroom::ir::fsdp
