#pragma once

#include <string>
#include <string_view>

#include "model_ir/base/result.h"
#include "model_ir/plan/parallel_plan.h"

namespace headroom::cli {

// Values of plan options that are lists of keys: "r=16,targets=q_proj+v_proj". Each parser starts
// from what is given and changes what the text names; each text reads back as the same value.
// Errors: kInvalidArgument naming option, key and value.

/// Adapters, and what quantises the weights below them, share one list of keys.
struct Adapters {
  ir::LoraPlan lora;
  ir::QuantPlan quant;
};

[[nodiscard]] Result<Adapters> parse_adapters(std::string_view option, const std::string& text);
[[nodiscard]] std::string adapter_text(const ir::ParallelPlan& plan);

[[nodiscard]] Result<ir::ZeroPlan> parse_offload(const std::string& text, ir::ZeroPlan zero);
[[nodiscard]] std::string offload_text(const ir::ZeroPlan& zero);

/// ZeRO++ and leaf modules.
[[nodiscard]] Result<ir::ZeroPlan> parse_zero_plus(const std::string& text, ir::ZeroPlan zero);
[[nodiscard]] std::string zero_plus_text(const ir::ZeroPlan& zero);

[[nodiscard]] Result<ir::DdpPlan> parse_ddp(const std::string& text, ir::DdpPlan ddp);
[[nodiscard]] std::string ddp_text(const ir::DdpPlan& ddp);

[[nodiscard]] Result<ir::FsdpPlan> parse_fsdp(const std::string& text, ir::FsdpPlan fsdp);
[[nodiscard]] std::string fsdp_text(const ir::FsdpPlan& fsdp);

[[nodiscard]] Result<ir::MegatronPlan> parse_megatron(const std::string& text,
                                                      ir::MegatronPlan megatron);
[[nodiscard]] std::string megatron_text(const ir::MegatronPlan& megatron);

[[nodiscard]] Result<ir::TitanPlan> parse_titan(const std::string& text, ir::TitanPlan titan);
[[nodiscard]] std::string titan_text(const ir::TitanPlan& titan);
[[nodiscard]] Result<ir::TunePlan> parse_tune(const std::string& text, ir::TunePlan tune);
[[nodiscard]] std::string tune_text(const ir::TunePlan& tune);

}  // namespace headroom::cli
