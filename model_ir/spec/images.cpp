#include "model_ir/spec/images.h"

#include <charconv>

namespace headroom::ir {
namespace {

/// Takes a number from 1 to `most`, without zeros before it, off the front of `text`.
std::optional<std::int64_t> take_number(std::string_view& text, std::int64_t most) {
  std::int64_t value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc{} || value < 1 || value > most || text.front() == '0') {
    return std::nullopt;
  }
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

bool take_cross(std::string_view& text) {
  if (!text.starts_with('x')) {
    return false;
  }
  text.remove_prefix(1);
  return true;
}

}  // namespace

std::optional<Images> parse_images(std::string_view text) {
  const std::optional<std::int64_t> count = take_number(text, kMostImages);
  if (!count || !take_cross(text)) {
    return std::nullopt;
  }
  const std::optional<std::int64_t> height = take_number(text, kMostImageSide);
  if (!height || !take_cross(text)) {
    return std::nullopt;
  }
  const std::optional<std::int64_t> width = take_number(text, kMostImageSide);
  if (!width || !text.empty()) {
    return std::nullopt;
  }
  return Images{.count = *count, .height = *height, .width = *width};
}

std::string text_of(const Images& images) {
  return std::to_string(images.count) + "x" + std::to_string(images.height) + "x" +
         std::to_string(images.width);
}

}  // namespace headroom::ir
