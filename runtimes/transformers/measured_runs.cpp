#include "runtimes/transformers/measured_runs.h"

#include <array>

#include "runtimes/transformers/published_run.h"
#include "runtimes/transformers/recorded_keys.h"

namespace headroom::ir::transformers {

const MeasuredRuns& measured_runs() {
  static constexpr std::array<RecordedFormat, 3> kRecorded = {
      {{"transformers", "transformers", parallel_kind, read_recorded_run},
       {"transformers+ddp", "transformers", parallel_kind, read_recorded_run},
       {"transformers+bitsandbytes", "transformers", parallel_kind, read_quantised_run}}};
  static constexpr std::array<PublishedFormat, 5> kPublished = {
      {{"transformers", "transformers", read_published_run},
       {"transformers Trainer", "transformers", read_published_run},
       {"PEFT method comparison (transformers)", "transformers", read_published_run},
       {"TRL SFTTrainer + PEFT", "transformers", read_published_run},
       {"PEFT examples", "transformers", read_published_run}}};
  static constexpr MeasuredRuns kRuns{.recorded = kRecorded, .published = kPublished};
  return kRuns;
}

}  // namespace headroom::ir::transformers
