#include "runtimes/torchtitan/measured_runs.h"

#include <array>

namespace headroom::ir::torchtitan {

const MeasuredRuns& measured_runs() {
  static constexpr std::array<RecordedFormat, 1> kRecorded = {
      {{"torchtitan", "fsdp", recorded_parallel, read_recorded_run}}};
  static constexpr std::array<PublishedFormat, 1> kPublished = {
      {{"torchtitan", "fsdp", read_published_run}}};
  static constexpr MeasuredRuns kRuns{.recorded = kRecorded, .published = kPublished};
  return kRuns;
}

}  // namespace headroom::ir::torchtitan
