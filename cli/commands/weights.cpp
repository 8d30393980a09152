#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "cli/commands/verbs.h"
#include "cli/model_argument.h"
#include "cli/quantisation_notes.h"
#include "cli/scalars.h"
#include "cli/terminal.h"
#include "model_ir/base/file.h"
#include "model_ir/json/json_writer.h"
#include "model_ir/spec/family.h"
#include "model_ir/spec/param_count.h"
#include "model_ir/spec/weights/gguf.h"
#include "model_ir/spec/weights/gguf_model.h"
#include "model_ir/spec/weights/read_weights.h"
#include "runtimes/checkpoint/loaded_weights.h"

namespace headroom::cli {
namespace {

using ir::JsonFields;
using ir::JsonValue;
using ir::checkpoint::LoadedWeights;

/// The known parts of a checkpoint: its headers, its model, or both.
struct WeightsAnswer {
  std::string name;
  std::optional<ir::TensorList> stored;
  std::optional<LoadedModel> model;
  std::vector<LoadedWeights> loaded;
  std::vector<std::string> notes;
};

/// The weight file or folder that MODEL names; nothing if it names none.
std::optional<std::string> weights_path(const std::string& text) {
  std::error_code ignored;
  if (std::filesystem::is_directory(text, ignored)) {
    return ir::holds_weights(text) ? std::optional(text) : std::nullopt;
  }
  const bool weights = text.ends_with(".safetensors") || text.ends_with(".gguf") ||
                       text.ends_with(".safetensors.index.json");
  return weights ? std::optional(text) : std::nullopt;
}

bool has_config(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::path folder = std::filesystem::is_directory(path, ignored)
                                           ? std::filesystem::path(path)
                                           : std::filesystem::path(path).parent_path();
  return std::filesystem::exists(folder / "config.json", ignored);
}

/// The model that a GGUF file describes; a note if its architecture is not known.
void read_gguf_part(const std::string& path, WeightsAnswer& answer) {
  const Result<ir::GgufFile> file = ir::read_gguf_parts(path);
  if (!file) {
    return;  // The list of its tensors has been read, so this cannot fail.
  }
  Result<ir::ModelSpec> spec = ir::model_of_gguf(*file);
  if (!spec) {
    answer.notes.push_back(printable(to_text(spec.error())));
    return;
  }
  answer.model = LoadedModel{.spec = std::move(spec).value(),
                             .label = printable(std::filesystem::path(path).stem().string()),
                             .origin = printable(path),
                             .notes = {}};
}

Status read_model_part(const Arguments& arguments, const std::string& text, WeightsAnswer& answer) {
  if (text.ends_with(".gguf")) {
    read_gguf_part(text, answer);
    return ok();
  }
  if (answer.stored && !has_config(text)) {
    answer.notes.push_back(printable(text) +
                           ": there is no config.json beside the weights, so "
                           "that nothing is said about loading them");
    return ok();
  }
  Result<LoadedModel> model = load_model(text, arguments);
  if (!model) {
    return std::move(model).error();
  }
  if (model->spec.recording) {
    return Error::invalid_argument("MODEL", text,
                                   "files of weights, or a model whose family is not a recording",
                                   "name the weight files of the model");
  }
  answer.name = model->label;
  const std::vector<std::string> of_training =
      model->quantisation ? quantisation_notes(model->spec, *model->quantisation)
                          : std::vector<std::string>{};
  for (const std::string& note : model->notes) {
    // Notes about training do not belong here.
    const bool about_training = std::ranges::any_of(
        of_training, [&note](const std::string& ending) { return note.ends_with(ending); });
    if (!about_training) {
      answer.notes.push_back(note);
    }
  }
  for (const ir::checkpoint::Loader loader : ir::checkpoint::kLoaders) {
    answer.loaded.push_back(ir::checkpoint::loaded_weights(
        model->spec, model->quantisation ? &*model->quantisation : nullptr, loader));
  }
  answer.model = std::move(model).value();
  return ok();
}

Result<WeightsAnswer> answer_weights(const Arguments& arguments) {
  const Result<std::string> text = model_text(arguments);
  if (!text) {
    return text.error();
  }
  WeightsAnswer answer;
  answer.name = printable(*text);
  if (const std::optional<std::string> path = weights_path(*text)) {
    Result<ir::TensorList> list = ir::read_weights(*path);
    if (!list) {
      return std::move(list).error();
    }
    answer.stored = std::move(list).value();
  }
  if (Status status = read_model_part(arguments, *text, answer); !status) {
    return std::move(status).error();
  }
  if (answer.stored) {
    for (const std::string& note : answer.stored->notes) {
      if (std::ranges::find(answer.notes, printable(note)) == answer.notes.end()) {
        answer.notes.push_back(printable(note));
      }
    }
  }
  return answer;
}

JsonValue stored_json(const ir::TensorList& list) {
  JsonFields fields;
  fields.add("format", list.format == ir::WeightFormat::kGguf ? "gguf" : "safetensors");
  fields.add("tensors", list.tensors.size());
  fields.add("elements", list.has_shapes ? JsonValue{total_elements(list)} : JsonValue{});
  fields.add("bytes", total_bytes(list));
  JsonValue::Array types;
  for (const ir::TypeTotal& total :
       list.has_shapes ? totals_by_type(list) : std::vector<ir::TypeTotal>{}) {
    JsonFields one;
    one.add("type", printable(total.type));
    one.add("tensors", total.tensors);
    one.add("elements", total.elements);
    one.add("bytes", total.bytes);
    types.push_back(std::move(one).finish());
  }
  fields.add("types", JsonValue{std::move(types)});
  return std::move(fields).finish();
}

JsonValue loaded_json(const LoadedWeights& loaded) {
  JsonFields fields;
  fields.add("program", name_of(loaded.loader));
  fields.add("refused", loaded.refused.empty() ? JsonValue{} : JsonValue{loaded.refused});
  fields.add("bytes", loaded.refused.empty() ? JsonValue{loaded.total.value()} : JsonValue{});
  fields.add("quantised_parameters", loaded.quantised_parameters);
  fields.add("other_parameters", loaded.other_parameters);
  fields.add("bytes_after_first_use",
             loaded.after_first_use ? JsonValue{loaded.after_first_use->value()} : JsonValue{});
  fields.add("training", loaded.training.empty() ? JsonValue{} : JsonValue{loaded.training});
  JsonValue::Array parts;
  for (const ir::checkpoint::LoadedTotal& total : loaded.parts) {
    JsonFields one;
    one.add("part", name_of(total.part));
    one.add("type", total.type);
    one.add("elements", total.elements);
    one.add("bytes", total.bytes);
    parts.push_back(std::move(one).finish());
  }
  fields.add("parts", JsonValue{std::move(parts)});
  return std::move(fields).finish();
}

JsonValue model_json(const LoadedModel& model) {
  const ir::ParameterCount count = ir::count_parameters(model.spec);
  JsonFields fields;
  fields.add("name", model.label);
  fields.add("family", ir::name_of(model.spec.family));
  fields.add("parameters", count.total());
  fields.add("active_parameters", count.active());
  fields.add("checkpoint_dtype", ir::name_of(model.spec.checkpoint_dtype));
  fields.add("quantisation", model.quantisation
                                 ? JsonValue{printable(describe(*model.quantisation))}
                                 : JsonValue{});
  return std::move(fields).finish();
}

std::string weights_json(const WeightsAnswer& answer, const std::vector<std::string>& notes) {
  JsonFields fields;
  fields.add("schema_version", 1);
  fields.add("model", answer.model ? model_json(*answer.model) : JsonValue{});
  fields.add("stored", answer.stored ? stored_json(*answer.stored) : JsonValue{});
  JsonValue::Array loaded;
  for (const LoadedWeights& each : answer.loaded) {
    loaded.push_back(loaded_json(each));
  }
  fields.add("loaded", JsonValue{std::move(loaded)});
  fields.add("notes", ir::json_texts(notes));
  return to_pretty_json(std::move(fields).finish()) + "\n";
}

/// "8,030,261,248"
std::string grouped(std::int64_t count) {
  std::string text = std::to_string(count);
  for (std::size_t at = text.size(); at > 3; at -= 3) {
    text.insert(at - 3, ",");
  }
  return text;
}

std::string line(std::string_view what, std::string_view type, Bytes bytes, std::int64_t elements) {
  constexpr std::size_t kWhat = 20;
  constexpr std::size_t kType = 9;
  constexpr std::size_t kSize = 10;
  constexpr std::size_t kCount = 21;
  return "  " + pad_right(what, kWhat) + pad_right(type, kType) + pad_left(to_text(bytes), kSize) +
         pad_left(grouped(elements), kCount) + "\n";
}

std::string stored_text(const ir::TensorList& list, const Terminal& terminal) {
  std::string text = styled(
      terminal, Style::kStrong,
      "stored: " + to_text(total_bytes(list)) + " (" + grouped(total_bytes(list).value()) +
          " bytes) in " + grouped(static_cast<std::int64_t>(list.tensors.size())) + " tensors\n");
  if (list.has_shapes) {
    for (const ir::TypeTotal& total : totals_by_type(list)) {
      text += line("tensors", printable(total.type), total.bytes, total.elements);
    }
  }
  return text;
}

std::string loaded_text(const LoadedWeights& loaded, const Terminal& terminal) {
  const std::string program(name_of(loaded.loader));
  if (!loaded.refused.empty()) {
    return styled(terminal, Style::kStrong, program + ": not answered\n") + "  " + loaded.refused +
           "\n";
  }
  std::string text =
      styled(terminal, Style::kStrong,
             program + ": " + to_text(loaded.total) + " (" + grouped(loaded.total.value()) +
                 " bytes) when loaded for inference\n");
  for (const ir::checkpoint::LoadedTotal& total : loaded.parts) {
    text += line(name_of(total.part), total.type, total.bytes, total.elements);
  }
  if (!loaded.training.empty()) {
    text += "  " + loaded.training + "\n";
  }
  if (loaded.after_first_use) {
    text += "  After the first forward pass, the weights are in 16 bits: " +
            to_text(*loaded.after_first_use) + "\n";
  }
  return text;
}

std::string weights_text(const WeightsAnswer& answer, const Terminal& terminal) {
  std::string text = answer.name;
  if (answer.model) {
    text += ": " + grouped(ir::count_parameters(answer.model->spec).total()) + " parameters";
    if (answer.model->quantisation) {
      text += ", " + printable(describe(*answer.model->quantisation));
    }
  }
  text += "\n";
  if (answer.stored) {
    text += "\n" + stored_text(*answer.stored, terminal);
  }
  for (const LoadedWeights& each : answer.loaded) {
    text += "\n" + loaded_text(each, terminal);
  }
  return text;
}

Result<ExitCode> run_weights(const Arguments& arguments, const Context& context) {
  const Result<WeightsAnswer> answer = answer_weights(arguments);
  if (!answer) {
    return answer.error();
  }
  add_notes(context, answer->notes);
  context.out << (context.json ? weights_json(*answer, context.notes->lines)
                               : weights_text(*answer, context.terminal));
  return ExitCode::kYes;
}

}  // namespace

Command weights_command() {
  std::vector<OptionSpec> options;
  for (const OptionSpec& option : model_options()) {
    if (option.name == "as") {
      options.push_back(option);
    }
  }
  return {.verb = {.name = "weights",
                   .summary = "Says what a checkpoint's weights take, from its headers alone, and "
                              "what they take when they are loaded for inference",
                   .positionals = "MODEL",
                   .detail = "MODEL is what headroom fit takes, or weights without a config.json. "
                             "The first megabytes of a weight file are enough. Quantised "
                             "checkpoints are answered by their quantization_config.",
                   .options = std::move(options),
                   .example = "weights gpt-oss-20b",
                   .model_at = 0},
          .run = run_weights};
}

}  // namespace headroom::cli
