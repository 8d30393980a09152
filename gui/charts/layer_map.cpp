#include "gui/charts/layer_map.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "costmodel/time/item_parts.h"
#include "gui/models/alive_tensors.h"
#include "runtimes/interface/common_options.h"
#include "runtimes/plan_check.h"
#include "runtimes/plan_parts.h"
#include "runtimes/registry.h"

namespace headroom::gui {
namespace {

LayerTreatment treatment_of(const ir::RecomputedParts& parts) {
  if (parts.on_host) {
    return LayerTreatment::kOffload;
  }
  if (parts.layer) {
    return LayerTreatment::kFull;
  }
  return parts.attention || parts.mlp ? LayerTreatment::kSelective : LayerTreatment::kKeep;
}

/// The stage of each layer.
///
/// Model:   the framework says how many layers a stage has, or all have the same. Chunks of an
///          interleaved schedule go round the stages; those of a V-shaped one go there and back.
std::vector<std::int64_t> stages_of(const ir::ModelSpec& model, const ir::ParallelPlan& plan,
                                    std::int64_t stages) {
  const auto layers = static_cast<std::int64_t>(model.layers.size());
  std::vector<std::int64_t> found(model.layers.size(), 0);
  if (stages <= 1) {
    return found;
  }
  const ir::Runtime& runtime = ir::runtime_of(plan);
  const ir::PipelineShape shape = runtime.schedule(model, plan);
  const std::int64_t chunks = std::max<std::int64_t>(1, ir::chunks_of(shape));
  const std::vector<ir::StageLayers> own = runtime.stage_layers(model, plan);
  if (chunks == 1 && !own.empty()) {
    std::size_t layer = 0;
    for (std::size_t stage = 0; stage < own.size(); ++stage) {
      for (std::int64_t i = 0; i < own[stage].all && layer < found.size(); ++i) {
        found[layer++] = static_cast<std::int64_t>(stage);
      }
    }
    return found;
  }
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const std::int64_t piece = layer * stages * chunks / std::max<std::int64_t>(1, layers);
    const std::int64_t chunk = piece / stages;
    const std::int64_t place = piece % stages;
    const bool back = ir::is_v_shaped(shape.kind) && chunk % 2 == 1;
    found[static_cast<std::size_t>(layer)] = back ? stages - 1 - place : place;
  }
  return found;
}

/// Whether an option says which layers' activations are copied to the host.
bool is_about_offload(const ir::OptionField& field) {
  const auto has = [&field](std::string_view text) {
    return field.name.find(text) != std::string_view::npos;
  };
  return has("offload") && (has("layers") || has("activations"));
}

/// Whether an option says which layers run again or go to the host.
bool is_about_layers(const ir::OptionField& field) {
  return field.name == "checkpointing" || field.name.starts_with("recompute") ||
         is_about_offload(field);
}

std::vector<const ir::PlanPart*> parts_of_plan(const ir::ParallelPlan& plan) {
  std::vector<const ir::PlanPart*> parts = {&ir::plan_options()};
  for (const ir::PlanPart* const part : ir::framework_parts()) {
    if (part->runtime == plan.runtime && part->has(plan)) {
      parts.push_back(part);
    }
  }
  return parts;
}

/// Whether a word of the framework says that parts of every layer run again, also parts that
/// `ir::PlanExecution` has no word for.
bool says_selective(const ir::ParallelPlan& plan) {
  for (const ir::PlanPart* const part : parts_of_plan(plan)) {
    for (const ir::OptionField& field : part->fields) {
      const bool about = !part->runtime.empty() && is_about_layers(field);
      const ir::JsonValue value = about ? field.get(plan) : ir::JsonValue();
      if (value.as_string() != nullptr && *value.as_string() == "selective") {
        return true;
      }
    }
  }
  return false;
}

/// Values that are tried for an option.
std::vector<ir::JsonValue> values_of(const ir::OptionField& field, std::int64_t layers) {
  std::vector<ir::JsonValue> values;
  const std::vector<std::string> words =
      field.words != nullptr ? field.words() : std::vector<std::string>();
  switch (field.kind) {
    case ir::OptionKind::kWord:
      for (const std::string& word : words) {
        values.emplace_back(word);
      }
      break;
    case ir::OptionKind::kNames:
      for (const std::string& word : words) {
        values.emplace_back(ir::JsonValue::Array{ir::JsonValue{word}});
      }
      break;
    case ir::OptionKind::kSwitch:
      values.emplace_back(true);
      break;
    case ir::OptionKind::kWhole:
      for (std::int64_t number = 1; number <= layers; ++number) {
        values.emplace_back(number);
      }
      break;
    default:
      break;
  }
  return values;
}

/// Collects plans whose treatments differ.
class Variants {
 public:
  explicit Variants(const ir::ModelSpec& model) : model_(model) {}

