#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model_ir/base/result.h"
#include "runtimes/interface/option.h"

/// Options of a plan as text on the command line, from their tables
/// (`runtimes/interface/option.h`).
namespace headroom::cli {

/// A key without dashes in front, and with dashes for underscores: "Tensor_Parallel" and
/// "--tensor-parallel" are one key.
[[nodiscard]] std::string plain_key(std::string_view key);

/// The value of an option as the command line writes it ("yes", "4", "q_proj+v_proj"), and back.
///
/// Errors:  kInvalidArgument naming `option`, the text and what the option takes.
[[nodiscard]] std::string value_text(const ir::OptionField& field, const ir::JsonValue& value);
[[nodiscard]] Result<ir::JsonValue> parse_value(const ir::OptionField& field,
                                                std::string_view option, const std::string& text);
/// Reads `text` into the part's option.
[[nodiscard]] Status set_option(const ir::OptionField& field, std::string_view option,
                                const std::string& text, void* part);

/// What an option's SPEC writes to: the rows of `fields` that are keys of the option `of`.
struct SpecTarget {
  std::span<const ir::OptionField> fields;
  std::string_view of;
  void* part = nullptr;
};

/// Reads the value of `option`, "tp=2,sequence-parallel", into the targets. Keys are those of the
/// tables and the framework's own spellings; what the text does not name keeps its value.
///
/// Errors:  kInvalidArgument naming the option, the key and its value.
[[nodiscard]] Status parse_spec(std::string_view option, const std::string& text,
                                std::span<const SpecTarget> targets);

/// The keys of `option` that differ from `usual`, and those that are always shown: `parse_spec`
/// reads them back.
[[nodiscard]] std::string spec_text(std::span<const ir::OptionField> fields,
                                    std::string_view option, const void* part, const void* usual);
/// The same for the part of a plan whose option is named as the part.
[[nodiscard]] std::string spec_text(const ir::PlanPart& part, const void* value);

/// "tp=N", "sequence-parallel", "attention=fused|flash|unfused": how help shows a key; a switch
/// that is usually on as "aux-loss=yes|no".
[[nodiscard]] std::string key_help(const ir::PlanPart& part, const ir::OptionField& field);
/// A sentence of a table as help shows it: lower case, without its full stop.
[[nodiscard]] std::string lower_sentence(std::string_view sentence);

}  // namespace headroom::cli
