#include "runtimes/deepspeed/measured_runs.h"

#include <array>

namespace headroom::ir::deepspeed {

const MeasuredRuns& measured_runs() {
  static constexpr std::array<RecordedFormat, 1> kRecorded = {
      {{"deepspeed", "deepspeed", recorded_parallel, read_recorded_run}}};
  static constexpr std::array<PublishedFormat, 3> kPublished = {
      {{"DeepSpeed", "deepspeed", read_published_run},
       {"deepspeed", "deepspeed", read_published_run},
       {"Qwen finetune.py", "transformers", read_qwen_run}}};
  static constexpr MeasuredRuns kRuns{.recorded = kRecorded, .published = kPublished};
  return kRuns;
}

}  // namespace headroom::ir::deepspeed
