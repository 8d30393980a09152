#pragma once

#include <string>

#include "cli/option_text.h"
#include "model_ir/plan/parallel_plan.h"
#include "runtimes/deepspeed/options.h"
#include "runtimes/fsdp/options.h"
#include "runtimes/interface/common_options.h"
#include "runtimes/megatron/options.h"
#include "runtimes/torchtitan/options.h"
#include "runtimes/torchtune/options.h"
#include "runtimes/transformers/options.h"

/// Values of plan options that are lists of keys, "r=16,targets=q_proj+v_proj", from the tables.
namespace headroom::cli {

/// Adapters, and what quantises the weights below them, share one list of keys.
[[nodiscard]] inline std::string adapter_text(const ir::ParallelPlan& plan) {
  std::string text = spec_text(ir::lora_options(), &*plan.lora);
  if (plan.quant) {
    const std::string quant = spec_text(ir::quant_options(), &*plan.quant);
    text += (quant.empty() ? "" : ",") + quant;
  }
  return text;
}

[[nodiscard]] inline std::string offload_text(const ir::ZeroPlan& zero) {
  const ir::PlanPart& part = ir::deepspeed::options();
  return spec_text(part.fields, "offload", &zero, part.usual());
}
/// ZeRO++ and leaf modules.
[[nodiscard]] inline std::string zero_plus_text(const ir::ZeroPlan& zero) {
  const ir::PlanPart& part = ir::deepspeed::options();
  return spec_text(part.fields, "zeropp", &zero, part.usual());
}
[[nodiscard]] inline std::string ddp_text(const ir::DdpPlan& ddp) {
  return spec_text(ir::transformers::options(), &ddp);
}
[[nodiscard]] inline std::string fsdp_text(const ir::FsdpPlan& fsdp) {
  return spec_text(ir::fsdp::options(), &fsdp);
}
[[nodiscard]] inline std::string megatron_text(const ir::MegatronPlan& megatron) {
  return spec_text(ir::megatron::options(), &megatron);
}
[[nodiscard]] inline std::string titan_text(const ir::TitanPlan& titan) {
  return spec_text(ir::torchtitan::options(), &titan);
}
[[nodiscard]] inline std::string tune_text(const ir::TunePlan& tune) {
  return spec_text(ir::torchtune::options(), &tune);
}

}  // namespace headroom::cli
