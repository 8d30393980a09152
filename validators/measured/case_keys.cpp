// The keys that the cases of several programs share.
#include <algorithm>
#include <array>
#include <charconv>
#include <string>

#include "validators/measured/case_plan.h"

namespace headroom::check {
namespace {

using ir::JsonValue;

constexpr std::array<Word<ir::AttentionKind>, 3> kCaseAttention = {
    {{"sdpa", ir::AttentionKind::kSdpa},
     {"eager", ir::AttentionKind::kEager},
     {"flash_attention_2", ir::AttentionKind::kFlash}}};

// checkpoint_wrapper stands inside the layer's FSDP group, whose hooks do nothing when a layer is
// run again: memory is the same.
constexpr std::array<Word<ir::Recompute>, 4> kCaseCheckpointing = {
    {{"none", ir::Recompute::kNone},
     {"full", ir::Recompute::kFull},
     {"full_wrapper", ir::Recompute::kFull},
     {"full_reentrant", ir::Recompute::kFullReentrant}}};

enum class Cast : std::uint8_t { kNone, kBf16, kFp16 };
constexpr std::array<Word<Cast>, 3> kCasts = {
    {{"none", Cast::kNone}, {"autocast_bf16", Cast::kBf16}, {"autocast_fp16", Cast::kFp16}}};

constexpr std::array<Word<ir::DType>, 3> kDtypes = {
    {{"fp32", ir::DType::kFp32}, {"bf16", ir::DType::kBf16}, {"fp16", ir::DType::kFp16}}};

bool parse_number(std::string_view text, double& value) {
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  return end.ec == std::errc{} && end.ptr == text.data() + text.size() && value >= 0;
}

/// One "name:value" of PYTORCH_ALLOC_CONF.
struct AllocatorOption {
  std::string_view name;
  std::string_view value;
};

/// False if the option is not modelled.
bool set_allocator(const AllocatorOption& option, ir::AllocatorSettings& settings) {
  const auto& [name, value] = option;
  if (name == "expandable_segments") {
    settings.expandable_segments = value == "True";
    return value == "True" || value == "False";
  }
  if (name == "backend") {
    return value == "native";
  }
  double number = 0;
  if (!parse_number(value, number) || number > 1e6) {
    return false;  // roundup_power2_divisions:[256:1,...] too.
  }
  const Bytes size{static_cast<std::int64_t>(number) * kMiB};
  if (name == "max_split_size_mb") {
    settings.max_split_size = size;
  } else if (name == "max_non_split_rounding_mb") {
    settings.max_non_split_rounding = size;
  } else if (name == "garbage_collection_threshold") {
    settings.garbage_collection_threshold = number;
  } else if (name == "roundup_power2_divisions") {
    settings.roundup_power2_divisions = static_cast<std::int64_t>(number);
  } else {
    return false;
  }
  return true;
}

}  // namespace

void read_common_keys(CaseReader& reader, ir::ParallelPlan& plan) {
  // What a case says about itself and about how it was recorded.
  constexpr std::array<std::string_view, 9> kAside = {
      "id", "model", "layers", "config", "task", "trace", "events", "time_steps", "persistent"};
  reader.ignore(kAside);
  plan.micro_batch = reader.integer("micro_batch", 1, kBatchRange);
  plan.sequence = reader.integer("seq", 2048, kSequenceRange);
  plan.accumulation = reader.integer("accumulation", 1, {1, 1 << 12});
  plan.steps = static_cast<int>(reader.integer("steps", 2, {0, 64}));
  plan.attention = reader.word<ir::AttentionKind>("attention", "sdpa", kCaseAttention);
  plan.recompute = reader.word<ir::Recompute>("checkpointing", "none", kCaseCheckpointing);
}

std::vector<std::string> read_targets(CaseReader& reader, std::string_view key) {
  const JsonValue* value = reader.take(key);
  const bool all =
      value == nullptr || (value->as_string() != nullptr && *value->as_string() == "all-linear");
  std::vector<std::string> names;
  if (all) {
    return names;
  }
  const JsonValue::Array* list = value->as_array();
  for (std::size_t i = 0; list != nullptr && i < list->size(); ++i) {
    if (const auto* name = (*list)[i].as_string()) {
      names.push_back(*name);
    }
  }
  if (list == nullptr || list->empty() || names.size() != list->size()) {
    reader.fail(key, ir::to_json(*value));
  }
  return names;
}

void read_lora(CaseReader& reader, ir::ParallelPlan& plan) {
  const JsonValue* value = reader.take("lora");
  if (value == nullptr) {
    return;
  }
  CaseReader lora(value, "case.lora");
  constexpr std::array<std::string_view, 1> kAside = {"alpha"};  // A factor, no bytes.
  lora.ignore(kAside);
  plan.lora = ir::LoraPlan{.rank = lora.integer("r", 16, {1, 1 << 14}),
                           .dropout = lora.number("dropout", 0),
                           .dora = lora.flag("dora", false),
                           .rank_stabilised = lora.flag("rslora", false),
                           .targets = read_targets(lora, "targets"),
                           .modules_to_save = read_targets(lora, "modules_to_save")};
  reader.absorb(lora.trouble());
}

ir::Precision read_precision(CaseReader& reader, const DtypeKey& dtype) {
  const auto stored = reader.word<ir::DType>(dtype.key, dtype.absent, kDtypes);
  const auto cast = reader.word<Cast>("precision", "none", kCasts);
  if (cast == Cast::kNone) {
    return stored == ir::DType::kFp32   ? ir::Precision::kFp32
           : stored == ir::DType::kBf16 ? ir::Precision::kBf16
                                        : ir::Precision::kFp16;
  }
  if (stored == ir::DType::kFp32) {
    return cast == Cast::kBf16 ? ir::Precision::kAutocastBf16 : ir::Precision::kAutocastFp16;
  }
  if (stored != ir::DType::kBf16 || cast != Cast::kBf16) {
    reader.fail("precision", "autocast over " + std::string(name_of(stored)) + " parameters");
  }
  return ir::Precision::kBf16AutocastBf16;
}

void read_allocator(CaseReader& reader, std::string_view key, std::string_view absent,
                    ir::AllocatorSettings& settings) {
  const std::string text = reader.text(key, absent);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view part = std::string_view(text).substr(begin, end - begin);
    const std::size_t colon = std::min(part.find(':'), part.size());
    const std::string_view value = colon < part.size() ? part.substr(colon + 1) : "";
    if (!set_allocator({part.substr(0, colon), value}, settings)) {
      reader.fail(key, "'" + std::string(part) + "'");
    }
    begin = end + 1;
  }
}

}  // namespace headroom::check
