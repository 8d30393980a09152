#include "cli/plan_values.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "cli/key_values.h"
#include "cli/scalars.h"
#include "model_ir/plan/plan_limits.h"
#include "model_ir/plan/plan_words.h"
#include "runtimes/megatron/fields.h"

namespace headroom::cli {
namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size() && !text.empty();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// Options have dashes where keys of files have underscores.
std::string dashed(std::string_view name) {
  std::string text(name);
  std::ranges::replace(text, '_', '-');
  return text;
}

/// Takes the values of one option one by one; the first fault stays.
class ValueTaker {
 public:
  ValueTaker(std::string_view option, KeyValues& values) : option_(option), values_(values) {}

  template <typename Value, typename Parse>
  void take(const std::string& key, Value& value, Parse parse) {
    const std::optional<std::string> text = values_.take(key);
    if (!text) {
      return;
    }
    const auto result = parse(*text);
    if (result) {
      value = *result;
    } else if (!fault_) {
      fault_ = result.error();
      fault_->got = key + "=" + *text;
    }
  }
  void whole(const std::string& key, std::int64_t least, std::int64_t greatest,
             std::int64_t& value) {
    take(key, value,
         [&](const std::string& text) { return parse_whole(option_, text, least, greatest); });
  }
  void flag(const std::string& key, bool& value) {
    take(key, value, [&](const std::string& text) { return parse_switch(option_, key, text); });
  }
  template <typename Value>
  void word(const std::string& key, std::span<const ir::Word<Value>> words, Value& value) {
    take(key, value, [&](const std::string& text) { return ir::parse_word(words, option_, text); });
  }
  [[nodiscard]] const std::optional<Error>& fault() const { return fault_; }

 private:
  std::string_view option_;
  KeyValues& values_;
  std::optional<Error> fault_;
};

std::string switch_text(const char* key, bool value) {
  return std::string(",") + key + "=" + (value ? "yes" : "no");
}

}  // namespace

Result<Adapters> parse_adapters(std::string_view option, const std::string& text) {
  Result<KeyValues> parsed = KeyValues::parse(option, text, '=');
  if (!parsed) {
    return std::move(parsed).error();
  }
  KeyValues values = std::move(parsed).value();
  Adapters adapters;
  ValueTaker taker(option, values);
  const auto list = [](const std::string& names) {
    return Result<std::vector<std::string>>(split(names, '+'));
  };
  taker.whole("r", 1, ir::kMostLoraRank, adapters.lora.rank);
  taker.take("targets", adapters.lora.targets, list);
  taker.take("save", adapters.lora.modules_to_save, list);
  taker.take("dropout", adapters.lora.dropout,
             [&](const std::string& share) { return parse_real(option, share, 0, 1); });
  taker.flag("dora", adapters.lora.dora);
  taker.flag("rslora", adapters.lora.rank_stabilised);
  if (option == "qlora") {
    taker.take("bits", adapters.quant.bits, [&](const std::string& bits) -> Result<int> {
      return bits == "4" || bits == "8" ? Result<int>(bits == "8" ? 8 : 4)
                                        : Error::invalid_argument(option, bits, "bits=4 or bits=8");
    });
    taker.flag("double-quant", adapters.quant.double_quant);
    taker.flag("prepare", adapters.quant.prepare_kbit);
  }
  const Status known = values.finish();
  if (!known) {
    return known.error();
  }
  return taker.fault() ? Result<Adapters>(*taker.fault()) : Result<Adapters>(adapters);
}

