#include "gui/whatif/refusal.h"

#include "runtimes/plan_check.h"
#include "runtimes/registry.h"

namespace headroom::gui {

std::optional<Error> refusal_of(const Grounds& grounds, const ir::ParallelPlan& plan) {
  if (grounds.program != nullptr) {
    return std::nullopt;  // The program has been run; its plan does not count.
  }
  if (const Status status = ir::check_plan(grounds.model, plan); !status) {
    return status.error();
  }
  if (const Status status = ir::runtime_of(plan).check_device(plan, grounds.device.traits);
      !status) {
    return status.error();
  }
  return std::nullopt;
}

}  // namespace headroom::gui
