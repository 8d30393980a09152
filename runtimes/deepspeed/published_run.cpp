// Reads runs of DeepSpeed with models of transformers, as tables and tutorials describe them.
#include <optional>

#include "runtimes/deepspeed/measured_runs.h"
#include "runtimes/deepspeed/plan.h"
#include "runtimes/interface/runs/published_keys.h"
#include "runtimes/transformers/published_run.h"

namespace headroom::ir::deepspeed {

void read_published_run(RunReader& row, const std::optional<DeviceTraits>& /*gpu*/,
                        PublishedRun& run) {
  run.plan.runtime = "deepspeed";
  transformers::read_published_training(row, run.plan);
  if (row.take("zero_stage") == nullptr) {
    row.fail("zero_stage", "not stated");
  }
  edit_zero(run.plan).stage = static_cast<int>(row.integer("zero_stage", 0, {0, 3}));
  if (begins_with(row.text("framework", ""), "DeepSpeed ZeRO-3")) {
    // Source: Narayanan et al. 2021, arXiv:2104.04473, section 5.1, whose table compares DeepSpeed.
    run.flops = FlopCount{.recomputed = true};
  }
  run.model = read_published_model(row);
}

}  // namespace headroom::ir::deepspeed