Result<ir::ZeroPlan> parse_offload(const std::string& text, ir::ZeroPlan zero) {
  Result<KeyValues> values = KeyValues::parse("offload", text, '=');
  if (!values) {
    return std::move(values).error();
  }
  const auto place = [&](const char* key, ir::OffloadDevice& device) -> Status {
    const std::optional<std::string> word = values->take(key);
    if (!word) {
      return ok();
    }
    const auto found = ir::parse_word(ir::offload_words(), "offload", *word);
    if (!found) {
      return found.error();
    }
    device = *found;
    return ok();
  };
  for (const Status& status :
       {place("optimizer", zero.offload_optimizer), place("param", zero.offload_param)}) {
    if (!status) {
      return status.error();
    }
  }
  if (const std::optional<std::string> share = values->take("optimizer-ratio")) {
    const Result<double> ratio = parse_real("offload", *share, 0, 1);
    if (!ratio) {
      return Error::invalid_argument("offload", "optimizer-ratio=" + *share,
                                     "optimizer-ratio=0 to 1, the share on the host");
    }
    zero.offload_ratio = *ratio;
  }
  zero.nvme_path = values->take("path").value_or(zero.nvme_path);
  const Status known = values->finish();
  return known ? Result<ir::ZeroPlan>(zero) : Result<ir::ZeroPlan>(known.error());
}

Result<ir::DdpPlan> parse_ddp(const std::string& text, ir::DdpPlan ddp) {
  Result<KeyValues> values = KeyValues::parse("ddp", text, '=');
  if (!values) {
    return std::move(values).error();
  }
  if (const auto size = values->take("bucket")) {
    const std::optional<Bytes> bytes = parse_bytes(*size);
    if (!bytes || *bytes < Bytes{1}) {
      return Error::invalid_argument("ddp", "bucket=" + *size, "a size as bucket=25MiB");
    }
    ddp.bucket_cap_bytes = bytes->value();
  }
  if (const auto view = values->take("bucket-view")) {
    const Result<bool> on = parse_switch("ddp", "bucket-view", *view);
    if (!on) {
      return on.error();
    }
    ddp.gradient_as_bucket_view = *on;
  }
  const Status known = values->finish();
  return known ? Result<ir::DdpPlan>(ddp) : Result<ir::DdpPlan>(known.error());
}

Result<ir::FsdpPlan> parse_fsdp(const std::string& text, ir::FsdpPlan fsdp) {
  static constexpr std::string_view kOption = "fsdp";
  Result<KeyValues> parsed = KeyValues::parse(kOption, text, '=');
  if (!parsed) {
    return std::move(parsed).error();
  }
  KeyValues values = std::move(parsed).value();
  ValueTaker taker(kOption, values);
  // yes, no, or to how many ranks.
  taker.take("reshard", fsdp, [&](const std::string& word) -> Result<ir::FsdpPlan> {
    ir::FsdpPlan with = fsdp;
    if (!word.empty() && word.find_first_not_of("0123456789") == std::string::npos) {
      const Result<std::int64_t> ranks = parse_whole(kOption, word, 1, ir::kMostRanks);
      with.reshard_ranks = ranks ? *ranks : 0;
      return ranks ? Result<ir::FsdpPlan>(with) : ranks.error();
    }
    const Result<bool> on = parse_switch(kOption, "reshard", word);
    with.reshard_after_forward = on ? *on : with.reshard_after_forward;
    return on ? Result<ir::FsdpPlan>(with) : on.error();
  });
  taker.flag("offload", fsdp.cpu_offload);
  taker.flag("decoder", fsdp.shard_decoder);
  std::int64_t version = fsdp.version;
  taker.whole("version", 1, 2, version);
  fsdp.version = static_cast<int>(version);
  taker.flag("embeddings", fsdp.shard_embeddings);
  taker.word("param", ir::policy_dtype_words(), fsdp.param_dtype);
  taker.word("reduce", ir::policy_dtype_words(), fsdp.reduce_dtype);
  taker.whole("replicas", 1, ir::kMostRanks, fsdp.replicas);
  taker.word("prefetch", ir::fsdp_prefetch_words(), fsdp.backward_prefetch);
  taker.flag("forward-prefetch", fsdp.forward_prefetch);
  taker.flag("orig-params", fsdp.use_orig_params);
  const Status known = values.finish();
  if (!known) {
    return known.error();
  }
  return taker.fault() ? Result<ir::FsdpPlan>(*taker.fault()) : Result<ir::FsdpPlan>(fsdp);
}

