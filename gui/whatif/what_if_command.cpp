#include "gui/whatif/what_if_command.h"

#include <utility>

namespace headroom::gui {

WhatIfCommand::WhatIfCommand(Scenario before, Scenario after, const Edit& edit, Apply apply)
    : before_(std::move(before)), after_(std::move(after)), edit_(edit), apply_(std::move(apply)) {}

void WhatIfCommand::undo() {
  apply_(before_);
}

void WhatIfCommand::redo() {
  apply_(after_);
}

// -1 tells Qt never to merge the command.
int WhatIfCommand::id() const {
  return edit_.gesture == 0 ? -1 : static_cast<int>(edit_.field);
}

bool WhatIfCommand::mergeWith(const QUndoCommand* other) {
  const auto* const next = dynamic_cast<const WhatIfCommand*>(other);
  if (next == nullptr || next->edit_ != edit_) {
    return false;
  }
  after_ = next->after_;
  setObsolete(after_ == before_);  // The slider is back where it was.
  return true;
}

}  // namespace headroom::gui
