#include "runtimes/torchtune/host_memory.h"

#include <cstdint>
#include <string_view>

#include "model_ir/spec/dtype.h"
#include "model_ir/spec/param_count.h"
#include "runtimes/fsdp/plan.h"
#include "runtimes/interface/host_terms.h"
#include "runtimes/transformers/host_memory.h"

namespace headroom::ir::torchtune {
namespace {

HostTerm loaded_copies(const ModelSpec& model, const ParallelPlan& plan) {
  const std::int64_t reordered = static_cast<std::int64_t>(model.layers.size()) * model.hidden *
                                 (model.heads + model.kv_heads) * model.head_dim;
  const DType dtype = param_dtype(plan.precision);
  const Bytes copies = bits_of(dtype) == bits_of(DType::kBf16)
                           ? bytes_of(reordered, dtype)
                           : bytes_of(count_parameters(model).total(), dtype);
  return {.use = HostUse::kLoading,
          .span = HostSpan::kLoading,
          .requested = copies,
          .bytes = copies,
          .source =
              "torchtune 0.6.1 models/convert_weights.py, hf_to_tune, and "
              "load_from_full_model_state_dict: copies on every rank"};
}

HostTerm gathered_copies(const ModelSpec& model, const ParallelPlan& plan) {
  const std::int64_t tensors = 1 + state_count(plan.optimizer);
  const Bytes copies =
      bytes_of(tensors * count_parameters(model).total(), param_dtype(plan.precision));
  return {.use = HostUse::kSaving,
          .span = HostSpan::kSaving,
          .once = true,
          .requested = copies,
          .bytes = copies,
          .source =
              "torchtune 0.6.1 training/_distributed.py, gather_cpu_state_dict and "
              "get_full_optimizer_state_dict: whole on rank 0"};
}

}  // namespace

std::vector<HostTerm> host_terms(const ModelSpec& model, const ParallelPlan& plan) {
  std::vector<HostTerm> terms = {
      mapped_checkpoint(model, "torchtune 0.6.1 checkpointing/_utils.py, safe_torch_load"),
      loaded_copies(model, plan)};
  if (plan.workload.checkpoint_save && !plan.lora && has_fsdp(plan)) {
    terms.push_back(gathered_copies(model, plan));
  }
  const double states =
      static_cast<double>(state_count(plan.optimizer) * bits_of(param_dtype(plan.precision))) / 8;
  return transformers::joined(
      terms, transformers::resuming_terms(model, plan, states,
                                          "torchtune 0.6.1 _checkpointer.py, load_checkpoint: "
                                          "recipe_state.pt whole on every rank, mmap=False"));
}

}  // namespace headroom::ir::torchtune
