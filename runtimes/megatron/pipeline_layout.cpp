#include "runtimes/megatron/pipeline_layout.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>

namespace headroom::ir {
namespace {

constexpr std::size_t kLongest = 1 << 16;  ///< Letters; more than the layers of any pipeline.

Error fault(std::string_view text, std::string_view expected) {
  return Error::invalid_argument("pipeline-layout", text, expected);
}

/// Expands `x*3` and `(..)*3`; returns nothing if a count or a parenthesis is missing.
std::optional<std::string> unrolled(std::string_view text) {
  std::string out;
  std::size_t opened = std::string::npos;  // Where the part in parentheses begins in `out`.
  std::size_t unit = std::string::npos;    // Where the part that `*` repeats begins in `out`.
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char letter = text[at];
    if (letter == '(') {
      if (opened != std::string::npos) {
        return std::nullopt;
      }
      opened = out.size();
    } else if (letter == ')') {
      if (opened == std::string::npos) {
        return std::nullopt;
      }
      unit = opened;
      opened = std::string::npos;
      if (at + 1 == text.size() || text[at + 1] != '*') {
        return std::nullopt;
      }
    } else if (letter == '*') {
      std::size_t count = 0;
      const char* const begin = text.data() + at + 1;
      const auto [end, error] = std::from_chars(begin, text.data() + text.size(), count);
      if (error != std::errc() || unit >= out.size() || count > kLongest / (out.size() - unit) ||
          out.size() + count * (out.size() - unit) > 2 * kLongest) {
        return std::nullopt;
      }
      const std::string repeated = out.substr(unit);
      out.resize(unit);
      for (std::size_t i = 0; i < count; ++i) {
        out += repeated;
      }
      at = static_cast<std::size_t>(end - text.data()) - 1;
      unit = std::string::npos;
    } else if (letter != ',') {
      unit = out.size();
      out += letter;
    }
  }
  return opened == std::string::npos ? std::optional(out) : std::nullopt;
}

}  // namespace

Result<PipelineLayout> parse_pipeline_layout(std::string_view text) {
  const std::optional<std::string> letters =
      text.size() <= kLongest ? unrolled(text) : std::nullopt;
  if (!letters) {
    return fault(text, "letters, `t*N` and `(..|)*N` with nothing nested, as Et*4|(t*4|)*14tmL");
  }
  if (letters->find_first_not_of("EtmL|") != std::string::npos) {
    return fault(text, "E (embedding), t (layer), m (multi-token prediction), L (loss) and |");
  }
  if (!letters->starts_with('E') || !letters->ends_with('L') ||
      std::ranges::count(*letters, 'E') != 1 || std::ranges::count(*letters, 'L') != 1) {
    return fault(text, "E once, at the beginning, and L once, at the end");
  }
  PipelineLayout layout{.layers = {0}};
  for (const char letter : *letters) {
    if (letter == '|') {
      layout.layers.push_back(0);
    }
    if (layout.mtp_layers > 0 && (letter == '|' || letter == 't')) {
      return fault(text, "m in the chunk of L, behind its layers");
    }
    layout.layers.back() += letter == 't' ? 1 : 0;
    layout.mtp_layers += letter == 'm' ? 1 : 0;
  }
  return layout;
}

}  // namespace headroom::ir
