#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/arguments.h"
#include "runtimes/interface/option.h"

/// The pages behind `headroom VERB --help TOPIC`. What a page says about an option of a plan is
/// made from the option's row (`runtimes/interface/option.h`).
namespace headroom::cli {

/// A row that is a key of an option's value ("tp" of --megatron), with its part.
struct TopicKey {
  const ir::PlanPart* part = nullptr;
  const ir::OptionField* field = nullptr;
};

/// One page of a verb's help.
struct HelpTopic {
  std::string name;                      ///< "megatron", as it is typed.
  std::string title;                     ///< What the page is about. Lower case, no full stop.
  std::vector<std::string_view> others;  ///< Other names of the page.
  std::vector<const OptionSpec*> options;
};

/// The option is among those that a verb's own help shows, because many people use it.
[[nodiscard]] bool is_usual(const OptionSpec& option);

/// The pages of a verb, each with options of the verb. Empty for a verb with few options, whose
/// own help shows them all. Points into `verb`.
[[nodiscard]] std::vector<HelpTopic> topics_of(const VerbSpec& verb);

/// The command that lists every option of a verb: "headroom fit --help all", or "headroom graph
/// --help" for a verb whose own help shows them all.
[[nodiscard]] std::string full_help_command(const VerbSpec& verb);

/// The page of that name; for the name of an option, a page with this option alone.
///
/// Errors:  kInvalidArgument naming the closest page.
[[nodiscard]] Result<HelpTopic> find_topic(const VerbSpec& verb, std::string_view name);

/// Sentences with the pages where what is missing on this one is found; empty: none is missing.
[[nodiscard]] std::string pages_beside(const VerbSpec& verb, const HelpTopic& topic);

/// The keys of an option's value, in the order of the tables; empty for other options.
[[nodiscard]] std::vector<TopicKey> keys_of(const OptionSpec& option);

}  // namespace headroom::cli
