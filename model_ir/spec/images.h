#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace headroom::ir {

/// The images in every sequence of a batch, before the model's image processor resizes them.
struct Images {
  std::int64_t count = 0;   ///< Images of each sequence, > 0.
  std::int64_t height = 0;  ///< Pixels, > 0.
  std::int64_t width = 0;
  friend bool operator==(const Images&, const Images&) = default;
};

inline constexpr std::int64_t kMostImages = 9'999;      ///< In one sequence.
inline constexpr std::int64_t kMostImageSide = 16'384;  ///< Pixels.

/// Reads "2x1024x1024", two images of 1,024 rows and columns; nothing if it has not this form.
[[nodiscard]] std::optional<Images> parse_images(std::string_view text);
/// The text that `parse_images` reads.
[[nodiscard]] std::string text_of(const Images& images);

}  // namespace headroom::ir
