#pragma once

#include <memory>

namespace headroom::plan {

class Evaluator;
struct SearchInputs;

/// The evaluator of Megatron-Core's plans. It uses closed forms for times (`step_time`) and peaks
/// (`PlanMemory`), which are computed from short programs.
[[nodiscard]] std::unique_ptr<Evaluator> megatron_evaluator(const SearchInputs& inputs);

}  // namespace headroom::plan