std::string adapter_text(const ir::ParallelPlan& plan) {
  const ir::LoraPlan& lora = *plan.lora;
  std::string text = "r=" + std::to_string(lora.rank);
  for (std::size_t index = 0; index < lora.targets.size(); ++index) {
    text += (index == 0 ? ",targets=" : "+") + lora.targets[index];
  }
  for (std::size_t index = 0; index < lora.modules_to_save.size(); ++index) {
    text += (index == 0 ? ",save=" : "+") + lora.modules_to_save[index];
  }
  text += lora.dropout > 0 ? ",dropout=" + real_text(lora.dropout) : "";
  text += lora.dora ? ",dora" : "";
  text += lora.rank_stabilised ? ",rslora" : "";
  if (plan.quant) {
    text += plan.quant->bits == 8 ? ",bits=8" : "";
    text += plan.quant->double_quant ? "" : switch_text("double-quant", false);
    text += plan.quant->prepare_kbit ? "" : switch_text("prepare", false);
  }
  return text;
}

std::string offload_text(const ir::ZeroPlan& zero) {
  std::string text;
  const auto add = [&](const char* key, std::string_view value) {
    text += (text.empty() ? "" : ",") + std::string(key) + "=" + std::string(value);
  };
  if (zero.offload_optimizer != ir::OffloadDevice::kNone) {
    add("optimizer", ir::word_of(ir::offload_words(), zero.offload_optimizer));
  }
  if (zero.offload_ratio != 1) {
    add("optimizer-ratio", real_text(zero.offload_ratio));
  }
  if (zero.offload_param != ir::OffloadDevice::kNone) {
    add("param", ir::word_of(ir::offload_words(), zero.offload_param));
  }
  if (!text.empty() && !zero.nvme_path.empty()) {
    add("path", zero.nvme_path);
  }
  return text;
}

Result<ir::ZeroPlan> parse_zero_plus(const std::string& text, ir::ZeroPlan zero) {
  static constexpr std::string_view kOption = "zeropp";
  Result<KeyValues> parsed = KeyValues::parse(kOption, text, '=');
  if (!parsed) {
    return std::move(parsed).error();
  }
  KeyValues values = std::move(parsed).value();
  ValueTaker taker(kOption, values);
  taker.whole("hpz", 1, ir::kMostRanks, zero.hpz_partition_size);
  taker.whole("node", 1, ir::kMostRanks, zero.node_devices);
  taker.flag("qwz", zero.quantized_weights);
  taker.flag("qgz", zero.quantized_gradients);
  taker.word("leaf", ir::zero_leaf_words(), zero.leaf);
  if (const Status known = values.finish(); !known) {
    return known.error();
  }
  return taker.fault() ? Result<ir::ZeroPlan>(*taker.fault()) : Result<ir::ZeroPlan>(zero);
}

std::string zero_plus_text(const ir::ZeroPlan& zero) {
  const ir::ZeroPlan usual;
  std::string text;
  const auto add = [&](bool differs, const std::string& part) {
    if (differs) {
      text += (text.empty() ? "" : ",") + part;
    }
  };
  add(zero.hpz_partition_size != usual.hpz_partition_size,
      "hpz=" + std::to_string(zero.hpz_partition_size));
  add(zero.quantized_weights, "qwz");
  add(zero.quantized_gradients, "qgz");
  add(zero.node_devices != usual.node_devices, "node=" + std::to_string(zero.node_devices));
  add(zero.leaf != usual.leaf,
      "leaf=" + std::string(ir::word_of(ir::zero_leaf_words(), zero.leaf)));
  return text;
}

