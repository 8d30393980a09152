#pragma once

#include <string>
#include <string_view>

namespace headroom::ir {

/// JSON from what Python's json module wrote: `Infinity`, `-Infinity` and `NaN`, which JSON does
/// not have and which stand in published config.json files (`"time_step_limit": [0.0, Infinity]`),
/// become null, and so does `{"__float__": "Infinity"}`, as transformers 5 writes it. Other texts
/// inside quotes stay.
[[nodiscard]] std::string json_of_python(std::string_view text);
/// Whether `json_of_python` may change a text.
[[nodiscard]] bool has_python_numbers(std::string_view text);

}  // namespace headroom::ir
