#include "runtimes/interface/refusals.h"

#include <string>
#include <vector>

#include "model_ir/plan/plan_words.h"
#include "model_ir/spec/task.h"

namespace headroom::ir {

std::string divisors_text(std::int64_t count) {
  constexpr std::size_t kMost = 12;
  std::vector<std::string> divisors;
  for (std::int64_t one = 1; one <= count && divisors.size() <= kMost; ++one) {
    if (count % one == 0) {
      divisors.push_back(std::to_string(one));
    }
  }
  const bool more = divisors.size() > kMost;
  if (more) {
    divisors.back() = "...";
  }
  std::string text;
  for (std::size_t at = 0; at < divisors.size(); ++at) {
    const bool last = at + 1 == divisors.size() && !more;
    text += (at == 0 ? "" : last ? " or " : ", ") + divisors[at];
  }
  return text;
}

Error no_divisor_of_gpus(std::string_view option, std::string_view got, std::int64_t gpus) {
  return Error::invalid_argument(option, got, "a divisor of --gpus " + std::to_string(gpus),
                                 "use " + divisors_text(gpus));
}

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
