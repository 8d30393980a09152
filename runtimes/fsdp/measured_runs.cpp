#include "runtimes/fsdp/measured_runs.h"

#include <array>

namespace headroom::ir::fsdp {

const MeasuredRuns& measured_runs() {
  static constexpr std::array<RecordedFormat, 2> kRecorded = {
      {{"transformers+fsdp1", "fsdp", recorded_parallel, read_recorded_run},
       {"transformers+fsdp2", "fsdp", recorded_parallel, read_recorded_run}}};
  static constexpr std::array<PublishedFormat, 1> kPublished = {
      {{"llm-foundry", "fsdp", read_foundry_run}}};
  static constexpr MeasuredRuns kRuns{.recorded = kRecorded, .published = kPublished};
  return kRuns;
}

}  // namespace headroom::ir::fsdp
