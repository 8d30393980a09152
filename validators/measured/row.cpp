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

bool is_time(Metric metric) {
  return metric == Metric::kStepTime || metric == Metric::kTokensPerSecond ||
         metric == Metric::kTflops;
}

double last_step_seconds(const MeasuredRow& row) {
  if (row.step_seconds > 0) {
    return row.step_seconds;
  }
  int step = 0;
  double seconds = 0;
  for (const MeasuredPhase& phase : row.phases) {
    if (phase.name.at.step == 0) {
      continue;
    }
    if (phase.name.at.step != step) {
      step = phase.name.at.step;
      seconds = 0;
    }
    if (phase.seconds <= 0) {
      return 0;
    }
    seconds += phase.seconds;
  }
  return seconds;
}

std::string subject_of(const MeasuredRow& row) {
  const ir::JsonValue* model = row.setting.find("model");
  const ir::JsonValue* name = model != nullptr ? model->find("name") : nullptr;
  const ir::JsonValue* gpu = row.setting.find("gpu");
  const ir::JsonValue* count = row.setting.find("num_gpus");
  if (row.form != RowForm::kPublished || name == nullptr || gpu == nullptr ||
      name->as_string() == nullptr || gpu->as_string() == nullptr) {
    return {};
  }
  const std::int64_t gpus = count != nullptr ? count->as_integer().value_or(1) : 1;
  return *name->as_string() + " on " + std::to_string(gpus) + " x " + *gpu->as_string();
}

}  // namespace headroom::check
