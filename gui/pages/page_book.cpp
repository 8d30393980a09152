#include "gui/pages/page_book.h"

#include <QAbstractButton>
#include <QShortcut>
#include <QTabBar>

namespace headroom::gui {
namespace {

/// Gives buttons without a name for screen readers the name that they show, and tabs one.
void name_controls(const QWidget* page) {
  for (QAbstractButton* const button : page->findChildren<QAbstractButton*>()) {
    if (button->accessibleName().isEmpty()) {
      button->setAccessibleName(button->text().remove(QLatin1Char('&')));
    }
  }
  for (QTabBar* const tabs : page->findChildren<QTabBar*>()) {
    tabs->setAccessibleName(PageBook::tr("Views"));
  }
}

}  // namespace

PageBook::PageBook(QWidget* parent) : QTabWidget(parent) {
  setDocumentMode(true);
  setObjectName(QStringLiteral("pages"));
  setAccessibleName(tr("Views of the answer"));
  tabBar()->setAccessibleName(tr("Pages"));
  connect(this, &QTabWidget::currentChanged, this, [this] { tell(currentPage()); });
}

void PageBook::addPage(Page* page) {
  addTab(page, page->title());
  name_controls(page);
  connect(page, &Page::edited, this, &PageBook::edited);
  connect(page, &Page::settled, this, [this, page] {
    if (page == currentPage()) {
      Q_EMIT settled();
    }
  });
  constexpr int kDigits = 9;
  const int number = count();
  if (number <= kDigits) {
    const QKeySequence keys(Qt::CTRL | static_cast<Qt::Key>(Qt::Key_0 + number));
    auto* const shortcut = new QShortcut(keys, this);
    connect(shortcut, &QShortcut::activated, this, [this, page] { setCurrentWidget(page); });
    setTabToolTip(number - 1,
                  tr("%1 (%2)").arg(page->title(), keys.toString(QKeySequence::NativeText)));
  }
}

bool PageBook::openPage(const QString& name) {
  for (int i = 0; i < count(); ++i) {
    if (widget(i)->objectName() == name) {
      setCurrentIndex(i);
      return true;
    }
  }
  return false;
}

QStringList PageBook::pageNames() const {
  QStringList names;
  for (int i = 0; i < count(); ++i) {
    names.append(widget(i)->objectName());
  }
  return names;
}

Page* PageBook::currentPage() const {
  return qobject_cast<Page*>(currentWidget());
}

bool PageBook::isBusy() const {
  const Page* const page = currentPage();
  return page != nullptr && page->isBusy();
}

void PageBook::setAnswer(const Answer& answer) {
  answer_ = answer;
  ++number_;
  tell(currentPage());
}

void PageBook::tell(Page* page) {
  if (page == nullptr || !answer_ || told_.value(page) == number_) {
    return;
  }
  told_.insert(page, number_);
  page->setAnswer(*answer_);
  if (!page->isBusy()) {
    Q_EMIT settled();
  }
}

}  // namespace headroom::gui
