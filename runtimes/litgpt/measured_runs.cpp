#include "runtimes/litgpt/measured_runs.h"

#include <array>

namespace headroom::ir::litgpt {

const MeasuredRuns& measured_runs() {
  static constexpr std::array<PublishedFormat, 1> kPublished = {
      {{"LitGPT", "litgpt", read_published_run}}};
  static constexpr MeasuredRuns kRuns{.recorded = {}, .published = kPublished};
  return kRuns;
}

}  // namespace headroom::ir::litgpt
