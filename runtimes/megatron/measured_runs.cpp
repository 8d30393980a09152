#include "runtimes/megatron/measured_runs.h"

#include <array>

namespace headroom::ir::megatron {

const MeasuredRuns& measured_runs() {
  static constexpr std::array<RecordedFormat, 1> kRecorded = {
      {{"megatron", "megatron", recorded_parallel, read_recorded_run}}};
  static constexpr std::array<PublishedFormat, 4> kPublished = {
      {{"Megatron-LM", "megatron", read_megatron_lm_run},
       {"Megatron-Bridge", "megatron", read_published_run},
       {"NeMo", "megatron", read_published_run},
       {"megatron", "megatron", read_published_run}}};
  static constexpr MeasuredRuns kRuns{.recorded = kRecorded, .published = kPublished};
  return kRuns;
}

}  // namespace headroom::ir::megatron
