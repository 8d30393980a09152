#include "planner/space/axis.h"

#include <algorithm>
#include <charconv>

#include "model_ir/plan/plan_words.h"
#include "runtimes/megatron/options.h"
#include "runtimes/registry.h"

namespace headroom::plan {
namespace {

constexpr std::array<AxisName, kAxes> kNames = {{
    {Axis::kRuntime, "runtime", "NAME,..",
     "frameworks: transformers, deepspeed, fsdp, megatron; torchtitan and others where named"},
    {Axis::kGpus, "gpus", "N,..", "GPUs; several: the objective chooses among them"},
    {Axis::kTensor, "tp", "N,..", "tensor parallel degree (megatron, torchtitan)"},
    {Axis::kPipeline, "pp", "N,..", "pipeline stages (megatron, torchtitan)"},
    {Axis::kSchedule, "schedule", "KIND,..",
     "1f1b, interleaved (megatron, torchtitan), gpipe, zb-h1, zb-v, dualpipev (torchtitan)"},
    {Axis::kPipelineRuns, "pipeline-runs", "N,..",
     "times that a pipeline is filled and drained in a step (torchtitan)"},
    {Axis::kContext, "cp", "N,..", "context parallel degree (megatron, torchtitan)"},
    {Axis::kContextExchange, "cp-comm", "KIND,..",
     "p2p (keys and values go round) or, with cp above 1, a2a (heads are dealt out) (megatron)"},
    {Axis::kExpert, "ep", "N,..", "expert parallel degree (megatron, torchtitan)"},
    {Axis::kExpertTensor, "etp", "N,..",
     "tensor parallel degree of experts (megatron, torchtitan)"},
    {Axis::kDispatcher, "dispatcher", "KIND,..",
     "alltoall or, with DeepEP in place, hybridep: how tokens reach their experts (megatron)"},
    {Axis::kChunk, "layers-per-virtual-stage", "N,..",
     "layers of a model chunk of an interleaved schedule; 0: 1F1B (megatron), one chunk or two "
     "of a rank (torchtitan)"},
    {Axis::kFirstStage, "first-stage-layers", "N,..",
     "layers of the first pipeline stage; 0: as many as the others (megatron)"},
    {Axis::kLastStage, "last-stage-layers", "N,..",
     "layers of the last pipeline stage; 0: as many as the others (megatron)"},
    {Axis::kAccountEmbedding, "account-for-embedding", "SWITCH",
     "the embedding counts as a layer of the first stage (megatron; torchtitan: yes)"},
    {Axis::kAccountLoss, "account-for-loss", "SWITCH",
     "the loss counts as a layer of the last stage (megatron; torchtitan: yes)"},
    {Axis::kMeshOrder, "mesh-order", "ORDER,..",
     "tp-cp-ep-dp-pp or tp-cp-ep-pp-dp: which ranks are neighbours in a pipeline (megatron)"},
    {Axis::kPrecision, "precision", "RECIPE,..",
     "bf16 or fp16 (arithmetic, with fp32 masters and states, in each framework's own way), fp32; "
     "fp8-delayed, fp8-tensorwise, fp8-blockwise, fp8-mxfp8 (megatron: bf16, but for the products "
     "of linear layers)"},
    {Axis::kFp8Parameters, "fp8-param-gather", "SWITCH",
     "weights are held in 8 bits under a recipe of 8 bits: yes, no or any (megatron)"},
    {Axis::kOptimizer, "optimizer", "NAME,..", "as headroom fit takes it"},
    {Axis::kMicroBatch, "micro-batch", "B,..", "sequences per forward of one rank"},
    {Axis::kSequence, "seq", "S,..", "tokens per sequence"},
    {Axis::kSequenceParallel, "sequence-parallel", "SWITCH", "yes, no or any (megatron)"},
    {Axis::kAttention, "attention", "KIND,..",
     "fused, unfused (megatron), sdpa, eager, flash, sdpa-no-cudnn"},
    {Axis::kRecompute, "recompute", "WHICH,..",
     "none, selective (megatron, torchtitan), uniform, block (megatron), full (the others)"},
    {Axis::kRecomputeLayers, "recompute-layers", "N,..",
     "layers of a group of uniform, or recomputed of each chunk under block (megatron)"},
    {Axis::kRecomputeEvery, "recompute-every", "N,..",
     "under recompute full, every so manieth layer (torchtitan)"},
    {Axis::kCompiled, "compile", "SWITCH", "blocks under torch.compile (torchtitan)"},
    {Axis::kOffloadModules, "offload-modules", "A+B,..",
     "none, or modules whose activations go to the host: qkv_linear, core_attn, attn_proj, "
     "attn_norm, mlp_norm, expert_fc1, moe_act (megatron)"},
    {Axis::kDistributedOptimizer, "distributed-optimizer", "SWITCH", "yes, no or any (megatron)"},
    {Axis::kOverlapGradReduce, "overlap-grad-reduce", "SWITCH", "yes, no or any (megatron)"},
    {Axis::kOverlapParamGather, "overlap-param-gather", "SWITCH", "yes, no or any (megatron)"},
    {Axis::kAccumulationFusion, "gradient-accumulation-fusion", "SWITCH",
     "yes, no or any (megatron)"},
    {Axis::kLoss, "loss", "KIND,..",
     "unfused, native, te (megatron's cross entropy), hf, chunked, fused-linear"},
    {Axis::kLoaderMask, "mask-in-dataloader", "SWITCH", "yes, no or any (megatron)"},
    {Axis::kZero, "zero", "STAGE,..", "ZeRO stages (deepspeed)"},
    {Axis::kReshard, "reshard", "SWITCH",
     "parameters go back to shards after forward (fsdp, torchtitan)"},
    {Axis::kReplicas, "replicas", "N,..",
     "copies of the sharded model: hybrid sharding (fsdp, torchtitan)"},
    {Axis::kOffload, "offload", "WHAT,..",
     "none, optimizer, all: what lives on the host (deepspeed; fsdp: none or all)"},
    {Axis::kOptimizerOffload, "optimizer-offload", "SHARE,..",
     "0, 0.25, 0.5, 0.75, 1: share of the optimizer on the host (megatron's distributed one in "
     "bf16; deepspeed's, less than all at stage 3)"},
}};

constexpr std::array<std::string_view, 2> kSwitch = {"no", "yes"};
constexpr std::array<std::string_view, 6> kAttention = {"fused", "unfused", "sdpa",
                                                        "eager", "flash",   "sdpa-no-cudnn"};
constexpr std::array<std::string_view, 2> kContextExchange = {"p2p", "a2a"};
constexpr std::array<std::string_view, 2> kDispatcher = {"alltoall", "hybridep"};
constexpr std::array<std::string_view, 5> kRecompute = {"none", "selective", "uniform", "block",
                                                        "full"};
constexpr std::array<std::string_view, 6> kLoss = {"unfused", "native",  "te",
                                                   "hf",      "chunked", "fused-linear"};
constexpr std::array<std::string_view, 3> kOffload = {"none", "optimizer", "all"};
constexpr std::array<std::string_view, 2> kMeshOrder = {"tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp"};
constexpr std::array<std::string_view, kOffloadSteps + 1> kOptimizerOffload = {"0", "0.25", "0.5",
                                                                               "0.75", "1"};

/// Behind `ir::precision_words`, as `ir::MegatronFp8` has them.
constexpr std::array<std::string_view, 4> kEightBits = {"fp8-delayed", "fp8-tensorwise",
                                                        "fp8-blockwise", "fp8-mxfp8"};

/// What `any` stands for where an axis is not free when it is left out.
constexpr std::array<std::string_view, 7> kAnyPrecision = {
    "bf16", "fp16", "fp32", "fp8-delayed", "fp8-tensorwise", "fp8-blockwise", "fp8-mxfp8"};
constexpr std::array<std::string_view, 6> kAnyOptimizer = {"adamw", "adamw-fused",  "adamw-8bit",
                                                           "sgd",   "sgd-momentum", "lion"};

template <typename Value>
std::vector<std::string_view> names_of(std::span<const ir::Word<Value>> words) {
  std::vector<std::string_view> names;
  for (const ir::Word<Value>& word : words) {
    names.push_back(word.text);
  }
  return names;
}

/// Sets worth a search: each module that saves much, attention's together, experts' together, all.
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

/// "core_attn+attn_proj", in any order.
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

std::vector<std::string_view> precision_names() {
  std::vector<std::string_view> names = names_of(ir::precision_words());
  names.insert(names.end(), kEightBits.begin(), kEightBits.end());
  return names;
}

constexpr std::int64_t kGreatest = std::int64_t{1} << 24;

std::optional<std::int64_t> whole(std::string_view text) {
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, fault] = std::from_chars(text.data(), end, value);
  const bool good = fault == std::errc() && rest == end && value >= 0 && value <= kGreatest;
  return good ? std::optional(value) : std::nullopt;
}

std::string expected(Axis axis) {
  if (axis == Axis::kOffloadModules) {
    std::string text = "none, or modules joined by + out of ";
    for (const ir::MegatronOffloadModule& module : ir::megatron_offload_modules()) {
      text += std::string(module.name) + ", ";
    }
    return text + "with commas between sets, or any";
  }
  const std::span<const std::string_view> words = words_of_axis(axis);
  if (words.empty()) {
    return "whole numbers with commas between, a range as 2-16, or any";
  }
  std::string text;
  for (const std::string_view word : words) {
    text += std::string(word) + ", ";
  }
  return text + "with commas between, or any";
}

/// One part between commas.
std::optional<AxisValues> parse_part(Axis axis, std::string_view part) {
  if (axis == Axis::kOffloadModules) {
    return parse_modules(part);
  }
  const std::span<const std::string_view> words = words_of_axis(axis);
  if (!words.empty()) {
    const auto word = std::ranges::find(words, part);
    return word == words.end() ? std::nullopt : std::optional(AxisValues{word - words.begin()});
  }
  const std::size_t dash = part.find('-');
  const std::optional<std::int64_t> first = whole(part.substr(0, dash));
  const std::optional<std::int64_t> last =
      dash == std::string_view::npos ? first : whole(part.substr(dash + 1));
  constexpr std::int64_t kWidest = 1 << 16;
  if (!first || !last || *first > *last || *last - *first > kWidest) {
    return std::nullopt;
  }
  AxisValues values;
  for (std::int64_t value = *first; value <= *last; ++value) {
    values.push_back(value);
  }
  return values;
}

/// What "any" stands for of an axis that is otherwise held.
std::span<const std::string_view> any_words(Axis axis) {
  if (axis == Axis::kPrecision) {
    return kAnyPrecision;
  }
  if (axis == Axis::kOffloadModules) {
    return kAnyModules;
  }
  return axis == Axis::kOptimizer ? std::span<const std::string_view>(kAnyOptimizer)
                                  : words_of_axis(axis);
}

}  // namespace

