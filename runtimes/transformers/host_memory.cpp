#include "runtimes/transformers/host_memory.h"

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

}  // namespace headroom::ir::transformers