  void add(const ir::ParallelPlan& plan) {
    if (!ir::check_plan(model_, plan)) {
      return;
    }
    std::vector<LayerTreatment> treatments;
    for (const LayerCell& cell : layer_map(model_, plan).cells) {
      treatments.push_back(cell.treatment);
    }
    found_.try_emplace(treatments, plan);  // The first plan is the simplest.
  }
  [[nodiscard]] std::vector<LayerVariant> take() {
    std::vector<LayerVariant> all;
    for (auto& [treatments, plan] : found_) {
      all.push_back({.plan = std::move(plan), .treatments = treatments});
    }
    return all;
  }

 private:
  const ir::ModelSpec& model_;
  std::map<std::vector<LayerTreatment>, ir::ParallelPlan> found_;
};

void add_common(const ir::ParallelPlan& plan, std::int64_t layers, Variants& variants) {
  ir::ParallelPlan with = plan;
  with.recompute = ir::Recompute::kNone;
  with.recompute_every = 1;
  with.recompute_first = 0;
  variants.add(with);
  with.recompute =
      plan.recompute == ir::Recompute::kFullReentrant ? plan.recompute : ir::Recompute::kFull;
  variants.add(with);
  constexpr std::int64_t kMostEvery = 4;
  for (with.recompute_every = 2; with.recompute_every <= kMostEvery; ++with.recompute_every) {
    variants.add(with);
  }
  with.recompute_every = 1;
  for (with.recompute_first = 1; with.recompute_first < layers; ++with.recompute_first) {
    variants.add(with);
  }
}

/// `plan` with the options of `part` about layers at their defaults.
ir::ParallelPlan without_own(const ir::ParallelPlan& plan, const ir::PlanPart& part) {
  ir::ParallelPlan with = plan;
  for (const ir::OptionField& field : part.fields) {
    if (is_about_layers(field)) {
      static_cast<void>(field.set(with, field.get(part.usual())));
    }
  }
  return with;
}

/// Every word of the framework's options with every value of the others, one at a time.
void add_own(const ir::ParallelPlan& plan, std::int64_t layers, Variants& variants) {
  for (const ir::PlanPart* const part : parts_of_plan(plan)) {
    for (const ir::OptionField& field : part->fields) {
      if (part->runtime.empty() || !is_about_layers(field) || field.kind != ir::OptionKind::kWord) {
        continue;
      }
      for (const ir::JsonValue& word : values_of(field, layers)) {
        ir::ParallelPlan with = without_own(plan, *part);
        if (!field.set(with, word)) {
          continue;
        }
        variants.add(with);
        for (const ir::OptionField& other : part->fields) {
          if (!is_about_layers(other) || other.name == field.name) {
            continue;
          }
          for (const ir::JsonValue& value : values_of(other, layers)) {
            ir::ParallelPlan both = with;
            if (other.set(both, value)) {
              variants.add(both);
            }
          }
        }
      }
    }
  }
}

/// Plans that copy the activations of layers to the host: nothing runs again besides, or whole
/// layers do, because some frameworks only copy what checkpointed layers keep.
void add_offload(const ir::ParallelPlan& plan, std::int64_t layers, Variants& variants) {
  for (const ir::PlanPart* const part : parts_of_plan(plan)) {
    for (const ir::OptionField& field : part->fields) {
      if (part->runtime.empty() || !is_about_offload(field)) {
        continue;
      }
      ir::ParallelPlan with = without_own(plan, *part);
      with.recompute_every = 1;
      with.recompute_first = 0;
      for (const ir::Recompute recompute : {ir::Recompute::kNone, ir::Recompute::kFull}) {
        with.recompute = recompute;
        for (const ir::JsonValue& value : values_of(field, layers)) {
          ir::ParallelPlan offloading = with;
          if (field.set(offloading, value)) {
            variants.add(offloading);
          }
        }
      }
    }
  }
}

}  // namespace