bool is_held(Axis axis) {
  return axis == Axis::kPrecision || axis == Axis::kFp8Parameters || axis == Axis::kOptimizer ||
         axis == Axis::kMeshOrder || axis == Axis::kDispatcher || axis == Axis::kContextExchange ||
         axis == Axis::kOffloadModules || axis == Axis::kOptimizerOffload;
}

std::span<const AxisName> axis_names() {
  return kNames;
}

std::string_view option_of(Axis axis) {
  return kNames[static_cast<std::size_t>(axis)].option;
}

std::span<const std::string_view> words_of_axis(Axis axis) {
  switch (axis) {
    case Axis::kRuntime:
      return ir::runtime_words();
    case Axis::kSchedule: {
      static const std::vector<std::string_view> names = names_of(ir::titan_schedule_words());
      return names;
    }
    case Axis::kPrecision: {
      static const std::vector<std::string_view> names = precision_names();
      return names;
    }
    case Axis::kOptimizer: {
      static const std::vector<std::string_view> names = names_of(ir::optimizer_words());
      return names;
    }
    case Axis::kOffloadModules: {
      static const std::vector<std::string> names = module_set_names();
      static const std::vector<std::string_view> words(names.begin(), names.end());
      return words;
    }
    case Axis::kAttention:
      return kAttention;
    case Axis::kContextExchange:
      return kContextExchange;
    case Axis::kDispatcher:
      return kDispatcher;
    case Axis::kRecompute:
      return kRecompute;
    case Axis::kLoss:
      return kLoss;
    case Axis::kOffload:
      return kOffload;
    case Axis::kMeshOrder:
      return kMeshOrder;
    case Axis::kOptimizerOffload:
      return kOptimizerOffload;
    case Axis::kAccountEmbedding:
    case Axis::kAccountLoss:
    case Axis::kFp8Parameters:
    case Axis::kCompiled:
    case Axis::kSequenceParallel:
    case Axis::kDistributedOptimizer:
    case Axis::kOverlapGradReduce:
    case Axis::kOverlapParamGather:
    case Axis::kAccumulationFusion:
    case Axis::kLoaderMask:
    case Axis::kReshard:
      return kSwitch;
    case Axis::kGpus:
    case Axis::kTensor:
    case Axis::kPipeline:
    case Axis::kPipelineRuns:
    case Axis::kContext:
    case Axis::kExpert:
    case Axis::kExpertTensor:
    case Axis::kChunk:
    case Axis::kFirstStage:
    case Axis::kLastStage:
    case Axis::kMicroBatch:
    case Axis::kSequence:
    case Axis::kRecomputeLayers:
    case Axis::kRecomputeEvery:
    case Axis::kZero:
    case Axis::kReplicas:
      return {};
  }
  return {};
}

