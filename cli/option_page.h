#pragma once

#include <string>
#include <vector>

#include "cli/terminal.h"
#include "runtimes/interface/option.h"

namespace headroom::cli {

/// An option of a plan, and the part that has it.
struct ListedOption {
  const ir::PlanPart* part = nullptr;
  const ir::OptionField* field = nullptr;
};

/// Every option of every part, with the common ones first.
[[nodiscard]] std::vector<ListedOption> listed_options();

/// The values that an option accepts: "yes or no", "1 to 8", "none, cpu, nvme".
[[nodiscard]] std::string values_of(const ir::OptionField& field);
/// The default of an option, in words if the table has some.
[[nodiscard]] std::string default_of(const ListedOption& option);
/// What an option changes: "memory", "time" or "memory, time".
[[nodiscard]] std::string effect_of(const ir::OptionField& field);

/// The options with their values, defaults and meanings, for a terminal.
[[nodiscard]] std::string options_list(const std::vector<ListedOption>& options,
                                       const Terminal& terminal);

/// The page `docs/options.md`: all options of a plan in Markdown.
[[nodiscard]] std::string options_page();

}  // namespace headroom::cli
