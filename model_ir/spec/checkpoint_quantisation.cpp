#include "model_ir/spec/checkpoint_quantisation.h"

#include <algorithm>
#include <array>
#include <utility>

namespace headroom::ir {
namespace {

constexpr IntegerRange kBits{2, 8};
constexpr IntegerRange kGroupSize{1, std::int64_t{1} << 24};
constexpr std::size_t kMostModules = std::size_t{1} << 16;  // Some files name 700 modules.
constexpr std::size_t kMostGroups = 64;

struct NamedMethod {
  std::string_view name;
  QuantMethod method;
};
constexpr std::array<NamedMethod, 8> kMethods = {
    {{"fp8", QuantMethod::kFp8},
     {"fbgemm_fp8", QuantMethod::kFbgemmFp8},
     {"mxfp4", QuantMethod::kMxfp4},
     {"gptq", QuantMethod::kGptq},
     {"awq", QuantMethod::kAwq},
     {"bitsandbytes", QuantMethod::kBitsAndBytes},
     {"compressed-tensors", QuantMethod::kCompressedTensors},
     {"modelopt", QuantMethod::kModelOpt}}};

/// Lists under the first of `keys` that is there; all are marked as read.
void read_kept(const JsonObject& json, std::initializer_list<std::string_view> keys,
               CheckpointQuantisation& read) {
  for (const std::string_view key : keys) {
    if (!json.has(key)) {
      continue;
    }
    std::vector<std::string> names = json.texts_or_none(key);
    if (names.size() > kMostModules) {
      json.refuse(key, "at most 65,536 modules");
      return;
    }
    if (!read.names_kept) {
      read.kept = std::move(names);
      read.names_kept = true;
    }
  }
}

void accept_all(const JsonObject& json) {
  for (const std::string& key : json.keys()) {
    json.accept(key);
  }
}

bool is_static(const JsonObject& json) {
  return json.text_or("activation_scheme", "dynamic") == "static";
}

void read_fp8(const JsonObject& json, CheckpointQuantisation& read) {
  QuantGroup group{.targets = {"Linear"}};
  group.static_inputs = is_static(json);
  if (!json.has("weight_block_size")) {
    read.default_block = !json.is_null("weight_block_size");
  } else {
    const std::vector<std::int64_t> block = json.integers_or_none("weight_block_size", kGroupSize);
    if (block.size() != 2) {
      if (!json.any_faults()) {
        json.refuse("weight_block_size", "[rows, columns]");
      }
      return;
    }
    group.scales = ScaleForm::kBlock;
    group.block_rows = block[0];
    group.block_columns = block[1];
  }
  read.narrow_scales = json.text_or("scale_fmt", "float") == "ue8m0";
  read_kept(json, {"modules_to_not_convert", "ignored_layers"}, read);
  read.groups.push_back(std::move(group));
}

void read_fbgemm(const JsonObject& json, CheckpointQuantisation& read) {
  read.groups.push_back({.targets = {"Linear"}, .scales = ScaleForm::kChannel});
  read_kept(json, {"modules_to_not_convert"}, read);
}

void read_mxfp4(const JsonObject& json, CheckpointQuantisation& read) {
  constexpr std::int64_t kShare = 32;  // OCP Microscaling Formats 1.0, table 1: block size 32.
  read.groups.push_back({.targets = {"experts"},
                         .form = PackedForm::kMxfp4,
                         .bits = 4,
                         .scales = ScaleForm::kGroup,
                         .group = kShare});
  read_kept(json, {"modules_to_not_convert"}, read);
}

/// bits, group_size, zero points and order of GPTQ and AWQ; nothing with the fault noted.
std::optional<QuantGroup> read_packed(const JsonObject& json, std::string_view bits_key,
                                      std::string_view group_key) {
  QuantGroup group{.targets = {"Linear"}, .form = PackedForm::kPackedInt};
  group.bits = static_cast<int>(json.integer(bits_key, kBits));
  if (32 % std::max(group.bits, 1) != 0 && group.bits != 3) {
    json.refuse(bits_key, "2, 3, 4 or 8");
    return std::nullopt;
  }
  constexpr IntegerRange kOrNone{-1, std::int64_t{1} << 24};
  const std::int64_t size = json.integer_or(group_key, 128, kOrNone);
  if (size == 0) {
    json.refuse(group_key, "-1 or a number of weights");
    return std::nullopt;
  }
  group.scales = size < 0 ? ScaleForm::kChannel : ScaleForm::kGroup;
  group.group = std::max<std::int64_t>(size, 0);
  return group;
}

void read_gptq(const JsonObject& json, CheckpointQuantisation& read) {
  auto group = read_packed(json, "bits", "group_size");
  if (!group) {
    return;
  }
  group->symmetric = json.boolean_or("sym", true);
  group->reorders = json.boolean_or("desc_act", false);
  read.head = json.optional_boolean("lm_head").value_or(false);
  const auto rules = json.optional_object("dynamic");
  if (rules && !rules->keys().empty()) {
    accept_all(*rules);
    read.unanswered = "its key dynamic gives modules sizes of their own";
  }
  if (json.has("modules_in_block_to_quantize")) {
    read.unanswered = "its key modules_in_block_to_quantize selects modules";
  }
  read.groups.push_back(*std::move(group));
}

void read_awq(const JsonObject& json, CheckpointQuantisation& read) {
  auto group = read_packed(json, json.has("w_bit") ? "w_bit" : "bits",
                           json.has("q_group_size") ? "q_group_size" : "group_size");
  if (!group) {
    return;
  }
  group->symmetric = !json.boolean_or("zero_point", true);
  const std::string version = json.text_or("version", "gemm");
  if (version != "gemm" && version != "GEMM") {
    read.unanswered = "its layout is that of version " + version + ", not of gemm";
  }
  read_kept(json, {"modules_to_not_convert"}, read);
  read.groups.push_back(*std::move(group));
}

void read_bitsandbytes(const JsonObject& json, CheckpointQuantisation& read) {
  const bool four =
      json.boolean_or("load_in_4bit", json.optional_boolean("_load_in_4bit").value_or(false));
  const bool eight =
      json.boolean_or("load_in_8bit", json.optional_boolean("_load_in_8bit").value_or(!four));
  if (four == eight) {
    json.refuse("load_in_4bit", "true for one of load_in_4bit and load_in_8bit");
    return;
  }
  read.double_quant = four && json.boolean_or("bnb_4bit_use_double_quant", false);
  constexpr std::int64_t kShare = 64;  // bitsandbytes nn/modules.py, Params4bit: blocksize.
  if (four) {
    read.groups.push_back({.targets = {"Linear"},
                           .form = PackedForm::kNibbles,
                           .bits = 4,
                           .scales = ScaleForm::kGroup,
                           .group = kShare});
  } else {
    read.groups.push_back(
        {.targets = {"Linear"}, .form = PackedForm::kInt8, .scales = ScaleForm::kChannel});
  }
  read_kept(json, {"llm_int8_skip_modules"}, read);
}

/// The content of `weights` of a config group; nothing, with the fault noted, if it is wrong.
std::optional<QuantGroup> read_scheme(const JsonObject& json, std::string_view format) {
  QuantGroup group;
  group.bits = static_cast<int>(json.integer_or("num_bits", 8, kBits));
  const bool floating = json.text_or("type", "int") == "float";
  group.symmetric = json.boolean_or("symmetric", true);
  const auto size = json.optional_integer("group_size", {-1, std::int64_t{1} << 24});
  std::string strategy = json.text_or("strategy", "");
  if (strategy.empty()) {
    strategy = size && *size > 0 ? "group" : (size ? "channel" : "tensor");
  }
  const std::vector<std::int64_t> block = json.integers_or_none("block_structure", kGroupSize);
  if (strategy == "group" || strategy == "tensor_group") {
    group.scales = ScaleForm::kGroup;
    group.group = size.value_or(0);
    if (group.group < 1) {
      json.refuse("group_size", "the number of weights that share a scale");
      return std::nullopt;
    }
  } else if (strategy == "channel") {
    group.scales = ScaleForm::kChannel;
  } else if (strategy == "block") {
    if (block.size() != 2) {
      json.refuse("block_structure", "[rows, columns]");
      return std::nullopt;
    }
    group.scales = ScaleForm::kBlock;
    group.block_rows = block[0];
    group.block_columns = block[1];
  } else if (strategy != "tensor") {
    json.refuse("strategy", "tensor, channel, group, tensor_group or block");
    return std::nullopt;
  }
  // actorder may be a truth value or a word; "weight" and "static" store no index.
  group.reorders = json.is_true("actorder") || json.is_word("actorder", "group");
  if (floating && group.bits == 4) {
    group.form =
        format.starts_with("mxfp4") || group.group == 32 ? PackedForm::kMxfp4 : PackedForm::kNvfp4;
  } else if (floating) {
    group.form = PackedForm::kFp8;
  } else {
    group.form =
        format == "pack-quantized" || group.bits < 8 ? PackedForm::kPackedInt : PackedForm::kInt8;
  }
  return group;
}

void read_groups(const JsonObject& json, CheckpointQuantisation& read) {
  const std::string format = json.text_or("format", "");
  const auto groups = json.optional_object("config_groups");
  const std::vector<std::string> names = groups ? groups->keys() : std::vector<std::string>{};
  if (names.size() > kMostGroups) {
    groups->refuse(names.front(), "at most 64 groups");
    return;
  }
  for (const std::string& name : names) {
    const JsonObject one = groups->object(name);
    accept_all(one);
    const auto weights = one.optional_object("weights");
    if (!weights) {
      continue;  // Only activations are quantised.
    }
    accept_all(*weights);
    auto group = read_scheme(*weights, one.text_or("format", format));
    if (!group) {
      return;
    }
    group->targets = one.texts_or_none("targets");
    if (group->targets.empty()) {
      group->targets = {"Linear"};
    }
    if (const auto inputs = one.optional_object("input_activations")) {
      accept_all(*inputs);
      group->static_inputs = !inputs->is_true("dynamic");  // "local" stores a scale, too.
    }
    read.groups.push_back(*std::move(group));
  }
  read_kept(json, {"ignore", "exclude_modules"}, read);
  if (read.groups.empty() && !json.any_faults()) {
    read.unanswered = "it names no group of quantised weights";
  }
  const auto sparse = json.optional_object("sparsity_config");
  if (format == "marlin-24" || (sparse && sparse->text_or("format", "dense") != "dense")) {
    read.unanswered = "its weights are sparse";
  }
}

void read_method(const JsonObject& json, CheckpointQuantisation& read) {
  switch (read.method) {
    case QuantMethod::kFp8:
      return read_fp8(json, read);
    case QuantMethod::kFbgemmFp8:
      return read_fbgemm(json, read);
    case QuantMethod::kMxfp4:
      return read_mxfp4(json, read);
    case QuantMethod::kGptq:
      return read_gptq(json, read);
    case QuantMethod::kAwq:
      return read_awq(json, read);
    case QuantMethod::kBitsAndBytes:
      return read_bitsandbytes(json, read);
    case QuantMethod::kCompressedTensors:
    case QuantMethod::kModelOpt:
      return read_groups(json, read);
    case QuantMethod::kUnknown:
      read.unanswered = "this method is not known";
      return;
  }
}

std::string scales_text(const QuantGroup& group) {
  switch (group.scales) {
    case ScaleForm::kTensor:
      return "one scale per matrix";
    case ScaleForm::kChannel:
      return "one scale per output";
    case ScaleForm::kGroup:
      return "groups of " + std::to_string(group.group);
    case ScaleForm::kBlock:
      return "blocks of " + std::to_string(group.block_rows) + " x " +
             std::to_string(group.block_columns);
  }
  return {};
}

}  // namespace

CheckpointQuantisation read_quantisation(const JsonObject& json) {
  accept_all(json);
  CheckpointQuantisation read;
  const std::string quantised_by = json.text_or("quant_algo", "");
  read.name = json.text_or("quant_method", quantised_by.empty() ? "" : "modelopt");
  if (read.name.empty()) {  // Written by older releases of transformers.
    read.name = json.has("load_in_8bit") || json.has("load_in_4bit") ? "bitsandbytes" : "unnamed";
  }
  if (json.has("quantized_layers")) {
    read.unanswered = "its key quantized_layers gives modules formats of their own";
    return read;
  }
  const auto* const known = std::ranges::find(kMethods, read.name, &NamedMethod::name);
  read.method = known == kMethods.end() ? QuantMethod::kUnknown : known->method;
  read_method(json, read);
  return read;
}

std::string describe(const CheckpointQuantisation& quantisation) {
  std::string text = quantisation.name;
  for (const QuantGroup& group : quantisation.groups) {
    text += (&group == &quantisation.groups.front() ? ": " : " and ") + std::to_string(group.bits) +
            " bits, " + scales_text(group);
  }
  return text;
}

}  // namespace headroom::ir
