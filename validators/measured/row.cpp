#include "validators/measured/row.h"

namespace headroom::check {

std::string_view name_of(Metric metric) {
  switch (metric) {
    case Metric::kAllocatedAfter:
      return "allocated_after";
    case Metric::kPeakAllocated:
      return "peak_allocated";
    case Metric::kPeakReserved:
      return "peak_reserved";
    case Metric::kReservedAfter:
      return "reserved_after";
    case Metric::kPeakActive:
      return "peak_active";
    case Metric::kPeakDriver:
      return "peak_driver";
    case Metric::kRetries:
      return "retries";
    case Metric::kFits:
      return "fits";
    case Metric::kGemmFlops:
      return "gemm_flops";
    case Metric::kKernels:
      return "kernels";
    case Metric::kCollectiveBytes:
      return "collective_bytes";
    case Metric::kCollectiveCalls:
      return "collective_calls";
    case Metric::kStepTime:
      return "step_time_ms";
    case Metric::kTokensPerSecond:
      return "tokens_per_s_per_gpu";
    case Metric::kTflops:
      return "tflops_per_gpu";
  }
  return "?";
}

}  // namespace headroom::check
