#include "runtimes/megatron/search/axes.h"

#include <array>

#include "model_ir/plan/plan_words.h"
#include "runtimes/megatron/options.h"
#include "runtimes/megatron/plan.h"

namespace headroom::plan {
namespace {

constexpr std::array<std::string_view, 2> kExchanges = {"p2p", "a2a"};
constexpr std::array<std::string_view, 2> kDispatchers = {"alltoall", "hybridep"};
constexpr std::array<std::string_view, 2> kGradientTypes = {"fp32", "bf16"};
constexpr std::array<std::string_view, 2> kMeshOrders = {"tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp"};

/// Sets of modules that are worth searching: each module that saves much, those of attention
/// together, those of experts together, and all.
constexpr std::array<std::string_view, 12> kAnyModules = {
    "none",
    "qkv_linear",
    "core_attn",
    "core_attn+attn_proj",
    "qkv_linear+core_attn",
    "qkv_linear+core_attn+attn_proj",
    "moe_act",
    "expert_fc1",
    "expert_fc1+moe_act",
    "core_attn+moe_act",
    "qkv_linear+core_attn+attn_proj+expert_fc1+moe_act",
    "attn_norm+qkv_linear+core_attn+attn_proj+mlp_norm+expert_fc1+moe_act"};

/// Every set of modules, in the order of `offload_modules_of`.
std::vector<std::string> module_set_names() {
  std::vector<std::string> names;
  const auto sets = std::int64_t{1} << ir::megatron_offload_modules().size();
  for (std::int64_t bits = 0; bits < sets; ++bits) {
    std::string text;
    for (const std::string& name : ir::names_of(offload_modules_of(bits))) {
      text += (text.empty() ? "" : "+") + name;
    }
    names.push_back(text.empty() ? "none" : text);
  }
  return names;
}

}  // namespace

ir::MegatronOffload offload_modules_of(std::int64_t modules) {
  ir::MegatronOffload offload;
  std::int64_t bit = 1;
  for (const ir::MegatronOffloadModule& module : ir::megatron_offload_modules()) {
    offload.*module.value = (modules & bit) != 0;
    bit *= 2;
  }
  return offload;
}

std::int64_t value_with(const ir::MegatronOffload& modules) {
  std::int64_t bits = 0;
  std::int64_t bit = 1;
  for (const ir::MegatronOffloadModule& module : ir::megatron_offload_modules()) {
    bits += modules.*module.value ? bit : 0;
    bit *= 2;
  }
  return bits;
}

namespace megatron_axes {

AxisWords exchanges() {
  return kExchanges;
}
AxisWords dispatchers() {
  return kDispatchers;
}
AxisWords gradient_types() {
  return kGradientTypes;
}
AxisWords mesh_orders() {
  return kMeshOrders;
}
AxisWords module_sets() {
  static const std::vector<std::string> names = module_set_names();
  static const std::vector<std::string_view> words(names.begin(), names.end());
  return words;
}
AxisWords any_module_sets() {
  return kAnyModules;
}

/// Parses "core_attn+attn_proj", in any order.
std::optional<AxisValues> parse_modules(std::string_view text) {
  if (text == "none") {
    return AxisValues{0};
  }
  std::int64_t bits = 0;
  for (bool more = true; more;) {
    const std::size_t plus = text.find('+');
    const auto modules = ir::parse_offload_modules("", {std::string(text.substr(0, plus))});
    if (!modules) {
      return std::nullopt;
    }
    bits |= value_with(*modules);
    more = plus != std::string_view::npos;
    text.remove_prefix(more ? plus + 1 : text.size());
  }
  return AxisValues{bits};
}

std::string expected_modules() {
  std::string text = "any, or sets (comma-separated) of none or modules joined by + out of ";
  for (const ir::MegatronOffloadModule& module : ir::megatron_offload_modules()) {
    text += (text.back() == ' ' ? "" : ", ") + std::string(module.name);
  }
  return text;
}

}  // namespace megatron_axes
}  // namespace headroom::plan
