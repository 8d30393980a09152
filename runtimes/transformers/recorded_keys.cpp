#include "runtimes/transformers/recorded_keys.h"

#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "model_ir/spec/hf_config.h"
#include "model_ir/spec/recording/recording.h"
#include "model_ir/spec/task.h"
#include "runtimes/interface/runs/recorded_keys.h"
#include "runtimes/transformers/modeling.h"

namespace headroom::ir::transformers {
namespace {

constexpr std::array<RowWord<AttentionKind>, 3> kCaseAttention = {
    {{"sdpa", AttentionKind::kSdpa},
     {"eager", AttentionKind::kEager},
     {"flash_attention_2", AttentionKind::kFlash}}};

// checkpoint_wrapper is inside the layer's FSDP group, whose hooks do nothing when a layer is
// recomputed: memory is the same.
constexpr std::array<RowWord<Recompute>, 4> kCaseCheckpointing = {
    {{"none", Recompute::kNone},
     {"full", Recompute::kFull},
     {"full_wrapper", Recompute::kFull},
     {"full_reentrant", Recompute::kFullReentrant}}};

enum class Cast : std::uint8_t { kNone, kBf16, kFp16 };
constexpr std::array<RowWord<Cast>, 3> kCasts = {
    {{"none", Cast::kNone}, {"autocast_bf16", Cast::kBf16}, {"autocast_fp16", Cast::kFp16}}};

constexpr std::array<RowWord<DType>, 3> kStoredTypes = {
    {{"fp32", DType::kFp32}, {"bf16", DType::kBf16}, {"fp16", DType::kFp16}}};

/// "first-N": the layers that are checkpointed were chosen one by one.
bool read_first_layers(RunReader& row, ParallelPlan& plan) {
  constexpr std::string_view kForm = "first-";
  const JsonValue* value = row.peek("checkpointing");
  const std::string* text = value != nullptr ? value->as_string() : nullptr;
  if (text == nullptr || !text->starts_with(kForm)) {
    return false;
  }
  const std::string_view digits = std::string_view(*text).substr(kForm.size());
  std::int64_t count = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), count);
  if (error != std::errc{} || end != digits.data() + digits.size() || count < 1) {
    row.fail("checkpointing", *text);
    return true;
  }
  row.take("checkpointing");
  plan.recompute = Recompute::kFull;
  plan.recompute_first = count;
  return true;
}

/// Checks that the case's `task`, if it has one, is that of the recording, which `architectures`
/// has chosen.
void check_recorded_head(RunReader& row, const Recording& recording) {
  if (row.peek("task") == nullptr) {
    return;
  }
  const std::string got = row.text("task", "");
  if (got != recording.task && got + "-lm" != recording.task) {
    row.fail("task", "'" + got + "' for a recording of " + recording.task);
  }
}

/// Adds the head of the case's `task` to the model.
void set_head(RunReader& row, ModelSpec& model) {
  if (model.recording) {
    check_recorded_head(row, *model.recording);
    return;
  }
  const std::string got = row.text("task", "causal");
  std::string_view expected = "causal";
  switch (model.architecture) {
    case Architecture::kCausalLm:
      break;
    case Architecture::kMaskedLm:
      expected = "masked";
      break;
    case Architecture::kEncoderDecoder:
      expected = "seq2seq";
      break;
  }
  if (got == expected) {
    return;
  }
  const std::optional<Task> head = parse_task(got);
  if (!head || !set_task(model, *head, model.labels)) {
    row.fail("task", "'" + got + "' for a " + std::string(expected) + " model");
  }
}

}  // namespace

void read_run_of_model(RunReader& row, Recorder recorder, RunSetting& run,
                       void (*read)(RunReader& row, RunSetting& run)) {
  const JsonValue* config = row.peek("config");
  if (config == nullptr || config->as_object() == nullptr) {
    row.fail("config", "absent");
    return;
  }
  HfConfigOptions options;
  options.head.images = row.peek("images") != nullptr;
  Result<ModelSpec> model = parse_hf_config(to_json(*config), "case.config", options);
  if (!model) {
    row.refuse(model.error());
    return;
  }
  run.model = std::move(model).value();
  read_recorded_gpu(row, run);
  read_allocator(row, "allocator", "", run.plan.allocator);
  read(row, run);
  if (recorder == Recorder::kAccountingDevice) {
    // If reads return zeros, a mask of ones that a model makes looks like padding. Before 5.0, the
    // code checked whether the whole mask is set.
    const bool reads_mask =
        makes_padding_mask(run.model.family) && !run.plan.runtime_version.starts_with("4.");
    run.plan.workload.padded_batch = run.plan.workload.padded_batch || reads_mask;
    if (run.plan.attention == AttentionKind::kSdpa) {
      run.plan.attention = AttentionKind::kSdpaNoCudnn;
    }
  }
  set_head(row, run.model);
}

