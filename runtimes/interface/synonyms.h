#pragma once

#include <span>
#include <string_view>

namespace headroom::ir {

/// Another spelling that the command line accepts: of an option, of a value, or of a key in the
/// value of an option such as --lora.
struct Synonym {
  std::string_view option;   ///< The option that is meant, without dashes: "micro-batch".
  std::string_view name{};   ///< Its other name, "batch-size"; empty: only the value differs.
  std::string_view said{};   ///< A value in another spelling, "float16"; a key, or key=value.
  std::string_view means{};  ///< Our spelling. With a name and no `said`: the name alone means it.
  std::string_view key{};    ///< The name sets this key of the option, or of --qlora for --lora.
  bool ignored = false;      ///< `said` changes no prediction and is left out.
  /// The option is a framework's argument, which the help lists only for `headroom plan`: "tp".
  bool of_a_framework = false;
};

/// All of them. Values are compared without regard to letter case, and with - for _.
[[nodiscard]] std::span<const Synonym> synonyms();

}  // namespace headroom::ir
