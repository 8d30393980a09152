#include "gui/pages/page.h"

namespace headroom::gui {

Page::Page(const QString& name, const QString& title, QWidget* parent)
    : QWidget(parent), title_(title) {
  setObjectName(name);
}

}  // namespace headroom::gui
