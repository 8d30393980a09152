#include "gui/models/option_rows.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <limits>
#include <string_view>
#include <utility>

#include <QCoreApplication>
#include <QLocale>
#include <QStringList>

#include "gui/models/words.h"
#include "gui/whatif/scenario.h"
#include "planner/space/all_axes.h"
#include "runtimes/interface/common_options.h"
#include "runtimes/plan_parts.h"
#include "runtimes/registry.h"
#include "runtimes/typed/option_text.h"

namespace headroom::gui {
namespace {

QString option_words(const char* text) {
  return QCoreApplication::translate("Option", text);
}

QString translated(std::string_view text) {
  return option_words(std::string(text).c_str());
}

/// "PyTorch FSDP" for "PyTorch FSDP. More about it.": the first sentence without its full stop.
QString first_sentence(std::string_view text) {
  const std::size_t end = text.find(". ");
  text = text.substr(0, end);
  if (text.ends_with('.')) {
    text.remove_suffix(1);
  }
  return translated(text);
}

QString label_of(const ir::OptionField& field) {
  return field.label.empty() ? words_of_name(field.name) : translated(field.label);
}

/// The text that a user types for the option: "--fsdp replicas=N", "--micro-batch B"; empty for an
/// option that only files set.
QString typed_name(const ir::PlanPart& part, const ir::OptionField& field) {
  if (field.option.empty()) {
    return {};
  }
  QString text = QStringLiteral("--") + text_of(field.option);
  if (field.in_spec) {
    text += QLatin1Char(' ') + QString::fromStdString(ir::key_help(part, field));
  } else if (!field.shown_as.empty()) {
    text += QLatin1Char(' ') + text_of(field.shown_as);
  }
  return text;
}

QString default_of(const ir::PlanPart& part, const ir::OptionField& field) {
  if (!field.fallback.empty()) {
    return translated(field.fallback);
  }
  return shown_value(field, part.usual());
}

QString help_of(const ir::PlanPart& part, const ir::OptionField& field) {
  QStringList lines = {translated(field.help)};
  if (const QString usual = default_of(part, field); !usual.isEmpty()) {
    lines.append(option_words("Default: %1").arg(usual));
  }
  if (const QString typed = typed_name(part, field); !typed.isEmpty()) {
    lines.append(option_words("Option: %1").arg(typed));
  }
  if (!field.own.name.empty()) {
    lines.append(option_words("The framework calls it %1").arg(text_of(field.own.name)));
  }
  return lines.join(QLatin1Char('\n'));
}

/// Other values of an option than that of `plan`, enough to see what depends on it.
std::vector<ir::JsonValue> other_values(const ir::OptionField& field,
                                        const ir::ParallelPlan& plan) {
  const ir::JsonValue now = field.get(plan);
  std::vector<ir::JsonValue> values;
  if (field.words != nullptr) {
    for (const std::string& word : field.words()) {
      values.push_back(field.kind == ir::OptionKind::kNames
                           ? ir::JsonValue{ir::JsonValue::Array{ir::JsonValue{word}}}
                           : ir::JsonValue{word});
    }
  } else if (field.kind == ir::OptionKind::kSwitch) {
    values.emplace_back(!now.as_bool().value_or(false));
  } else if (field.kind == ir::OptionKind::kWhole) {
    const std::int64_t number = now.as_integer().value_or(0);
    values.emplace_back(number < std::numeric_limits<std::int64_t>::max() ? number + 1 : 0);
  } else if (field.kind == ir::OptionKind::kReal) {
    constexpr double kHalf = 0.5;
    values.emplace_back(kHalf);
  } else if (!field.examples.empty()) {
    for (const QString& text : text_of(field.examples).split(QLatin1Char(' '))) {
      values.emplace_back(text.toStdString());
    }
  }
  std::erase_if(values,
                [&field](const ir::JsonValue& value) { return !ir::accepts(field, value); });
  return values;
}

/// A plan of a framework, and its value on every axis of the search.
struct AxisValues {
  ir::ParallelPlan plan;
  std::vector<std::pair<plan::Axis, std::int64_t>> values;
};

AxisValues axis_values(const ir::Runtime& runtime) {
  Scenario usual = default_scenario();
  constexpr std::int64_t kSomeRanks = 8;
  usual.plan.world = kSomeRanks;
  AxisValues found{.plan = moved_to(std::move(usual), std::string(runtime.name())).plan,
                   .values = {}};
  for (const plan::Axis axis : plan::all_axes()) {
    found.values.emplace_back(axis, plan::value_of(found.plan, axis));
  }
  return found;
}

/// The axis whose value depends on the option; empty if there is none.
std::string axis_of(const ir::OptionField& field, const AxisValues& usual) {
  for (const ir::JsonValue& value : other_values(field, usual.plan)) {
    ir::ParallelPlan changed = usual.plan;
    if (!field.set(changed, value)) {
      continue;
    }
    for (const auto& [axis, before] : usual.values) {
      if (plan::value_of(changed, axis) != before) {
        return std::string(plan::option_of(axis));
      }
    }
  }
  return {};
}

OptionRow row_of(const ir::PlanPart& part, const ir::OptionField& field) {
  OptionRow row;
  row.part = &part;
  row.field = &field;
  row.id = std::string(part.name) + "." + std::string(field.name);
  row.label = label_of(field);
  row.help = help_of(part, field);
  row.words = QStringList({row.label, text_of(field.name), text_of(field.option),
                           text_of(field.key), text_of(field.own.name), translated(field.help)})
                  .join(QLatin1Char(' '))
                  .toLower();
  return row;
}

/// The framework and the number of GPUs stand in the window's first section.
bool stands_elsewhere(const ir::OptionField& field) {
  return field.option == "runtime" || field.option == "gpus";
}

OptionGroup group_of(const ir::PlanPart& part) {
  OptionGroup group;
  group.part = &part;
  group.id = part.name;
  group.title = first_sentence(part.title);
  group.of_framework = !part.runtime.empty();
  for (const ir::OptionField& field : part.fields) {
    if (!stands_elsewhere(field)) {
      group.rows.push_back(row_of(part, field));
    }
  }
  return group;
}

OptionGroup optional_group(const ir::PlanPart& part, const QString& title, const QString& label) {
  OptionGroup group = group_of(part);
  group.title = title;
  group.switch_label = label;
  return group;
}

/// The options that every framework understands, with the optimizer after the options that are at
/// hand.
OptionGroup training_group() {
  OptionGroup group = group_of(ir::plan_options());
  group.title = option_words("Training");
  const auto rest = std::stable_partition(group.rows.begin(), group.rows.end(),
                                          [](const OptionRow& row) { return row.field->at_hand; });
  std::vector<OptionRow> optimizer;
  for (const ir::OptionField& field : ir::optimizer_options().fields) {
    optimizer.push_back(row_of(ir::optimizer_options(), field));
  }
  group.rows.insert(rest, std::make_move_iterator(optimizer.begin()),
                    std::make_move_iterator(optimizer.end()));
  return group;
}

void compare_fields(const ir::PlanPart& part, const ir::ParallelPlan& before,
                    const ir::ParallelPlan& after, std::vector<OptionChange>& changes) {
  const ir::ParallelPlan& left = part.has(before) ? before : part.usual();
  const ir::ParallelPlan& right = part.has(after) ? after : part.usual();
  for (const ir::OptionField& field : part.fields) {
    if (!field.same(left, right)) {
      changes.push_back({label_of(field), shown_value(field, left), shown_value(field, right)});
    }
  }
}

}  // namespace

QString words_of_name(std::string_view name) {
  static constexpr std::array<std::string_view, 13> kCapitals = {
      "gpus", "fp8", "bf16", "fp32", "cpu", "nvme", "moe", "mtp", "tp", "pp", "dp", "cp", "gemm"};
  QStringList words = text_of(name).split(QLatin1Char('_'));
  for (QString& word : words) {
    const std::string plain = word.toStdString();
    if (std::ranges::find(kCapitals, plain) != kCapitals.end()) {
      word = word.toUpper();
    }
  }
  QString text = words.join(QLatin1Char(' '));
  text[0] = text[0].toUpper();
  return text;
}

QString shown_value(const ir::OptionField& field, const ir::ParallelPlan& plan) {
  const ir::JsonValue value = field.get(plan);
  const QLocale locale;
  if (value.is_null()) {
    return option_words("none");
  }
  switch (field.kind) {
    case ir::OptionKind::kSwitch:
      return *value.as_bool() ? option_words("yes") : option_words("no");
    case ir::OptionKind::kWhole: {
      const QString number = locale.toString(static_cast<qlonglong>(*value.as_integer()));
      if (field.unit.empty()) {
        return number;
      }
      const QString unit = translated(field.unit);
      const bool one = *value.as_integer() == 1 && unit.endsWith(QLatin1Char('s'));
      return number + QChar(0x00a0) + (one ? unit.chopped(1) : unit);
    }
    case ir::OptionKind::kReal:
      return locale.toString(*value.as_number(), 'g', 6);
    case ir::OptionKind::kBytes:
      return bytes_text(Bytes{*value.as_integer()});
    case ir::OptionKind::kWord:
    case ir::OptionKind::kText:
    case ir::OptionKind::kNames:
      break;
  }
  return QString::fromStdString(ir::value_text(field, value));
}

std::vector<OptionGroup> option_groups(const ir::Runtime& runtime) {
  std::vector<OptionGroup> groups;
  for (const ir::PlanPart* const part : runtime.parts()) {
    groups.push_back(group_of(*part));
  }
  groups.push_back(training_group());
  groups.push_back(optional_group(ir::lora_options(), option_words("Adapters"),
                                  option_words("Train LoRA adapters")));
  groups.push_back(optional_group(ir::quant_options(), option_words("Frozen weights"),
                                  option_words("Quantise frozen weights (QLoRA)")));
  groups.push_back(group_of(ir::allocator_options()));
  groups.back().title = option_words("Allocator");
  groups.push_back(optional_group(ir::generation_options(), option_words("Generation"),
                                  option_words("Generate text after the steps")));
  const AxisValues usual = axis_values(runtime);
  for (OptionGroup& group : groups) {
    for (OptionRow& row : group.rows) {
      if (row.part->has(usual.plan)) {
        row.axis = axis_of(*row.field, usual);
      }
    }
  }
  return groups;
}

std::vector<OptionChange> changes_between(const ir::ParallelPlan& before,
                                          const ir::ParallelPlan& after) {
  std::vector<OptionChange> changes;
  compare_fields(ir::plan_options(), before, after, changes);
  compare_fields(ir::optimizer_options(), before, after, changes);
  for (const ir::PlanPart* const part : ir::plan_parts()) {
    if (!part->has(before) && !part->has(after)) {
      continue;
    }
    if (!part->runtime.empty() && part->has(before) != part->has(after)) {
      continue;  // It comes and goes with the framework.
    }
    if (part->has(before) != part->has(after)) {
      changes.push_back({first_sentence(part->title),
                         part->has(before) ? option_words("yes") : option_words("no"),
                         part->has(after) ? option_words("yes") : option_words("no")});
    }
    compare_fields(*part, before, after, changes);
  }
  return changes;
}

}  // namespace headroom::gui
