#pragma once

#include <QHash>
#include <QStringList>
#include <QTabWidget>

#include "gui/pages/page.h"

namespace headroom::gui {

/// The pages of the window as tabs. Only the visible page gets answers; another one gets the newest
/// when it is opened. Ctrl+1, Ctrl+2, ... open a page.
class PageBook : public QTabWidget {
  Q_OBJECT

 public:
  explicit PageBook(QWidget* parent = nullptr);

  /// Adds a page, which belongs to the book from now on.
  void addPage(Page* page);
  /// Opens the page with this object name; false if there is none.
  bool openPage(const QString& name);
  /// The object names of the pages, in the order of the tabs.
  [[nodiscard]] QStringList pageNames() const;
  [[nodiscard]] Page* currentPage() const;
  /// Whether the visible page is still computing what it shows.
  [[nodiscard]] bool isBusy() const;

  void setAnswer(const Answer& answer);

 Q_SIGNALS:
  /// Emitted when the visible page shows all of the newest answer.
  void settled();
  void edited(const headroom::gui::Scenario& after, const headroom::gui::Edit& edit);

 private:
  void tell(Page* page);

  std::optional<Answer> answer_;
  QHash<Page*, quint64> told_;  ///< Number of the newest answer that each page was given.
  quint64 number_ = 0;
};

}  // namespace headroom::gui
