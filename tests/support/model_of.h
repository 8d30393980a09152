#pragma once

#include <string_view>

#include "model_ir/spec/hf_config.h"

namespace headroom::test {

/// The model that the text of a Hugging Face config.json describes.
[[nodiscard]] inline ir::ModelSpec model_of(std::string_view config) {
  return ir::parse_hf_config(config, "config.json").value();
}

}  // namespace headroom::test
