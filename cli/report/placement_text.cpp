#include "cli/report/placement_text.h"

#include <optional>
#include <utility>

#include "cli/scalars.h"
#include "cli/terminal.h"
#include "model_ir/json/json_writer.h"

namespace headroom::cli {
namespace {

using plan::LayerAction;
using plan::Placement;
using plan::PlacementRule;
using plan::StagePlacement;

/// "core_attn and mlp".
std::string names_joined(const std::vector<std::string>& modules) {
  std::string names;
  for (const std::string& name : modules) {
    names += (names.empty() ? "" : " and ") + name;
  }
  return names;
}

std::string action_words(const LayerAction& action) {
  switch (action.kind) {
    case LayerAction::Kind::kKeep:
      return "keep all";
    case LayerAction::Kind::kModules:
      return "run " + names_joined(action.modules) + " again";
    case LayerAction::Kind::kFull:
      return "run again";
    case LayerAction::Kind::kCopy:
      return "copied to the host";
  }
  return "";
}

std::string rule_words(const PlacementRule& rule) {
  const std::string number = std::to_string(rule.number);
  switch (rule.kind) {
    case PlacementRule::Kind::kPlan:
      return "as the plan has it";
    case PlacementRule::Kind::kModules:
      return "selective: " + names_joined(rule.modules);
    case PlacementRule::Kind::kUniform:
      return "uniform";
    case PlacementRule::Kind::kSquareRoot:
      return "uniform, groups of " + number + " (square root)";
    case PlacementRule::Kind::kBlock:
      return "block: first " + number;
    case PlacementRule::Kind::kEvery:
      return "one layer in " + number;
    case PlacementRule::Kind::kChain:
      return "whole layers, any schedule (chain)";
  }
  return "";
}

/// Number of layers for each option, summed over all kinds.
std::string count_words(const StagePlacement& stage, const Placement& placement) {
  std::string text;
  for (std::size_t i = 0; i < placement.counts.front().size(); ++i) {
    std::int64_t layers = 0;
    for (const std::vector<std::int64_t>& counts : placement.counts) {
      layers += counts[i];
    }
    if (layers > 0) {
      text += (text.empty() ? "" : ", ") + std::to_string(layers) + " " +
              action_words(stage.actions[i]);
    }
  }
  return text;
}

double once(const StagePlacement& stage) {
  return stage.question.forward + stage.question.backward;
}

std::string line(const std::string& name, double seconds, std::int64_t bytes,
                 const std::string& note) {
  constexpr std::size_t kName = 38;
  constexpr std::size_t kFigure = 12;
  return "  " + pad_right(name, kName) +
         pad_left("+" + (seconds > 1e-9 ? duration_text(seconds) : std::string("0 s")), kFigure) +
         pad_left(to_text(Bytes{bytes}), kFigure) + (note.empty() ? "" : "  " + note) + "\n";
}

std::string best_line(const StagePlacement& stage, const std::string& name,
                      const std::optional<Placement>& placement) {
  return placement ? line(name, placement->seconds - once(stage), placement->bytes,
                          count_words(stage, *placement))
                   : "  " + name + ": nothing fits\n";
}

ir::JsonValue best_json(const StagePlacement& stage, const std::optional<Placement>& placement) {
  if (!placement) {
    return {};
  }
  ir::JsonFields fields;
  fields.add("extra_seconds", placement->seconds - once(stage));
  fields.add("peak_bytes", placement->bytes);
  fields.add("layers", count_words(stage, *placement));
  return std::move(fields).finish();
}

ir::JsonValue rule_json(const PlacementRule& rule) {
  ir::JsonFields fields;
  fields.add("rule", rule_words(rule));
  fields.add("extra_seconds", rule.seconds);
  fields.add("peak_bytes", rule.peak);
  fields.add("fits", rule.fits);
  return std::move(fields).finish();
}

std::int64_t layers_of(const StagePlacement& stage) {
  std::int64_t layers = 0;
  for (const plan::LayerKind& kind : stage.question.kinds) {
    layers += kind.layers;
  }
  return layers;
}

}  // namespace

std::string placement_lines(const std::vector<StagePlacement>& placements) {
  std::string text;
  for (const StagePlacement& stage : placements) {
    text += "recomputation on pipeline stage " + std::to_string(stage.stage) + ": chunks of " +
            std::to_string(layers_of(stage)) + " layers, " + std::to_string(stage.question.passes) +
            " passes kept at the peak; everything kept takes " + to_text(stage.everything) +
            " of " + to_text(Bytes{stage.question.budget}) + "\n" +
            "  (a micro-batch through a chunk takes so much longer; peak while they run)\n";
    text += best_line(stage, "optimum, layers in any order", stage.best);
    if (stage.best && stage.best_without_copies &&
        stage.best->seconds < stage.best_without_copies->seconds) {
      text += best_line(stage, "the same without copies", stage.best_without_copies);
    }
    for (const PlacementRule& rule : stage.rules) {
      const bool bound =
          rule.kind == PlacementRule::Kind::kEvery || rule.kind == PlacementRule::Kind::kChain;
      text += line(rule_words(rule), rule.seconds, rule.peak.value(),
                   std::string(rule.fits ? "" : "does not fit") +
                       (bound ? std::string(rule.fits ? "" : "; ") + "no switch says it" : ""));
    }
  }
  return text;
}

ir::JsonValue placement_json(const std::vector<StagePlacement>& placements) {
  ir::JsonValue::Array array;
  for (const StagePlacement& stage : placements) {
    ir::JsonFields fields;
    fields.add("stage", stage.stage);
    fields.add("chunk_layers", layers_of(stage));
    fields.add("passes", stage.question.passes);
    fields.add("budget_bytes", stage.question.budget);
    fields.add("everything_bytes", stage.everything);
    fields.add("optimum", best_json(stage, stage.best));
    fields.add("optimum_without_copies", best_json(stage, stage.best_without_copies));
    ir::JsonValue::Array rules;
    for (const PlacementRule& rule : stage.rules) {
      rules.push_back(rule_json(rule));
    }
    fields.add("rules", ir::JsonValue{std::move(rules)});
    array.push_back(std::move(fields).finish());
  }
  return ir::JsonValue{std::move(array)};
}

}  // namespace headroom::cli
