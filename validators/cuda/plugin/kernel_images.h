#pragma once

#include <array>
#include <cstddef>

namespace headroom::cuda {

/// Files of kernels, in the plugin's data: code for every architecture, as nvcc -fatbin writes it.
inline constexpr std::size_t kKernelImages = 9;
[[nodiscard]] const std::array<const void*, kKernelImages>& kernel_images();

}  // namespace headroom::cuda
