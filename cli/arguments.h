#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model_ir/base/result.h"
#include "runtimes/plan_file.h"

namespace headroom::cli {

/// One option of a verb. An option with the same name has the same meaning in every verb.
struct OptionSpec {
  std::string_view name;      ///< "micro-batch", without dashes.
  std::string_view value;     ///< Placeholder of its value in the help; empty: a flag.
  std::string_view fallback;  ///< The default in words; empty: none.
  std::string_view help;      ///< What it sets, with its unit. Lower case, no full stop.
  bool hidden = false;        ///< Another spelling, which the help does not list.
  bool repeats = false;       ///< It may be given several times; its values are separate lines.
  bool bare = false;          ///< The value may be left out: --fsdp alone asks for the defaults.
};

/// A verb of the program, with the arguments that it accepts.
struct VerbSpec {
  std::string_view name;
  std::string_view summary;  ///< One line.
  std::string positionals;   ///< "MODEL", "PATH..."; empty: none.
  std::string detail;        ///< Describes the positionals.
  std::vector<OptionSpec> options;
  std::string example;  ///< A working command line without the program's name.
  /// The position of MODEL, for verbs that take it from the file of `--plan` if it is not typed.
  std::optional<std::size_t> model_at{};
  /// Whether the frameworks' own arguments (`own_option_specs`) are among the options.
  bool takes_own_options = false;
  /// Whether a command of the user stands behind `--` (`Arguments::command`).
  bool takes_command = false;
};

/// The content of the file that `--plan` names. It is read and parsed once.
struct PlanDocument {
  std::string name;  ///< The option as it was typed.
  ir::PlanText content;
  std::vector<std::string> notes;  ///< Each says where the command line overrides the file.
};

/// A parsed command line.
class Arguments {
 public:
  [[nodiscard]] bool has(std::string_view option) const;
  /// The value of an option; nothing if the option was not given.
  [[nodiscard]] std::optional<std::string> value(std::string_view option) const;
  [[nodiscard]] const std::vector<std::string>& positionals() const { return positionals_; }

  /// The user's own command, behind `--`, word by word.
  [[nodiscard]] const std::vector<std::string>& command() const { return command_; }
  void set_command(std::vector<std::string> words) { command_ = std::move(words); }

  /// The values of all options but one.
  [[nodiscard]] std::vector<std::string> values_except(std::string_view option) const;

  /// The same without the first positional, which names a part of the verb.
  [[nodiscard]] Arguments without_first_positional() const;

  void set(std::string_view option, std::string value);
  void remove(std::string_view option);
  void add_positional(std::string value) { positionals_.push_back(std::move(value)); }

  /// What `--plan` names, once `with_plan_file` has read it.
  [[nodiscard]] const std::optional<PlanDocument>& plan_document() const { return document_; }
  void set_plan_document(PlanDocument document) { document_ = std::move(document); }
  /// The configuration that MODEL "-" stands for, once it has been read: a pipe has it only once.
  [[nodiscard]] const std::optional<std::string>& model_input() const { return model_input_; }
  void set_model_input(std::string text) { model_input_ = std::move(text); }
  /// Notes that `option`, or its key `key`, was typed as the option `name`.
  void set_typed_name(std::string_view option, std::string_view name, std::string_view key = {}) {
    typed_.push_back({std::string(option), std::string(name), std::string(key)});
  }
  /// The name under which an option was typed: its own unless another was noted.
  [[nodiscard]] std::string typed_name(std::string_view option) const;
  /// The error about an option, or about a key of its value, under the name that was typed.
  [[nodiscard]] Error as_typed(Error error) const;

 private:
  std::vector<std::pair<std::string, std::string>> options_;
  std::vector<std::string> positionals_;
  std::vector<std::string> command_;
  struct TypedName {
    std::string option;
    std::string name;
    std::string key;  ///< A key of the option's value; empty: the name stands for the whole option.
  };
  std::vector<TypedName> typed_;
  std::optional<PlanDocument> document_;
  std::optional<std::string> model_input_;
};

/// Splits the arguments after a verb into options and positionals.
///
/// Errors:  kInvalidArgument for an option that the verb does not have (the error suggests the
///          closest one), and for one that is given twice, lacks its value, or is a flag with a
///          value.
[[nodiscard]] Result<Arguments> parse_arguments(const VerbSpec& verb,
                                                std::span<const std::string> arguments);

/// The words of a command line that are the program's own: for a verb with `takes_command`, those
/// before the first `--`.
[[nodiscard]] std::span<const std::string> own_words(const VerbSpec& verb,
                                                     std::span<const std::string> arguments);

/// The options that every verb has: --config-dir, --json, --color, --help.
[[nodiscard]] std::span<const OptionSpec> common_options();

}  // namespace headroom::cli