Result<ir::MegatronPlan> parse_megatron(const std::string& text, ir::MegatronPlan megatron) {
  static constexpr std::string_view kOption = "megatron";
  Result<KeyValues> parsed = KeyValues::parse(kOption, text, '=');
  if (!parsed) {
    return std::move(parsed).error();
  }
  KeyValues values = std::move(parsed).value();
  ValueTaker taker(kOption, values);
  for (const ir::MegatronWhole& whole : ir::megatron_wholes()) {
    taker.whole(dashed(whole.name), whole.least, ir::kMostRanks, megatron.*whole.value);
  }
  for (const ir::MegatronSwitch& each : ir::megatron_switches()) {
    taker.flag(dashed(each.name), megatron.*each.value);
  }
  taker.take("pipeline-layout", megatron.pipeline_layout,
             [](const std::string& layout) { return Result<std::string>(layout); });
  taker.word("attention", ir::megatron_attention_words(), megatron.attention);
  taker.word("cp-comm-type", ir::megatron_context_words(), megatron.context_exchange);
  taker.word("dispatcher", ir::megatron_dispatcher_words(), megatron.dispatcher);
  taker.word("fp8-recipe", ir::megatron_fp8_words(), megatron.fp8);
  taker.word("cross-entropy-fusion", ir::megatron_cross_entropy_words(), megatron.cross_entropy);
  taker.word("recompute", ir::megatron_recompute_words(), megatron.recompute);
  taker.take("recompute-modules", megatron.recompute_modules, [](const std::string& names) {
    return ir::parse_modules(kOption, split(names, '+'));
  });
  taker.take("offload-modules", megatron.offload_modules, [](const std::string& names) {
    return ir::parse_offload_modules(kOption, split(names, '+'));
  });
  taker.whole("min-offloaded-tensor-size", 1, ir::kMostElements, megatron.least_offloaded);
  taker.take("capacity-factor", megatron.capacity_factor,
             [](const std::string& factor) { return parse_real(kOption, factor, 1e-3, 1e6); });
  taker.take("expert-load", megatron.expert_load,
             [](const std::string& load) { return parse_real(kOption, load, 1e-3, 1e4); });
  taker.take("optimizer-offload", megatron.optimizer_offload,
             [](const std::string& share) { return parse_real(kOption, share, 0, 1); });
  if (const Status known = values.finish(); !known) {
    return known.error();
  }
  return taker.fault() ? Result<ir::MegatronPlan>(*taker.fault())
                       : Result<ir::MegatronPlan>(megatron);
}

std::string megatron_text(const ir::MegatronPlan& megatron) {
  const ir::MegatronPlan usual;
  std::string text = "tp=" + std::to_string(megatron.tensor);
  for (const ir::MegatronWhole& whole : ir::megatron_wholes()) {
    if (whole.name != "tp" && megatron.*whole.value != usual.*whole.value) {
      text += "," + dashed(whole.name) + "=" + std::to_string(megatron.*whole.value);
    }
  }
  for (const ir::MegatronSwitch& each : ir::megatron_switches()) {
    if (megatron.*each.value != usual.*each.value) {
      text += "," + dashed(each.name) + (megatron.*each.value ? "" : "=no");
    }
  }
  if (!megatron.pipeline_layout.empty()) {
    std::string layout = megatron.pipeline_layout;
    std::erase(layout, ',');  // Which mean nothing there, and the next key here.
    text += ",pipeline-layout=" + layout;
  }
  if (megatron.attention != usual.attention) {
    text += ",attention=" +
            std::string(ir::word_of(ir::megatron_attention_words(), megatron.attention));
  }
  if (megatron.context_exchange != usual.context_exchange) {
    text += ",cp-comm-type=" +
            std::string(ir::word_of(ir::megatron_context_words(), megatron.context_exchange));
  }
  if (megatron.dispatcher != usual.dispatcher) {
    text += ",dispatcher=" +
            std::string(ir::word_of(ir::megatron_dispatcher_words(), megatron.dispatcher));
  }
  if (megatron.fp8 != usual.fp8) {
    text += ",fp8-recipe=" + std::string(ir::word_of(ir::megatron_fp8_words(), megatron.fp8));
  }
  if (megatron.cross_entropy != usual.cross_entropy) {
    text += ",cross-entropy-fusion=" +
            std::string(ir::word_of(ir::megatron_cross_entropy_words(), megatron.cross_entropy));
  }
  if (megatron.recompute != usual.recompute) {
    text += ",recompute=" +
            std::string(ir::word_of(ir::megatron_recompute_words(), megatron.recompute));
  }
  const auto add_names = [&text](const char* key, const std::vector<std::string>& names) {
    std::string joined;
    for (const std::string& name : names) {
      joined += (joined.empty() ? "" : "+") + name;
    }
    text += joined.empty() ? "" : key + joined;
  };
  add_names(",recompute-modules=", ir::names_of(megatron.recompute_modules));
  add_names(",offload-modules=", ir::names_of(megatron.offload_modules));
  if (megatron.least_offloaded != usual.least_offloaded) {
    text += ",min-offloaded-tensor-size=" + std::to_string(megatron.least_offloaded);
  }
  if (megatron.capacity_factor) {
    text += ",capacity-factor=" + real_text(*megatron.capacity_factor);
  }
  if (megatron.expert_load != usual.expert_load) {
    text += ",expert-load=" + real_text(megatron.expert_load);
  }
  if (megatron.optimizer_offload != usual.optimizer_offload) {
    text += ",optimizer-offload=" + real_text(megatron.optimizer_offload);
  }
  return text;
}

