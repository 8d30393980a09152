#pragma once

#include "runtimes/typed/option_text.h"

namespace headroom::cli {

using ir::key_help;
using ir::lower_sentence;
using ir::OptionValue;
using ir::parse_spec;
using ir::parse_value;
using ir::plain_key;
using ir::set_option;
using ir::spec_text;
using ir::SpecTarget;
using ir::value_text;

}  // namespace headroom::cli
