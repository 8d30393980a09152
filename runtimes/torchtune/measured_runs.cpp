#include "runtimes/torchtune/measured_runs.h"

#include <array>

namespace headroom::ir::torchtune {

const MeasuredRuns& measured_runs() {
  static constexpr std::array<PublishedFormat, 1> kPublished = {
      {{"torchtune", "torchtune", read_published_run}}};
  static constexpr MeasuredRuns kRuns{.recorded = {}, .published = kPublished};
  return kRuns;
}

}  // namespace headroom::ir::torchtune