std::string ddp_text(const ir::DdpPlan& ddp) {
  return "bucket=" + std::to_string(ddp.bucket_cap_bytes) +
         (ddp.gradient_as_bucket_view ? ",bucket-view" : "");
}

std::string fsdp_text(const ir::FsdpPlan& fsdp) {
  std::string text = "reshard=" + (fsdp.reshard_ranks > 0
                                       ? std::to_string(fsdp.reshard_ranks)
                                       : std::string(fsdp.reshard_after_forward ? "yes" : "no"));
  text += fsdp.version == 1 ? ",version=1" : "";
  text += fsdp.cpu_offload ? ",offload" : "";
  text += fsdp.shard_decoder ? "" : ",decoder=no";
  text += fsdp.shard_embeddings ? ",embeddings=yes" : "";
  text += ",param=" + std::string(ir::word_of(ir::policy_dtype_words(), fsdp.param_dtype));
  text += ",reduce=" + std::string(ir::word_of(ir::policy_dtype_words(), fsdp.reduce_dtype));
  if (fsdp.backward_prefetch != ir::FsdpPrefetch::kBackwardPre) {
    text += ",prefetch=";
    text += ir::word_of(ir::fsdp_prefetch_words(), fsdp.backward_prefetch);
  }
  text += fsdp.forward_prefetch ? ",forward-prefetch" : "";
  text += fsdp.use_orig_params ? "" : ",orig-params=no";
  return fsdp.replicas > 1 ? text + ",replicas=" + std::to_string(fsdp.replicas) : text;
}

Result<ir::TitanPlan> parse_titan(const std::string& text, ir::TitanPlan titan) {
  constexpr std::string_view kOption = "titan";
  Result<KeyValues> parsed = KeyValues::parse(kOption, text, '=');
  if (!parsed) {
    return std::move(parsed).error();
  }
  KeyValues values = std::move(parsed).value();
  ValueTaker taker(kOption, values);
  taker.whole("tp", 1, ir::kMostRanks, titan.tensor);
  taker.whole("cp", 1, ir::kMostRanks, titan.context);
  taker.whole("ep", 1, ir::kMostRanks, titan.expert);
  taker.whole("etp", 1, ir::kMostRanks, titan.expert_tensor);
  taker.whole("pp", 1, ir::kMostRanks, titan.pipeline);
  taker.word("schedule", ir::titan_schedule_words(), titan.schedule);
  taker.whole("pp-batch", 1, ir::kMostMicroBatch, titan.pipeline_batch);
  taker.whole("pp-layers", 0, ir::kMostRanks, titan.stage_layers);
  taker.whole("pp-first-less", 0, ir::kMostRanks, titan.first_stage_less);
  taker.whole("pp-last-less", 0, ir::kMostRanks, titan.last_stage_less);
  taker.word("reshard", ir::titan_reshard_words(), titan.reshard);
  taker.flag("loss-parallel", titan.loss_parallel);
  taker.flag("selective", titan.selective_operators);
  taker.flag("compiled", titan.compiled);
  taker.take("memory-budget", titan.memory_budget,
             [&](const std::string& share) { return parse_real(kOption, share, 0, 1); });
  taker.word("float8", ir::float8_recipe_words(), titan.float8);
  taker.flag("fp8-all-gather", titan.float8_gather);
  taker.flag("precompute-scale", titan.float8_precompute);
  if (const Status known = values.finish(); !known) {
    return known.error();
  }
  return taker.fault() ? Result<ir::TitanPlan>(*taker.fault()) : Result<ir::TitanPlan>(titan);
}

