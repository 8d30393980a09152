#pragma once

#include <string>
#include <vector>

#include <QString>

namespace headroom::gui {

/// One value of a choice. If command line and plan files have a word for it, the label is that
/// word, so that users can type what they read.
template <typename T>
struct Choice {
  T value;
  QString label;
  QString detail;  ///< The text of the tooltip.
};

/// The frameworks.
[[nodiscard]] std::vector<Choice<std::string>> runtime_choices();
}  // namespace headroom::gui