std::string value_text(Axis axis, std::int64_t value) {
  const std::span<const std::string_view> words = words_of_axis(axis);
  const auto index = static_cast<std::size_t>(value);
  return index < words.size() ? std::string(words[index]) : std::to_string(value);
}

ir::MegatronFp8 eight_bits_of(std::int64_t precision) {
  const auto first = static_cast<std::int64_t>(ir::precision_words().size());
  return precision < first ? ir::MegatronFp8::kNone
                           : static_cast<ir::MegatronFp8>(precision - first + 1);
}

std::int64_t precision_with(ir::MegatronFp8 recipe) {
  const auto first = static_cast<std::int64_t>(ir::precision_words().size());
  return first + static_cast<std::int64_t>(recipe) - 1;
}

std::int64_t schedule_with(ir::PipelineKind kind) {
  const auto words = ir::titan_schedule_words();
  return std::ranges::find(words, kind, &ir::Word<ir::PipelineKind>::value) - words.begin();
}

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

Result<AxisValues> parse_axis(Axis axis, std::string_view text) {
  AxisValues values;
  if (text == "any") {
    const std::span<const std::string_view> all =
        is_held(axis) ? any_words(axis) : std::span<const std::string_view>();
    for (const std::string_view word : all) {
      const std::optional<AxisValues> one = parse_part(axis, word);
      values.insert(values.end(), one->begin(), one->end());
    }
    std::ranges::sort(values);
    return values;
  }
  std::string_view rest = text;
  for (bool more = true; more;) {
    const std::size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    more = comma != std::string_view::npos;
    rest.remove_prefix(more ? comma + 1 : rest.size());
    const std::optional<AxisValues> some = parse_part(axis, part);
    if (!some) {
      return Error::invalid_argument(option_of(axis), text, expected(axis));
    }
    values.insert(values.end(), some->begin(), some->end());
  }
  std::ranges::sort(values);
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

bool Constraints::allows(Axis axis, std::int64_t value) const {
  const AxisValues& given = of(axis);
  return given.empty() || std::ranges::binary_search(given, value);
}

}  // namespace headroom::plan