namespace {
/// The pipeline's part of `titan_text`; nothing where there is none.
std::string pipeline_text(const ir::TitanPlan& titan) {
  if (titan.pipeline == 1) {
    return {};
  }
  const auto pair = [](const char* key, std::int64_t value, std::int64_t usual) {
    return value == usual ? std::string() : "," + std::string(key) + "=" + std::to_string(value);
  };
  std::string text = ",pp=" + std::to_string(titan.pipeline) + ",schedule=";
  text += ir::word_of(ir::titan_schedule_words(), titan.schedule);
  const ir::TitanPlan usual;
  text += pair("pp-batch", titan.pipeline_batch, usual.pipeline_batch);
  text += pair("pp-layers", titan.stage_layers, usual.stage_layers);
  text += pair("pp-first-less", titan.first_stage_less, usual.first_stage_less);
  return text + pair("pp-last-less", titan.last_stage_less, usual.last_stage_less);
}
}  // namespace

std::string titan_text(const ir::TitanPlan& titan) {
  std::string text = "tp=" + std::to_string(titan.tensor);
  text += titan.context > 1 ? ",cp=" + std::to_string(titan.context) : "";
  text += titan.expert > 1 ? ",ep=" + std::to_string(titan.expert) : "";
  text += titan.expert_tensor > 1 ? ",etp=" + std::to_string(titan.expert_tensor) : "";
  text += pipeline_text(titan);
  text += ",reshard=" + std::string(ir::word_of(ir::titan_reshard_words(), titan.reshard));
  text += titan.loss_parallel ? "" : ",loss-parallel=no";
  text += titan.selective_operators ? ",selective" : "";
  text += titan.compiled ? ",compiled" : "";
  text += titan.memory_budget ? ",memory-budget=" + real_text(*titan.memory_budget) : "";
  if (titan.float8 != ir::Float8Recipe::kNone) {
    text += ",float8=" + std::string(ir::word_of(ir::float8_recipe_words(), titan.float8));
  }
  text += titan.float8_gather ? ",fp8-all-gather" : "";
  return text + (titan.float8_precompute ? ",precompute-scale" : "");
}

Result<ir::TunePlan> parse_tune(const std::string& text, ir::TunePlan tune) {
  constexpr std::string_view kOption = "tune";
  Result<KeyValues> parsed = KeyValues::parse(kOption, text, '=');
  if (!parsed) {
    return std::move(parsed).error();
  }
  KeyValues values = std::move(parsed).value();
  ValueTaker taker(kOption, values);
  taker.flag("compiled", tune.compiled);
  taker.flag("optimizer-in-backward", tune.optimizer_in_backward);
  taker.flag("offload-activations", tune.offload_activations);
  if (const Status known = values.finish(); !known) {
    return known.error();
  }
  return taker.fault() ? Result<ir::TunePlan>(*taker.fault()) : Result<ir::TunePlan>(tune);
}

std::string tune_text(const ir::TunePlan& tune) {
  std::string text = tune.compiled ? "compiled" : "compiled=no";
  text += tune.optimizer_in_backward ? ",optimizer-in-backward" : "";
  return text + (tune.offload_activations ? ",offload-activations" : "");
}

}  // namespace headroom::cli
