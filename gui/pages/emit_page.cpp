#include "gui/pages/emit_page.h"

#include <QClipboard>
#include <QComboBox>
#include <QFileDialog>
#include <QFontDatabase>
#include <QGuiApplication>
#include <QHBoxLayout>
#include <QMessageBox>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QSaveFile>
#include <QSignalBlocker>
#include <QVBoxLayout>

#include "gui/models/verdict_text.h"
#include "gui/models/words.h"
#include "gui/pages/page_parts.h"
#include "gui/whatif/plan_document.h"
#include "runtimes/plan_check.h"
#include "runtimes/registry.h"

namespace headroom::gui {
EmitPage::EmitPage(QWidget* parent) : Page(QStringLiteral("emit"), tr("Configuration"), parent) {
  auto* const column = new QVBoxLayout(this);
  auto* const row = new QHBoxLayout;
  format_ = new QComboBox(this);
  format_->setAccessibleName(tr("Format of the configuration"));
  save_ = new QPushButton(tr("Save…"), this);
  save_->setAutoDefault(false);
  problem_ = quiet_label();
  row->addWidget(section_title(tr("Configuration file")));
  row->addWidget(format_);
  row->addWidget(problem_, 1);
  row->addWidget(save_);
  column->addLayout(row);
  file_ = addText({}, tr("Copy the configuration"), 0);
  launch_ = addText(tr("How the framework is started"), tr("Copy the launch command"), 4);
  command_ = addText(tr("The same question at the command line"), tr("Copy the command"), 3);
  launch_height_ = launch_->height();
  connect(format_, &QComboBox::currentIndexChanged, this, &EmitPage::refresh);
  connect(save_, &QPushButton::clicked, this, &EmitPage::chooseFile);
}

QPlainTextEdit* EmitPage::addText(const QString& title, const QString& copied, int lines) {
  auto* const column = qobject_cast<QVBoxLayout*>(layout());
  auto* const text = new QPlainTextEdit(this);
  text->setReadOnly(true);
  text->setFont(QFontDatabase::systemFont(QFontDatabase::FixedFont));
  text->setAccessibleName(title.isEmpty() ? tr("Configuration file") : title);
  text->setTabChangesFocus(true);
  auto* const copy = new QPushButton(tr("Copy"), this);
  copy->setAccessibleName(copied);
  copy->setAutoDefault(false);
  connect(copy, &QPushButton::clicked, this,
          [text] { QGuiApplication::clipboard()->setText(text->toPlainText()); });
  if (title.isEmpty()) {
    qobject_cast<QHBoxLayout*>(column->itemAt(0)->layout())->addWidget(copy);
    copy_ = copy;
  } else {
    auto* const row = new QHBoxLayout;
    row->addWidget(section_title(title), 1);
    row->addWidget(copy);
    column->addLayout(row);
    const QMargins margins = text->contentsMargins();
    text->setFixedHeight(text->fontMetrics().lineSpacing() * lines + margins.top() +
                         margins.bottom() +
                         static_cast<int>(2 * text->document()->documentMargin()));
  }
  column->addWidget(text, 1);
  return text;
}

void EmitPage::setAnswer(const Answer& answer) {
  answer_ = answer;
  const ir::Runtime* const runtime = ir::find_runtime(answer.scenario.plan.runtime);
  const QSignalBlocker quiet(format_);
  const QString before = format_->currentText();
  format_->clear();
  if (runtime != nullptr) {
    for (const ir::ConfigurationFormat& format : runtime->configuration_formats()) {
      format_->addItem(text_of(format.name), text_of(format.file));
    }
  }
  if (const int same = format_->findText(before); same >= 0) {
    format_->setCurrentIndex(same);
  }
  refresh();
  Q_EMIT settled();
}

void EmitPage::refresh() {
  file_->clear();
  launch_->clear();
  command_->clear();
  showFile(false);
  format_->setVisible(format_->count() > 1);
  if (!answer_ || answer_->appraisal == nullptr || answer_->appraisal->grounds == nullptr) {
    problem_->setText(answer_ && answer_->error ? problem_text(*answer_->error).what : QString());
    return;
  }
  const Scenario& scenario = answer_->scenario;
  const Grounds& grounds = *answer_->appraisal->grounds;
  const std::int64_t node =
      grounds.machine ? grounds.machine->topology.devices_per_node : std::int64_t{8};
  if (grounds.program != nullptr) {
    command_->setPlainText(fit_command(scenario, grounds.model));
    format_->hide();
    problem_->setText(tr("A recorded program has no configuration file."));
    return;
  }
  launch_->setPlainText(launch_text(scenario, grounds.model, node));
  command_->setPlainText(fit_command(scenario, grounds.model));
  if (format_->count() == 0) {
    problem_->setText(tr("%1 has no configuration file; its options are arguments of the script.")
                          .arg(QString::fromStdString(scenario.plan.runtime)));
    return;
  }
  const Result<std::string> text =
      ir::runtime_of(scenario.plan)
          .emit(grounds.model, scenario.plan, format_->currentText().toStdString());
  if (!text) {
    problem_->setText(problem_text(text.error()).what);
    return;
  }
  problem_->setText(format_->currentData().toString());
  file_->setPlainText(QString::fromStdString(*text));
  showFile(true);
}

void EmitPage::showFile(bool present) {
  file_->setVisible(present);
  save_->setVisible(present);
  copy_->setVisible(present);
  launch_->setMinimumHeight(launch_height_);
  launch_->setMaximumHeight(present ? launch_height_ : QWIDGETSIZE_MAX);
}

QString EmitPage::command() const {
  return command_->toPlainText();
}

QString EmitPage::configuration() const {
  return file_->toPlainText();
}

QString EmitPage::saveConfiguration(const QString& path) const {
  QSaveFile file(path);  // Writes the whole file or nothing.
  const QByteArray text = configuration().toUtf8();
  if (!file.open(QIODevice::WriteOnly) || file.write(text) != text.size() || !file.commit()) {
    return tr("%1: %2").arg(path, file.errorString());
  }
  return {};
}

void EmitPage::chooseFile() {
  const QString path = QFileDialog::getSaveFileName(this, tr("Save the configuration"),
                                                    format_->currentData().toString());
  if (path.isEmpty()) {
    return;
  }
  if (const QString reason = saveConfiguration(path); !reason.isEmpty()) {
    QMessageBox::warning(this, tr("Save the configuration"), reason);
  }
}

}  // namespace headroom::gui
