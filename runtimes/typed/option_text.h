#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model_ir/base/result.h"
#include "runtimes/interface/option.h"

/// Options of a plan as text on the command line, from their tables
/// (`runtimes/interface/option.h`).
namespace headroom::ir {

/// The key without leading dashes and with dashes for underscores, so that "tensor_parallel" and
/// "--tensor-parallel" are the same key.
[[nodiscard]] std::string plain_key(std::string_view key);

/// Converts the value of an option to the text of the command line ("yes", "4", "q_proj+v_proj"),
/// and back.
///
/// Errors:  kInvalidArgument with `option`, the text and what the option accepts.
[[nodiscard]] std::string value_text(const OptionField& field, const JsonValue& value);
[[nodiscard]] Result<JsonValue> parse_value(const OptionField& field, std::string_view option,
                                            const std::string& text);
/// Parses `text` and sets the part's option.
[[nodiscard]] Status set_option(const OptionField& field, std::string_view option,
                                const std::string& text, ParallelPlan& plan);

/// An option and its value; a flag has no value.
struct OptionValue {
  std::string name;
  std::string value;
  friend bool operator==(const OptionValue&, const OptionValue&) = default;
};

/// The place of the keys of a SPEC: those rows of `fields` that are keys of the option `of`.
struct SpecTarget {
  std::span<const OptionField> fields;
  std::string_view of;
  ParallelPlan* plan = nullptr;
};

/// Reads the value of `option`, such as "tp=2,sequence-parallel", into the targets. Keys are those
/// of the tables and the framework's own spellings. Options that the text does not name keep their
/// values.
///
/// Errors:  kInvalidArgument with the option, the key and its value.
[[nodiscard]] Status parse_spec(std::string_view option, const std::string& text,
                                std::span<const SpecTarget> targets);

/// The keys of `option` that differ from `usual`, and those that are always shown, in the form that
/// `parse_spec` reads.
[[nodiscard]] std::string spec_text(std::span<const OptionField> fields, std::string_view option,
                                    const ParallelPlan& plan, const ParallelPlan& usual);
/// The same for a part whose option has the part's name.
[[nodiscard]] std::string spec_text(const PlanPart& part, const ParallelPlan& plan);

/// "tp=N", "sequence-parallel", "attention=fused|flash|unfused": how help shows a key; a switch
/// that is usually on as "aux-loss=yes|no".
[[nodiscard]] std::string key_help(const PlanPart& part, const OptionField& field);
/// A sentence of a table as help shows it: lower case, without its full stop.
[[nodiscard]] std::string lower_sentence(std::string_view sentence);

}  // namespace headroom::ir
