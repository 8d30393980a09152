#include "cli/adapter_changes.h"

#include <optional>
#include <string_view>
#include <utility>

#include "cli/option_text.h"
#include "cli/report/why_text.h"
#include "planner/explain/mend_search.h"

namespace headroom::cli {
namespace {

/// The adapters of every proposal of Headroom where the user names none.
constexpr std::string_view kAdapters = "r=16";

/// The search of `arguments`, to be stopped by `stop`; nothing if it cannot be asked for.
std::optional<PlanSearch> search_with(const Arguments& arguments, const PlanSearch& search) {
  Result<PlanSearch> read = read_plan_search(arguments);
  if (!read) {
    return std::nullopt;
  }
  // What was read with several GPU types belongs to the one whose search found nothing.
  read->device = search.device;
  read->machine = search.machine;
  read->budget = search.budget;
  return std::move(read).value();
}

/// A found change; `hardware` says whether its hardware changes, too.
AdapterChange described(const Arguments& arguments, const PlanSearch& search,
                        const OptionValue& option, plan::Mend mend, bool hardware) {
  AdapterChange change;
  change.change = "--" + option.name + " " + option.value;
  change.command = hardware ? mend_command(arguments, search, mend) : search_command(arguments);
  if (hardware) {
    change.change += " and " + mend_words(arguments, mend);
  }
  change.mend = std::move(mend);
  return change;
}

/// The kinds of adapters that take less memory than those of the question, from the one that takes
/// most on.
std::vector<OptionValue> leaner_kinds(const Arguments& arguments, const PlanSearch& search) {
  const std::string given = arguments.value(search.base.quant ? "qlora" : "lora").value_or("");
  const std::string keys = given.empty() ? std::string(kAdapters) : given;
  std::vector<OptionValue> kinds;
  if (!search.base.lora) {
    kinds.push_back({.name = "lora", .value = keys});
  }
  if (!search.base.quant) {
    kinds.push_back({.name = "qlora", .value = keys});
  }
  if (keys.find("prepare=") == std::string::npos) {
    kinds.push_back({.name = "qlora", .value = keys + ",prepare=no"});
  }
  return kinds;
}

}  // namespace

std::vector<AdapterChange> adapter_changes(const Arguments& arguments, const PlanSearch& search,
                                           std::span<const plan::OtherDevice> others,
                                           const plan::StopSignal& stop) {
  const std::vector<OptionValue> kinds = leaner_kinds(arguments, search);
  std::vector<AdapterChange> changes;
  for (const OptionValue& kind : kinds) {
    Arguments adapted = arguments;
    adapted.remove("lora");
    adapted.remove("qlora");
    adapted.set(kind.name, kind.value);
    const std::optional<PlanSearch> there = search_with(adapted, search);
    if (!there || stop.asked()) {
      continue;
    }
    plan::SearchQuestion question = there->question();
    question.stop = stop;
    plan::SearchRecords records;
    bool open = false;
    plan::MaybeMend found = plan::with_best(plan::Mend{}, question, records, open);
    if (found && *found) {
      changes.push_back(described(adapted, *there, kind, *std::move(found).value(), false));
      break;
    }
    if (!found || &kind != &kinds.back()) {
      continue;
    }
    Result<std::vector<plan::Mend>> hardware = plan::other_hardware(question, others, records);
    if (!hardware) {
      continue;
    }
    for (plan::Mend& mend : std::move(hardware).value()) {
      changes.push_back(described(adapted, *there, kind, std::move(mend), true));
    }
  }
  for (AdapterChange& change : changes) {
    change.adapts = !search.base.lora;
  }
  return changes;
}

std::string adapter_change_lines(const std::vector<AdapterChange>& changes) {
  std::string text;
  for (const AdapterChange& one : changes) {
    text += "would fit with " + one.change + (one.adapts ? ", which trains adapters only" : "") +
            proof_words(one.mend) + "\n  " + one.command + "\n";
  }
  return text;
}

}  // namespace headroom::cli
