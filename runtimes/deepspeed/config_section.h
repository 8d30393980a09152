#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model_ir/base/result.h"
#include "model_ir/json/json_reader.h"
#include "model_ir/json/json_value.h"

namespace headroom::ir::deepspeed {

/// Faults and remarks found while a configuration is read.
struct Findings {
  std::string file;
  std::vector<Error> errors;
  std::vector<std::string> notes;
};

/// One object of a DeepSpeed configuration. Unlike our own files, it may contain "auto" in place of
/// any value, and whole numbers written as 5e8. Every key that is asked for counts as known;
/// `finish_section` and `finish_root` report the others.
class ConfigSection {
 public:
  /// An absent section reads as an empty one.
  ConfigSection(const JsonValue* value, std::string pointer, Findings& findings);

  [[nodiscard]] bool has(std::string_view key) const;
  [[nodiscard]] bool is_auto(std::string_view key) const;

  /// The value; nothing if it is absent, null or "auto".
  [[nodiscard]] std::optional<std::int64_t> integer(std::string_view key, IntegerRange range);
  [[nodiscard]] std::optional<double> number(std::string_view key, NumberRange range);
  [[nodiscard]] std::optional<bool> boolean(std::string_view key);
  [[nodiscard]] std::optional<std::string> text(std::string_view key);
  /// A list of texts. A single text counts as a list of one.
  [[nodiscard]] std::vector<std::string> texts(std::string_view key);
  [[nodiscard]] ConfigSection section(std::string_view key);

  /// Whether a key that may hold a section or a flag is switched on. The key counts as known.
  [[nodiscard]] bool switches_on(std::string_view key);

  /// Marks keys that change no byte of device memory as known.
  void accept(std::span<const std::string_view> keys);
  /// Checks a setting that changes memory and is not modelled. Any other value than `neutral` is a
  /// fault.
  void demand(std::string_view key, const JsonValue& neutral);
  void refuse(std::string_view key, std::string_view wanted, std::string_view fix = {});
  void note(std::string_view text);

  /// Report unknown keys. In a section they are faults, since DeepSpeed refuses them, too; at the
  /// top level they are notes, since DeepSpeed ignores them.
  void finish_section();
  void finish_root();

 private:
  [[nodiscard]] const JsonValue* take(std::string_view key);
  [[nodiscard]] std::vector<std::string> unknown() const;
  [[nodiscard]] std::string pointer_of(std::string_view key) const;

  const JsonValue* value_;
  std::string pointer_;
  Findings* findings_;
  std::vector<std::string> known_;
};

}  // namespace headroom::ir::deepspeed
