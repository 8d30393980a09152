#pragma once

#include <string>

#include "cli/option_text.h"
#include "model_ir/plan/parallel_plan.h"
#include "runtimes/interface/common_options.h"

namespace headroom::cli {

/// The adapters of a plan as the value of their option: "r=16,targets=q_proj+v_proj". Adapters
/// share one list of keys with the quantisation of the frozen weights.
[[nodiscard]] inline std::string adapter_text(const ir::ParallelPlan& plan) {
  std::string text = spec_text(ir::lora_options(), &*plan.lora);
  if (plan.quant) {
    const std::string quant = spec_text(ir::quant_options(), &*plan.quant);
    text += (quant.empty() ? "" : ",") + quant;
  }
  return text;
}

}  // namespace headroom::cli
