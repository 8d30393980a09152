#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace headroom::ir::checkpoint {

/// The program that loads the weights of a checkpoint.
enum class Loader : std::uint8_t { kTransformers, kVllm };
inline constexpr std::array kLoaders = {Loader::kTransformers, Loader::kVllm};

[[nodiscard]] std::string_view name_of(Loader loader);

}  // namespace headroom::ir::checkpoint
