#pragma once

#include <string_view>
#include <vector>

namespace headroom::arch {

/// The standard headers that give `std::name`, or the macro `name`. Empty: the table lacks it.
[[nodiscard]] std::vector<std::string_view> headers_of_standard(std::string_view name);

}  // namespace headroom::arch
