#include "cli/report/placement_text.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "cli/scalars.h"
#include "cli/terminal.h"
#include "model_ir/base/counted.h"
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

std::string action_words(const LayerAction& action, std::int64_t layers) {
  switch (action.kind) {
    case LayerAction::Kind::kKeep:
      return layers == 1 ? "keeps all" : "keep all";
    case LayerAction::Kind::kModules:
      return (layers == 1 ? "recomputes " : "recompute ") + names_joined(action.modules);
    case LayerAction::Kind::kFull:
      return layers == 1 ? "is recomputed" : "are recomputed";
    case LayerAction::Kind::kCopy:
      return layers == 1 ? "is copied to the host" : "are copied to the host";
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
              action_words(stage.actions[i], layers);
    }
  }
  return text;
}

double once(const StagePlacement& stage) {
  return stage.question.forward + stage.question.backward;
}

/// The lines of one stage, with one unit in each column.
class StageTable {
 public:
  explicit StageTable(const StagePlacement& stage) : stage_(stage) {
    double longest = stage.best ? stage.best->seconds - once(stage) : 0;
    auto largest = static_cast<double>(stage.question.budget);
    for (const PlacementRule& rule : stage.rules) {
      longest = std::max(longest, rule.seconds);
      largest = std::max(largest, static_cast<double>(rule.peak.value()));
    }
    times_ = unit_of_seconds(longest);
    sizes_ = unit_of_bytes(largest);
  }

  [[nodiscard]] std::string line(const std::string& name, double seconds, std::int64_t bytes,
                                 const std::string& note) const {
    constexpr std::size_t kName = 36;
    constexpr std::size_t kTime = 11;
    constexpr std::size_t kSize = 11;
    constexpr double kNothing = 1e-9;
    const Seconds longer{seconds > kNothing ? seconds : 0};
    return "  " + pad_right(name, kName) + pad_left("+" + table_figure(longer, times_), kTime) +
           pad_left(table_figure(Bytes{bytes}, sizes_), kSize) + (note.empty() ? "" : "  " + note) +
           "\n";
  }

  [[nodiscard]] std::string best_line(const std::string& name,
                                      const std::optional<Placement>& placement) const {
    return placement ? line(name, placement->seconds - once(stage_), placement->bytes,
                            count_words(stage_, *placement))
                     : "  " + name + ": nothing fits\n";
  }

 private:
  const StagePlacement& stage_;
  TableUnit times_;
  TableUnit sizes_;
};

constexpr double kSecondsLonger = 1e-9;  // Seconds; less is rounding.

/// Whether the plan takes longer than the optimum of the table.
bool is_slower(const StagePlacement& stage) {
  const auto plan =
      std::ranges::find(stage.rules, PlacementRule::Kind::kPlan, &PlacementRule::kind);
  return stage.best && plan != stage.rules.end() &&
         plan->seconds > stage.best->seconds - once(stage) + kSecondsLonger;
}

/// Whether an option of the framework takes as little time as the optimum: no recomputation, or a
/// row of the table.
bool has_option(const StagePlacement& stage) {
  const double longer = stage.best->seconds - once(stage);
  if (longer <= kSecondsLonger && stage.everything <= Bytes{stage.question.budget}) {
    return true;
  }
  return std::ranges::any_of(stage.rules, [longer](const PlacementRule& rule) {
    const bool option = rule.kind != PlacementRule::Kind::kEvery &&
                        rule.kind != PlacementRule::Kind::kChain &&
                        rule.kind != PlacementRule::Kind::kPlan;
    return option && rule.fits && rule.seconds <= longer + kSecondsLonger;
  });
}

/// Why an optimal plan does not have the optimum of the table; empty if it has.
std::string not_taken(const StagePlacement& stage, const PlacementContext& context) {
  if (!is_slower(stage) || context.result.status != plan::PlanStatus::kOptimal) {
    return {};
  }
  std::string why = "no option of the framework gives these layers";
  if (has_option(stage)) {
    const bool alone = context.result.best && context.result.best->plan.mesh.pipeline == 1;
    why = alone && context.result.rejected > 0
              ? "replayed with what PyTorch reserves, it fits with a chance below " +
                    percent_text(context.confidence)
              : "other stages, or what PyTorch reserves beyond these bytes, rule it out";
  }
  return "    " + wrap("not taken: " + why, context.width - 6, 4) + "\n";
}

/// Why the plan is slower than the optimum of the table, if it is: the table counts allocated
/// bytes, the search also replays the allocator and asks for a chance to fit.
std::string chance_note(const StagePlacement& stage, double confidence, std::size_t width) {
  if (!is_slower(stage)) {
    return {};
  }
  return "  " +
         wrap(
             "note: the rows count allocated bytes only. The plan was also replayed with what "
             "PyTorch reserves beyond them, and must fit with a chance of at least " +
                 percent_text(confidence) + ": a quicker row may fail that",
             width - 4, 2) +
         "\n";
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

std::string placement_lines(const std::vector<StagePlacement>& placements,
                            const PlacementContext& context) {
  const std::size_t width = context.width;
  std::string text;
  for (const StagePlacement& stage : placements) {
    text +=
        wrap("recomputation on pipeline stage " + std::to_string(stage.stage) + ": chunks of " +
                 counted(layers_of(stage), "layer") + "; at the peak, the activations of " +
                 counted(stage.question.passes, "pass", "passes") +
                 " are kept. Without recomputation, " + to_text(stage.everything) +
                 " are allocated at the peak; at most " + to_text(Bytes{stage.question.budget}) +
                 " may be.",
             width - 2, 2) +
        "\n  " +
        wrap("how much longer a micro-batch takes in a chunk, and what is allocated at the peak:",
             width - 4, 2) +
        "\n";
    const StageTable table(stage);
    text += table.best_line("optimum, layers in any order", stage.best);
    text += not_taken(stage, context);
    if (stage.best && stage.best_without_copies &&
        stage.best->seconds < stage.best_without_copies->seconds) {
      text += table.best_line("the same without copies", stage.best_without_copies);
    }
    for (const PlacementRule& rule : stage.rules) {
      const bool bound =
          rule.kind == PlacementRule::Kind::kEvery || rule.kind == PlacementRule::Kind::kChain;
      text += table.line(rule_words(rule), rule.seconds, rule.peak.value(),
                         std::string(rule.fits ? "" : "does not fit") +
                             (bound ? std::string(rule.fits ? "" : "; ") + "no option" : ""));
    }
    text += chance_note(stage, context.confidence, width);
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
