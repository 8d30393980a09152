#include "runtimes/transformers/saved_modules.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "model_ir/plan/plan_words.h"
#include "model_ir/spec/recording/recording.h"
#include "model_ir/spec/task.h"
#include "runtimes/torch/launch.h"
#include "runtimes/transformers/modeling.h"

namespace headroom::ir::transformers {
namespace {

using torch::Tensor;

/// The module that reads T5's `shared` table.
constexpr std::string_view kEncoderTable = "encoder.embed_tokens";
constexpr std::string_view kDecoderTable = "decoder.embed_tokens";

/// "model.layers.0.self_attn.q_proj" of "model.layers.0.self_attn.q_proj.weight".
std::string_view module_path(std::string_view parameter) {
  return parameter.substr(0, parameter.rfind('.'));
}

std::string_view last_part(std::string_view path) {
  return path.substr(path.rfind('.') + 1);
}

/// PeftModelForSequenceClassification and similar classes add the head to modules_to_save.
/// Source: huggingface/peft src/peft/peft_model.py.
bool saves_head(const ModelSpec& spec) {
  return spec.task != Task::kLanguage;
}

/// The modules that hold the labels' scores, which may hold others (RobertaClassificationHead).
/// Source: huggingface/peft 0.21 src/peft/peft_model.py, classifier_module_names.
constexpr std::array<std::string_view, 2> kClassifiers = {"classifier", "score"};

/// Whether `accepts` the path of the module or of one that it lies in.
template <typename Accepts>
bool lies_in(std::string_view path, Accepts accepts) {
  for (std::size_t end = path.find('.'); end != std::string_view::npos;
       end = path.find('.', end + 1)) {
    if (accepts(path.substr(0, end))) {
      return true;
    }
  }
  return accepts(path);
}

/// Source: huggingface/peft 0.21 src/peft/utils/other.py, _set_trainable.
bool is_recorded_classifier(const ModelSpec& spec, std::string_view path) {
  return saves_head(spec) && lies_in(path, [](std::string_view module) {
           return std::ranges::any_of(
               kClassifiers, [module](std::string_view name) { return module.ends_with(name); });
         });
}

bool names(const ModelSpec& spec, const LoraPlan& lora, std::string_view path) {
  if (spec.recording) {
    return is_recorded_classifier(spec, path) || lies_in(path, [&](std::string_view module) {
             return std::ranges::any_of(lora.modules_to_save, [module](const std::string& name) {
               return module.ends_with(name);
             });
           });
  }
  return (saves_head(spec) && path == head_module(spec)) ||
         std::any_of(lora.modules_to_save.begin(), lora.modules_to_save.end(),
                     [&](const std::string& name) { return path.ends_with(name); });
}

bool has_tied_head(const ModelSpec& spec) {
  return spec.tied_embeddings && spec.architecture != Architecture::kMaskedLm;
}

/// A module of a recorded model that reads a parameter, which may be tied to that of another.
struct RecordedReader {
  TensorId parameter;
  std::string_view path;
  ParameterReader reader;
};

/// All of them, each parameter with its own module first.
std::vector<RecordedReader> recorded_readers(const ModelSpec& spec, const Graph& graph) {
  std::set<std::string_view> heads;
  for (std::size_t node = 0; node < graph.op_count(); ++node) {
    const Op& op = graph.op(NodeId{static_cast<std::uint32_t>(node)});
    if (op.role == OpRole::kHead) {
      heads.insert(graph.tensor(op.outputs[0]).name);
    }
  }
  std::vector<RecordedReader> readers;
  const auto add = [&](std::size_t index, std::string_view name) {
    const std::string_view path = module_path(name);
    readers.push_back(
        {.parameter = TensorId{static_cast<std::uint32_t>(index)},
         .path = path,
         .reader = heads.contains(path) ? ParameterReader::kHead : ParameterReader::kModule});
  };
  for (std::size_t i = 0; i < spec.recording->parameters.size(); ++i) {
    const RecordedParameter& parameter = spec.recording->parameters[i];
    add(i, parameter.name);
    for (const std::string& other : parameter.other_names) {
      add(i, other);
    }
  }
  return readers;
}

/// The last parts of the names of all modules that hold parameters.
std::set<std::string> known_modules(const ModelSpec& spec, const Graph& graph) {
  std::set<std::string> known;
  if (spec.recording) {
    for (const RecordedReader& each : recorded_readers(spec, graph)) {
      lies_in(each.path, [&known](std::string_view module) {
        known.emplace(last_part(module));
        return false;
      });
    }
    return known;
  }
  for (const TensorId id : graph.parameters()) {
    known.emplace(last_part(module_path(graph.tensor(id).name)));
  }
  if (has_tied_head(spec)) {
    known.emplace(head_module(spec));
  }
  if (spec.encoder) {
    known.emplace(last_part(kEncoderTable));
  }
  return known;
}

/// Under zero.Init, the original is gathered to be copied, and rank 0 broadcasts it in case it has
/// changed. Source: huggingface/peft src/peft/utils/other.py, ModulesToSaveWrapper.update;
/// deepspeed/runtime/zero/partition_parameters.py, GatheredParameters.
Tensor copy_of(torch::Eager& eager, const Model& model, const Tensor& original) {
  if (original->storage != nullptr) {
    return eager.parameter(original.shape(), original.dtype(), true);
  }
  const std::int64_t world = model.plan->world;
  const Tensor gathered = eager.empty({align_up(original.elements(), world)}, original.dtype(),
                                      TensorRole::kCommunication);
  eager.run(CollectiveShape{.kind = CollectiveKind::kAllGather,
                            .bytes = torch::bytes_of(gathered),
                            .group = {.size = world}});
  Tensor copy = eager.parameter(original.shape(), original.dtype(), true);
  eager.run(CollectiveShape{.kind = CollectiveKind::kBroadcast,
                            .bytes = torch::bytes_of(copy),
                            .group = {.size = world}});
  return copy;
}

/// Copies the parameters of the modules of a recorded model whose path `chosen` takes.
void copy_recorded(torch::Eager& eager, Model& model,
                   const std::function<bool(std::string_view path)>& chosen) {
  for (const RecordedReader& each : recorded_readers(*model.spec, *model.graph)) {
    const auto id = static_cast<std::uint32_t>(each.parameter);
    if (!chosen(each.path) || model.quantised.contains(id) ||
        model.retrained.contains({id, each.reader})) {
      continue;
    }
    const Tensor copy = copy_of(eager, model, model.parameters[id]);
    model.retrained[{id, each.reader}] = copy;
    model.parameter_count += copy.elements();
  }
}

}  // namespace

std::vector<std::pair<TensorId, ParameterReader>> reading_modules(const Model& model) {
  const TensorId table = model.graph->parameters().front();
  const auto& encoder = model.spec->encoder;
  std::vector<std::pair<TensorId, ParameterReader>> modules;
  bool decodes = false;
  for (const TensorId id : model.graph->parameters()) {
    if (encoder && !decodes && model.graph->tensor(id).layer >= encoder->layers) {
      decodes = true;
      modules.emplace_back(table, ParameterReader::kDecoder);
    }
    modules.emplace_back(id, ParameterReader::kModule);
    if (encoder && id == table) {
      modules.emplace_back(table, ParameterReader::kEncoder);
    }
  }
  for (const TensorId id : model.graph->parameters()) {
    modules.emplace_back(id, ParameterReader::kHead);
  }
  return modules;
}

bool is_saved_module(const ModelSpec& spec, const LoraPlan& lora, std::string_view parameter) {
  const std::string_view path = module_path(parameter);
  const std::string_view module = last_part(path);
  if (spec.recording) {
    return lies_in(path, [&](std::string_view outer) {
      const std::string_view name = last_part(outer);
      const bool classifies =
          saves_head(spec) && std::ranges::find(kClassifiers, name) != kClassifiers.end();
      return classifies ||
             std::ranges::find(lora.modules_to_save, name) != lora.modules_to_save.end();
    });
  }
  return (saves_head(spec) && module == head_module(spec)) ||
         std::find(lora.modules_to_save.begin(), lora.modules_to_save.end(), module) !=
             lora.modules_to_save.end();
}

bool is_copied_module(const ModelSpec& spec, const LoraPlan& lora, std::string_view parameter) {
  return names(spec, lora, module_path(parameter));
}

std::optional<Error> missing_saved_modules(const ModelSpec& spec, const Graph& graph,
                                           const LoraPlan& lora) {
  const std::set<std::string> known = known_modules(spec, graph);
  for (const std::string& name : lora.modules_to_save) {
    const bool found = std::any_of(known.begin(), known.end(), [&](const std::string& module) {
      return module.ends_with(last_part(name));
    });
    if (!found) {
      const std::vector<std::string> list(known.begin(), known.end());
      return Error::invalid_argument("lora", "modules_to_save=" + name,
                                     "names of modules that hold parameters: " + join(list),
                                     suggestion(name, list));
    }
  }
  return std::nullopt;
}

void add_saved_modules(torch::Eager& eager, Model& model, const LoraPlan& lora) {
  const ModelSpec& spec = *model.spec;
  if (lora.modules_to_save.empty() && !saves_head(spec)) {
    return;
  }
  eager.set_site("lora.modules_to_save", -1);
  if (spec.recording) {
    copy_recorded(eager, model, [&](std::string_view path) {
      const bool later =
          spec.task == Task::kTokenClassification && is_recorded_classifier(spec, path);
      return !later && names(spec, lora, path);
    });
    return;
  }
  const TensorId table = model.graph->parameters().front();  // The embedding comes first.
  const auto save = [&](TensorId id, ParameterReader reader) {
    const bool scales = reader == ParameterReader::kModule && id == table &&
                        !model.buffers.empty() && model.buffers.front().elements() == 1;
    const Tensor copy = copy_of(eager, model, model.parameters[index_of(id)]);
    model.retrained[{static_cast<std::uint32_t>(id), reader}] = copy;
    model.parameter_count += copy.elements();
    if (scales) {  // The factor of the embedding's rows is a buffer of its module.
      model.buffers.insert(model.buffers.begin(),
                           eager.empty({}, copy.dtype(), TensorRole::kBuffer));
      const Tensor moved = eager.empty({}, copy.dtype(), TensorRole::kTemporary);
    }
  };
  for (const auto& [id, reader] : reading_modules(model)) {
    if (reader == ParameterReader::kHead) {
      continue;
    }
    const std::string_view path = reader == ParameterReader::kEncoder ? kEncoderTable
                                  : reader == ParameterReader::kDecoder
                                      ? kDecoderTable
                                      : module_path(model.graph->tensor(id).name);
    const bool head = path == head_module(spec);
    const bool later = spec.task == Task::kTokenClassification && head;
    if (!later && names(spec, lora, path) &&
        !model.quantised.contains(static_cast<std::uint32_t>(id))) {
      save(id, head ? ParameterReader::kHead : reader);
    }
  }
  if (has_tied_head(spec) && names(spec, lora, head_module(spec))) {
    save(table, ParameterReader::kHead);
  }
}

void add_token_head(torch::Eager& eager, Model& model) {
  const ModelSpec& spec = *model.spec;
  if (spec.task != Task::kTokenClassification) {
    return;
  }
  if (spec.recording) {
    copy_recorded(eager, model,
                  [&](std::string_view path) { return is_recorded_classifier(spec, path); });
    return;
  }
  for (const TensorId id : model.graph->parameters()) {
    if (module_path(model.graph->tensor(id).name) == head_module(spec)) {
      const Tensor copy = copy_of(eager, model, model.parameters[index_of(id)]);
      model.retrained[{static_cast<std::uint32_t>(id), ParameterReader::kHead}] = copy;
      model.parameter_count += copy.elements();
    }
  }
}

}  // namespace headroom::ir::transformers
