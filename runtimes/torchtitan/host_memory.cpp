#include "runtimes/torchtitan/host_memory.h"

#include <algorithm>
#include <cstdint>

#include "model_ir/spec/dtype.h"

namespace headroom::ir::torchtitan {

std::vector<HostTerm> host_terms(const ModelSpec& model, const ParallelPlan& plan) {
  constexpr std::int64_t kCopyAhead = 10'000'000;
  if (!plan.workload.checkpoint_save) {
    return {};
  }
  const std::int64_t ranks = std::max<std::int64_t>(plan.world / plan.mesh.replicas, 1);
  const DType stored = plan.precision == Precision::kBf16 ? DType::kBf16 : DType::kFp32;
  const Bytes copies =
      Bytes{kCopyAhead} + bytes_of(model.vocabulary * model.hidden / ranks, stored);
  return {{.use = HostUse::kSaving,
           .span = HostSpan::kSaving,
           .requested = copies,
           .bytes = copies,
           .source = "torch 2.11 distributed/checkpoint/filesystem.py, FileSystemWriter: "
                     "per_thread_copy_ahead"}};
}

}  // namespace headroom::ir::torchtitan
