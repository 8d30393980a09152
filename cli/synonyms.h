#pragma once

#include <string_view>
#include <vector>

#include "cli/arguments.h"

/// Other spellings of options and values, from the table `ir::synonyms`.
namespace headroom::cli {

/// The other names of the verb's options, as hidden options. A name that the verb has itself is not
/// among them.
[[nodiscard]] std::vector<OptionSpec> synonym_specs(const VerbSpec& verb);

/// The verb's option that `name` is another name of; otherwise `name`.
[[nodiscard]] std::string_view meant_option(const VerbSpec& verb, std::string_view name);

/// `value` of the verb's option `option` in the program's own spelling, part by part if it is a
/// list: "bfloat16,float16" of --precision is "bf16,fp16".
[[nodiscard]] std::string own_value(std::string_view option, const std::string& value);

/// The same arguments in the program's own spelling. `Arguments::typed_name` keeps what was typed.
///
/// Errors:  kInvalidArgument if an option is given under two names.
[[nodiscard]] Result<Arguments> with_synonyms(const VerbSpec& verb, const Arguments& arguments);

}  // namespace headroom::cli
