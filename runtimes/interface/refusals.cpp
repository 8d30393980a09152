#include "runtimes/interface/refusals.h"

#include <string>

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
