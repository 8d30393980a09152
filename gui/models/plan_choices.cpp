#include "gui/models/plan_choices.h"

#include <string_view>

#include "runtimes/registry.h"

namespace headroom::gui {
namespace {

QString as_text(std::string_view text) {
  return QString::fromUtf8(text.data(), static_cast<qsizetype>(text.size()));
}

}  // namespace

std::vector<Choice<std::string>> runtime_choices() {
  std::vector<Choice<std::string>> choices;
  for (const ir::Runtime* const runtime : ir::runtimes()) {
    choices.push_back(
        {std::string(runtime->name()), as_text(runtime->name()), as_text(runtime->title())});
  }
  return choices;
}

}  // namespace headroom::gui
