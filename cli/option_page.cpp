#include "cli/option_page.h"

#include <limits>

#include "cli/option_text.h"
#include "cli/scalars.h"
#include "runtimes/interface/common_options.h"
#include "runtimes/plan_parts.h"
#include "runtimes/registry.h"

namespace headroom::cli {
namespace {

constexpr std::string_view kPageHead = R"(# Options of a plan

This page lists every option of a plan, for people who write command lines or plan files. It is
made from the tables in `runtimes/*/options.cpp` and `runtimes/interface/common_options.cpp` by
`headroom catalog options --markdown`.

- **Option** is what is typed. Several options share one that takes keys:
  `--megatron tp=2,sequence-parallel`. A switch is on when its key stands alone; `=no` turns it
  off. An option without an entry is set in a plan file (`--plan FILE`) or a DeepSpeed file.
- **Own name** is the framework's own spelling. It is accepted as a key
  (`--megatron tensor-model-parallel-size=2`) and, where it begins with `--` or is the path of a
  configuration, as an option (`--tensor-model-parallel-size 2`,
  `--parallelism.tensor_parallel_degree 2`).
- **JSON** is the key in a plan file.
- **Changes** says whether memory, time or both depend on the option; *searched* options may be
  chosen by `headroom plan`.
)";

/// A cell of a Markdown table.
std::string cell(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    escaped += c == '|' ? "\\|" : std::string(1, c);
  }
  return " " + escaped + (escaped.empty() ? "|" : " |");
}

std::string code(const std::string& text) {
  return text.empty() ? text : "`" + text + "`";
}

std::string typed_option(const ListedOption& listed) {
  const ir::OptionField& field = *listed.field;
  if (field.option.empty()) {
    return {};
  }
  const std::string option = "--" + std::string(field.option);
  if (field.in_spec) {
    return option + " " + key_help(*listed.part, field);
  }
  return option + (field.shown_as.empty() ? "" : " " + std::string(field.shown_as));
}

std::string row_text(const ListedOption& option) {
  const ir::OptionField& field = *option.field;
  const std::string unit = field.unit.empty() ? "" : " " + std::string(field.unit);
  return "|" + cell(code(typed_option(option))) + cell(code(std::string(field.own.name))) +
         cell(code(std::string(field.name))) + cell(values_of(field) + unit) +
         cell(default_of(option)) + cell(effect_of(field) + (field.searched ? ", searched" : "")) +
         cell(field.help) + "\n";
}

std::string readers_of(const ir::PlanPart& part) {
  std::string text;
  for (const ir::Runtime* const runtime : ir::runtimes()) {
    for (const ir::PlanPart* const read : runtime->parts()) {
      if (read == &part) {
        text += (text.empty() ? "" : ", ") + std::string(runtime->name());
      }
    }
  }
  return text.empty() ? "" : " Frameworks that read it: " + text + ".";
}

}  // namespace

std::vector<ListedOption> listed_options() {
  std::vector<const ir::PlanPart*> parts = {&ir::plan_options(), &ir::optimizer_options()};
  for (const ir::PlanPart* const part : ir::plan_parts()) {
    parts.push_back(part);
  }
  std::vector<ListedOption> options;
  for (const ir::PlanPart* const part : parts) {
    for (const ir::OptionField& field : part->fields) {
      options.push_back({.part = part, .field = &field});
    }
  }
  return options;
}

std::string values_of(const ir::OptionField& field) {
  if (field.name == "runtime") {
    return ir::join(ir::runtime_names());
  }
  if (!field.form.empty()) {
    const std::string form(field.form);
    return form.starts_with("one of ") ? form.substr(7) : form;
  }
  if (field.words != nullptr) {
    return ir::join(field.words());
  }
  switch (field.kind) {
    case ir::OptionKind::kSwitch:
      return "yes, no";
    case ir::OptionKind::kBytes:
      return to_text(Bytes{field.wholes.least}) + " to " + to_text(Bytes{field.wholes.greatest});
    case ir::OptionKind::kWhole:
      return field.wholes.greatest == std::numeric_limits<std::int64_t>::max()
                 ? "from " + std::to_string(field.wholes.least)
                 : std::to_string(field.wholes.least) + " to " +
                       std::to_string(field.wholes.greatest);
    case ir::OptionKind::kReal:
      return real_text(field.reals.least) + " to " + real_text(field.reals.greatest);
    case ir::OptionKind::kNames:
      return "names";
    case ir::OptionKind::kWord:
    case ir::OptionKind::kText:
      break;
  }
  return "text";
}

std::string default_of(const ListedOption& option) {
  const ir::OptionField& field = *option.field;
  if (!field.fallback.empty()) {
    return std::string(field.fallback);
  }
  const ir::JsonValue value = field.get(option.part->usual());
  const bool limitless = field.kind == ir::OptionKind::kWhole &&
                         value.as_integer() == std::numeric_limits<std::int64_t>::max();
  return limitless ? "no limit" : value_text(field, value);
}

std::string effect_of(const ir::OptionField& field) {
  switch (field.effect) {
    case ir::OptionEffect::kMemory:
      return "memory";
    case ir::OptionEffect::kTime:
      return "time";
    case ir::OptionEffect::kBoth:
      break;
  }
  return "memory, time";
}

std::string options_list(const std::vector<ListedOption>& options, const Terminal& terminal) {
  constexpr std::size_t kIndent = 4;
  std::string text;
  for (const ListedOption& option : options) {
    const ir::OptionField& field = *option.field;
    const std::string typed = typed_option(option);
    const std::string head = typed.empty() ? std::string(option.part->name) + "." +
                                                 std::string(field.name) + " (in files only)"
                                           : typed;
    const std::string usual = default_of(option);
    const std::string unit = field.unit.empty() ? "" : " " + std::string(field.unit);
    std::string body = std::string(field.help) + " Values: " + values_of(field) + unit + ".";
    body += usual.empty() ? "" : " Default: " + usual + ".";
    body += field.own.name.empty() ? "" : " Own name: " + std::string(field.own.name) + ".";
    text += head + "\n" + std::string(kIndent, ' ') +
            wrap(body, terminal.width - kIndent, kIndent) + "\n";
  }
  return text;
}

std::string options_page() {
  std::string page(kPageHead);
  const ir::PlanPart* part = nullptr;
  for (const ListedOption& option : listed_options()) {
    if (option.part != part) {
      part = option.part;
      page += "\n## " + std::string(part->name) + "\n\n" + std::string(part->title) +
              readers_of(*part) + "\n\n";
      page += "| Option | Own name | JSON | Values | Default | Changes | What it does |\n";
      page += "|---|---|---|---|---|---|---|\n";
    }
    page += row_text(option);
  }
  return page;
}

}  // namespace headroom::cli
