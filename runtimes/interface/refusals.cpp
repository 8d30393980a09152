#include "runtimes/interface/refusals.h"

#include <string>

#include "model_ir/plan/plan_words.h"
#include "model_ir/spec/task.h"

namespace headroom::ir {

Status refuse_version(const ParallelPlan& plan) {
  if (plan.runtime_version.empty()) {
    return ok();
  }
  return Error::invalid_argument("runtime-version", plan.runtime_version,
                                 "no --runtime-version: only one version of " + plan.runtime +
                                     " is modelled, and docs/model-assumptions.md names it",
                                 "leave out --runtime-version");
}

Status refuse_first_layers(const ParallelPlan& plan) {
  if (plan.recompute == Recompute::kNone || plan.recompute_first == 0) {
    return ok();
  }
  return Error::invalid_argument("checkpointing", checkpointing_text(checkpointing_of(plan)),
                                 "none, full or every-K: only the layers of transformers are "
                                 "told one by one",
                                 "use --checkpointing every-2");
}

Status refuse_other_tasks(const ModelSpec& model, std::string_view runtime) {
  if (model.task == Task::kLanguage) {
    return ok();
  }
  return Error::invalid_argument(
      "task", std::string(name_of(model.task)),
      "language: " + std::string(runtime) + "'s model code has no classification head",
      "leave out --task, or use --runtime transformers");
}

}  // namespace headroom::ir
