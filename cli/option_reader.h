#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "cli/arguments.h"
#include "cli/option_text.h"
#include "model_ir/base/result.h"
#include "model_ir/plan/plan_words.h"

namespace headroom::cli {

/// Reads one option after the other and keeps the first error.
class OptionReader {
 public:
  explicit OptionReader(const Arguments& arguments) : arguments_(&arguments) {}

  [[nodiscard]] bool has(std::string_view name) const { return arguments_->has(name); }

  template <typename Value>
  void word(std::string_view name, std::span<const ir::Word<Value>> words, Value& value) {
    if (const auto text = arguments_->value(name)) {
      keep(ir::parse_word(words, name, *text), value);
    }
  }
  /// The value that the option has; none if it was not given or is no such word, which `word` and
  /// `with` say.
  template <typename Value>
  [[nodiscard]] std::optional<Value> asked(std::string_view name,
                                           std::span<const ir::Word<Value>> words) const {
    const auto text = arguments_->value(name);
    const Result<Value> value = ir::parse_word(words, name, text.value_or(""));
    return text && value ? std::optional(*value) : std::nullopt;
  }
  /// If the option was given, parses its text with `parse` and stores the result in `value`.
  template <typename Value, typename Parse>
  void with(std::string_view name, Value& value, Parse parse) {
    if (const auto text = arguments_->value(name)) {
      keep(parse(*text), value);
    }
  }
  /// Reads a row of a table that has an option of its own.
  void field(const ir::OptionField& row, ir::ParallelPlan& plan) {
    if (const auto text = arguments_->value(row.option)) {
      keep(set_option(row, row.option, *text, plan));
    }
  }
  /// Reads an option whose value is a list of keys.
  void spec(std::string_view name, std::span<const SpecTarget> targets) {
    if (const auto text = arguments_->value(name)) {
      keep(parse_spec(name, *text, targets));
    }
  }
  void spec(std::string_view name, std::initializer_list<SpecTarget> targets) {
    spec(name, std::span<const SpecTarget>(targets.begin(), targets.size()));
  }

  void refuse(const Error& error) { keep(Status(error)); }
  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

 private:
  void keep(const Status& status) {
    if (!status && !error_) {
      error_ = status.error();
    }
  }
  template <typename From, typename To>
  void keep(const Result<From>& result, To& value) {
    if (result) {
      value = *result;
    } else if (!error_) {
      error_ = result.error();
    }
  }

  const Arguments* arguments_;
  std::optional<Error> error_;
};

}  // namespace headroom::cli
