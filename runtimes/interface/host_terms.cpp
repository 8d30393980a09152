#include "runtimes/interface/host_terms.h"

#include "model_ir/spec/dtype.h"
#include "model_ir/spec/param_count.h"

namespace headroom::ir {

HostTerm data_loaders(std::int64_t workers, std::string_view source) {
  constexpr Bytes kWorker{434 * kMiB};
  const Bytes all = workers * kWorker;
  return {.use = HostUse::kDataLoaders, .requested = all, .bytes = all, .source = source};
}

HostTerm mapped_checkpoint(const ModelSpec& model, std::string_view source) {
  const Bytes file = bytes_of(count_parameters(model).total(), DType::kBf16);
  return {.use = HostUse::kPageCache,
          .span = HostSpan::kLoading,
          .once = true,
          .reclaimable = true,
          .requested = file,
          .bytes = file,
          .source = source};
}

std::int64_t state_count(const OptimizerPlan& optimizer) {
  switch (optimizer.kind) {
    case OptimizerKind::kAdamW:
      return 2;
    case OptimizerKind::kSgd:
      return optimizer.momentum != 0 ? 1 : 0;
    case OptimizerKind::kLion:
    case OptimizerKind::kMuon:
      return 1;
    case OptimizerKind::kNone:
    case OptimizerKind::kAdafactor:
    case OptimizerKind::kAdafactorTorch:
      return 0;
  }
  return 0;
}

}  // namespace headroom::ir