void read_common_keys(RunReader& row, ParallelPlan& plan) {
  // What a case says about itself and about its recording.
  constexpr std::array<std::string_view, 9> kAside = {"id",         "model",      "layers",
                                                      "config",     "trace",      "events",
                                                      "time_steps", "persistent", "image_tokens"};
  row.ignore(kAside);
  plan.workload.micro_batch = row.integer("micro_batch", 1, kBatchRange);
  plan.workload.sequence = row.integer("seq", 2048, kSequenceRange);
  if (row.peek("images") != nullptr) {
    plan.workload.images = parse_images(row.text("images", ""));
    if (!plan.workload.images) {
      row.fail("images", "not COUNTxHEIGHTxWIDTH");
    }
  }
  plan.workload.accumulation = row.integer("accumulation", 1, {1, 1 << 12});
  plan.workload.steps = static_cast<int>(row.integer("steps", 2, {0, 64}));
  plan.attention = row.word<AttentionKind>("attention", "sdpa", kCaseAttention);
  if (!read_first_layers(row, plan)) {
    plan.recompute = row.word<Recompute>("checkpointing", "none", kCaseCheckpointing);
  }
}

std::vector<std::string> read_targets(RunReader& row, std::string_view key) {
  const JsonValue* value = row.take(key);
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
    row.fail(key, to_json(*value));
  }
  return names;
}

void read_lora(RunReader& row, ParallelPlan& plan) {
  const JsonValue* value = row.take("lora");
  if (value == nullptr) {
    return;
  }
  RunReader lora(value, "case.lora");
  constexpr std::array<std::string_view, 1> kAside = {"alpha"};  // A factor, no bytes.
  lora.ignore(kAside);
  plan.lora = LoraPlan{.rank = lora.integer("r", 16, {1, 1 << 14}),
                       .dropout = lora.number("dropout", 0),
                       .dora = lora.flag("dora", false),
                       .rank_stabilised = lora.flag("rslora", false),
                       .targets = read_targets(lora, "targets"),
                       .modules_to_save = read_targets(lora, "modules_to_save")};
  row.absorb(lora.trouble());
}

Precision read_precision(RunReader& row, const DtypeKey& dtype) {
  const auto stored = row.word<DType>(dtype.key, dtype.absent, kStoredTypes);
  const auto cast = row.word<Cast>("precision", "none", kCasts);
  if (cast == Cast::kNone) {
    return stored == DType::kFp32   ? Precision::kFp32
           : stored == DType::kBf16 ? Precision::kBf16
                                    : Precision::kFp16;
  }
  if (stored == DType::kFp32) {
    return cast == Cast::kBf16 ? Precision::kAutocastBf16 : Precision::kAutocastFp16;
  }
  if (stored != DType::kBf16 || cast != Cast::kBf16) {
    row.fail("precision", "autocast over " + std::string(name_of(stored)) + " parameters");
  }
  return Precision::kBf16AutocastBf16;
}

LoraPlan read_peft_config(RunReader& peft) {
  constexpr std::array<std::string_view, 1> kAside = {"lora_alpha"};  // A factor, no bytes.
  peft.ignore(kAside);
  peft.expect("peft_type", "LORA");
  peft.expect("bias", "none");
  if (const JsonValue* start = peft.take("init_lora_weights");
      start != nullptr && start->as_bool() != true) {
    peft.fail("init_lora_weights", to_json(*start));
  }
  return {.rank = peft.integer("r", 8, {1, 1 << 14}),
          .dropout = peft.number("lora_dropout", 0),
          .dora = peft.flag("use_dora", false),
          .rank_stabilised = peft.flag("use_rslora", false),
          .targets = read_targets(peft, "target_modules")};
}

void read_ranks(RunReader& parallel, RunSetting& run) {
  constexpr std::array<std::string_view, 1> kAside = {"eager"};  // When communicators are made.
  parallel.ignore(kAside);
  run.plan.world = parallel.integer("world", 1, kWorldRange);
  run.rank = Rank{static_cast<std::int32_t>(parallel.integer("rank", 0, {0, 1 << 20}))};
}

std::string parallel_kind(const JsonValue& setting) {
  const JsonValue* parallel = setting.find("parallel");
  const JsonValue* kind = parallel != nullptr ? parallel->find("kind") : nullptr;
  return kind != nullptr && kind->as_string() != nullptr ? *kind->as_string() : "none";
}

}  // namespace headroom::ir::transformers