LayerMap layer_map(const ir::ModelSpec& model, const ir::ParallelPlan& plan) {
  const ir::Runtime& runtime = ir::runtime_of(plan);
  const ir::PlanExecution execution = runtime.execution(model, plan);
  LayerMap map;
  map.stages = std::max<std::int64_t>(1, runtime.pipeline(plan).stages);
  const std::vector<std::int64_t> stages = stages_of(model, plan, map.stages);
  const bool selective = says_selective(plan);
  for (std::size_t layer = 0; layer < model.layers.size(); ++layer) {
    LayerCell cell{.layer = static_cast<std::int64_t>(layer), .stage = stages[layer]};
    if (layer < execution.layers.size()) {
      cell.treatment = treatment_of(execution.layers[layer]);
    }
    if (selective && cell.treatment == LayerTreatment::kKeep) {
      cell.treatment = LayerTreatment::kSelective;
    }
    if (execution.activations_on_host) {
      cell.treatment = LayerTreatment::kOffload;
    }
    map.cells.push_back(cell);
  }
  return map;
}

void add_costs(LayerMap& map, const cost::StepEstimate& estimate, const cost::ProgramTime* time) {
  const ir::RankProgram& program = estimate.program;
  const auto cell_at = [&](std::uint32_t site) -> LayerCell* {
    const std::int32_t layer = site < program.sites.size() ? program.sites[site].layer : -1;
    const bool known = layer >= 0 && static_cast<std::size_t>(layer) < map.cells.size();
    return known ? &map.cells[static_cast<std::size_t>(layer)] : nullptr;
  };
  for (const ir::Event& event : program.events) {  // Layers of other ranks have no events here.
    LayerCell* const cell = event.kind == ir::EventKind::kAllocate ? cell_at(event.site) : nullptr;
    if (cell != nullptr && !cell->kept) {
      cell->kept = Bytes{0};
    }
  }
  for (const AliveTensor& tensor : alive_tensors(estimate, estimate.peak_site.event)) {
    LayerCell* const cell = cell_at(tensor.site);
    if (cell != nullptr && tensor.role == ir::TensorRole::kActivation) {
      cell->kept = cell->kept.value_or(Bytes{0}) + tensor.size;
    }
  }
  const std::vector<ir::WorkItem>& items = program.work.items;
  const std::vector<cost::StepPart> parts = cost::item_parts(program);
  for (std::size_t i = 0; i < items.size(); ++i) {
    LayerCell* const cell =
        items[i].kind == ir::WorkItem::Kind::kRun ? cell_at(items[i].site) : nullptr;
    if (cell == nullptr) {
      continue;
    }
    const bool in_step = time != nullptr && i >= time->last_step.first && i < time->last_step.last;
    if (in_step && parts[i] == cost::StepPart::kRecompute) {
      cell->again += time->timeline.end[i] - time->timeline.begin[i];
    }
    const auto* const copy = std::get_if<ir::CopyShape>(&program.work.shapes[items[i].index]);
    const bool in_forward = !program.sites[items[i].site].backward;
    if (copy != nullptr && copy->kind == ir::CopyKind::kDeviceToHost && in_forward &&
        cell->treatment == LayerTreatment::kKeep) {
      cell->treatment = LayerTreatment::kOffload;
    }
  }
}

std::vector<LayerVariant> layer_variants(const ir::ModelSpec& model, const ir::ParallelPlan& plan) {
  const auto layers = static_cast<std::int64_t>(model.layers.size());
  Variants variants(model);
  variants.add(plan);
  add_common(plan, layers, variants);
  add_own(plan, layers, variants);
  add_offload(plan, layers, variants);
  return variants.take();
}

const LayerVariant* nearest_variant(const std::vector<LayerVariant>& variants, const LayerMap& map,
                                    std::int64_t layer, LayerTreatment treatment) {
  const LayerVariant* best = nullptr;
  std::size_t fewest = 0;
  for (const LayerVariant& variant : variants) {
    const auto at = static_cast<std::size_t>(layer);
    if (at >= variant.treatments.size() || variant.treatments[at] != treatment) {
      continue;
    }
    std::size_t changes = 0;
    for (std::size_t i = 0; i < variant.treatments.size() && i < map.cells.size(); ++i) {
      changes += variant.treatments[i] != map.cells[i].treatment ? 1U : 0U;
    }
    if (best == nullptr || changes < fewest) {
      best = &variant;
      fewest = changes;
    }
  }
  return best;
}

ir::ParallelPlan with_recomputation_of(ir::ParallelPlan plan, const ir::ParallelPlan& other) {
  for (const ir::PlanPart* const part : parts_of_plan(plan)) {
    for (const ir::OptionField& field : part->fields) {
      if (is_about_layers(field)) {
        static_cast<void>(field.set(plan, field.get(other)));
      }
    }
  }
  return plan;
}

}  // namespace headroom::gui
