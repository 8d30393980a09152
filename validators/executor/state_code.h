#pragma once

#include <vector>

namespace headroom::exec {

/// The numbers that the bytes of 8-bit optimizer states stand for, ascending, 256 of them.
///
/// Model:   dynamic tree quantisation: an exponent in unary and the rest of the bits as a linear
///          fraction; between -1 and 1, or between 0 and 1 without a sign.
/// Source:  Dettmers et al. 2022, 8-bit Optimizers, arXiv:2110.02861, section 2.2 and figure 2.
[[nodiscard]] std::vector<float> signed_state_code();
[[nodiscard]] std::vector<float> unsigned_state_code();

}  // namespace headroom::exec
