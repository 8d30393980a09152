#include "gui/models/plan_choices.h"

#include "gui/models/words.h"
#include "runtimes/registry.h"

namespace headroom::gui {
std::vector<Choice<std::string>> runtime_choices() {
  std::vector<Choice<std::string>> choices;
  for (const ir::Runtime* const runtime : ir::runtimes()) {
    choices.push_back(
        {std::string(runtime->name()), text_of(runtime->name()), text_of(runtime->title())});
  }
  return choices;
}

}  // namespace headroom::gui
