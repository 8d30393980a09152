#include "model_ir/spec/recording/recorded_spec.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <utility>

#include "model_ir/spec/recording/fewer_layers.h"
#include "model_ir/spec/recording/position_limit.h"
#include "model_ir/spec/recording/recording_reader.h"
#include "model_ir/spec/task.h"

namespace headroom::ir {
namespace {

/// The first of `keys` that `config`, or the text part in it, has as a number above 0.
std::int64_t dimension(const JsonValue& config, std::initializer_list<std::string_view> keys) {
  const JsonValue* const text = config.find("text_config");
  for (const JsonValue* const part : {&config, text}) {
    for (const std::string_view key : keys) {
      const JsonValue* const value = part == nullptr ? nullptr : part->find(key);
      const std::optional<std::int64_t> number =
          value == nullptr ? std::nullopt : value->as_integer();
      if (number && *number > 0) {
        return *number;
      }
    }
  }
  return 0;
}

/// Whether `config` has the key with a number.
bool has_number(const JsonValue& config, std::string_view key) {
  const JsonValue* const value = config.find(key);
  return value != nullptr && value->as_integer().has_value();
}

/// The rows of the embedding that reads the ids, which are value 0 of the forward pass, for a
/// configuration that leaves its vocabulary to the default; 0 if no embedding reads them.
std::int64_t embedded_words(const Recording& recording) {
  const RecordedVariant& variant = recording.variants.front();
  for (const Instruction& one : variant.forward.instructions) {
    const bool embeds = one.kind == Instruction::Kind::kOp && one.name == "embedding" &&
                        one.inputs.size() > 1 &&
                        one.inputs[0].kind == Reference::Kind::kParameter &&
                        one.inputs[1].kind == Reference::Kind::kValue && one.inputs[1].index == 0;
    if (embeds) {
      const std::uint32_t table = variant.forward_scope.parameters[one.inputs[0].index];
      const std::vector<std::int64_t>& dims = recording.parameters[table].dims;
      return dims.empty() ? 0 : dims.front();
    }
  }
  return 0;
}

}  // namespace

Result<ModelSpec> read_recorded_model(const JsonValue& document, std::string_view file) {
  Result<std::shared_ptr<const Recording>> recording = read_recording(document, file);
  if (!recording) {
    return std::move(recording).error();
  }
  ModelSpec spec;
  spec.family = Family::kRecorded;
  spec.position = PositionKind::kNone;
  spec.recording = std::move(recording).value();
  spec.name = spec.recording->model;
  const JsonValue empty;
  const JsonValue* const found = document.find("config");
  const JsonValue& config = found == nullptr ? empty : *found;
  spec.hidden = dimension(config, {"hidden_size", "n_embd", "d_model", "dim"});
  spec.heads = dimension(config, {"num_attention_heads", "n_head", "num_heads"});
  spec.kv_heads = dimension(config, {"num_key_value_heads"});
  spec.kv_heads = spec.kv_heads > 0 ? spec.kv_heads : spec.heads;
  spec.head_dim = dimension(config, {"head_dim"});
  if (spec.head_dim == 0 && spec.heads > 0) {
    spec.head_dim = spec.hidden / spec.heads;
  }
  spec.ffn = dimension(config, {"intermediate_size", "n_inner", "ffn_dim"});
  spec.vocabulary = dimension(config, {"vocab_size"});
  if (spec.vocabulary == 0) {
    spec.vocabulary = embedded_words(*spec.recording);
  }
  if (const std::optional<Task> task = parse_task(spec.recording->task)) {
    spec.task = *task;
    spec.labels = dimension(config, {"num_labels"});
  }
  spec.max_positions =
      dimension(config, {"max_position_embeddings", "n_positions", "max_target_positions"});
  PositionKeys keys{.positions = spec.max_positions};
  keys.padding =
      has_number(config, "pad_token_id") ? dimension(config, {"pad_token_id"}) : keys.padding;
  if (const std::optional<std::int64_t> limit = position_limit(*spec.recording, keys)) {
    spec.position = PositionKind::kLearned;
    spec.max_positions = *limit;
  }
  spec.tied_embeddings =
      std::ranges::any_of(spec.recording->parameters, &RecordedParameter::is_tied);
  for (const std::uint32_t kind : kinds_of_layers(*spec.recording)) {
    spec.layers.push_back({.kind = kind, .window = std::nullopt});
  }
  spec.checkpoint_dtype = spec.recording->variants.front().parameters;
  return spec;
}

}  // namespace headroom::ir
