#include "runtimes/transformers/host_memory.h"

#include <algorithm>

#include "model_ir/spec/dtype.h"
#include "model_ir/spec/param_count.h"

namespace headroom::ir::transformers {

std::vector<HostTerm> loading_terms(const ModelSpec& model, const ParallelPlan& plan, LoadedBy by) {
  constexpr std::string_view kSource =
      "transformers 5.17 modeling_utils.py: weights are views of the mapped file, copies in "
      "another type";
  const std::int64_t parameters = count_parameters(model).total();
  const Bytes file = bytes_of(parameters, DType::kBf16);
  std::vector<HostTerm> terms = {{.use = HostUse::kPageCache,
                                  .span = HostSpan::kLoading,
                                  .once = true,
                                  .reclaimable = true,
                                  .requested = file,
                                  .bytes = file,
                                  .source = kSource}};
  const DType dtype = param_dtype(plan.precision);
  if (bits_of(dtype) != bits_of(DType::kBf16) && !plan.quant && by != LoadedBy::kParts) {
    const Bytes copies = bytes_of(parameters, dtype);
    terms.push_back({.use = HostUse::kLoading,
                     .span = HostSpan::kLoading,
                     .once = by == LoadedBy::kFirstOfNode,
                     .requested = copies,
                     .bytes = copies,
                     .source = kSource});
  }
  return terms;
}

std::vector<HostTerm> joined(std::vector<HostTerm> terms, const std::vector<HostTerm>& more) {
  terms.insert(terms.end(), more.begin(), more.end());
  return terms;
}

std::vector<HostTerm> saving_terms(const ModelSpec& model, const ParallelPlan& plan,
                                   SavedFrom from) {
  constexpr Bytes kFile{50'000'000'000};
  if (!plan.workload.checkpoint_save || plan.lora) {
    return {};
  }
  const std::int64_t parameters = count_parameters(model).total();
  const bool gathered = from == SavedFrom::kGathered;
  const Bytes copies = gathered
                           ? bytes_of(parameters, DType::kBf16)
                           : std::min(kFile, bytes_of(parameters, param_dtype(plan.precision)));
  return {{.use = HostUse::kSaving,
           .span = HostSpan::kSaving,
           .once = true,
           .requested = copies,
           .bytes = copies,
           .source = gathered
                         ? "DeepSpeed 0.19.8 engine.py, _zero3_consolidated_16bit_state_dict"
                         : "transformers 5.17 save_pretrained: files of 50 GB; safetensors 0.8 "
                           "torch.py, _flatten_as_ptr"}};
}

std::vector<HostTerm> resuming_terms(const ModelSpec& model, const ParallelPlan& plan, double bytes,
                                     std::string_view source) {
  if (!plan.workload.resume || plan.lora || plan.optimizer.kind == OptimizerKind::kNone ||
      bytes == 0) {
    return {};  // Adapters have states of few bytes.
  }
  const auto parameters = static_cast<double>(count_parameters(model).total());
  const Bytes states{static_cast<std::int64_t>(bytes * parameters)};
  return {{.use = HostUse::kLoading,
           .span = HostSpan::kResuming,
           .requested = states,
           .bytes = states,
           .source = source}};
}

}  // namespace headroom::ir::transformers
