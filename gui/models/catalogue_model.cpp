#include "gui/models/catalogue_model.h"

#include <array>
#include <utility>

#include <QCoreApplication>
#include <QLocale>

#include "gui/models/words.h"

namespace headroom::gui {
namespace {

/// "8.03 B": a number of parameters, as in names of models.
QString count_text(qlonglong count) {
  struct Unit {
    double factor;
    const char* name;
  };
  constexpr std::array<Unit, 4> kUnits = {{{1e12, "T"}, {1e9, "B"}, {1e6, "M"}, {1e3, "K"}}};
  for (const Unit& unit : kUnits) {
    const double value = static_cast<double>(count) / unit.factor;
    if (value >= 1) {
      return QLocale().toString(value, 'f', value < 100 ? 2 : 0) + QChar(QChar::Nbsp) +
             QLatin1String(unit.name);
    }
  }
  return QLocale().toString(count);
}

}  // namespace

std::vector<CatalogueEntry> entries_of(const std::vector<ir::ModelTitle>& models) {
  std::vector<CatalogueEntry> entries;
  for (const ir::ModelTitle& model : models) {
    const auto count = static_cast<qlonglong>(model.parameters);
    entries.push_back({.name = QString::fromStdString(model.name),
                       .title = QString::fromStdString(model.hf_id),
                       .size = count_text(count),
                       .amount = count,
                       .exact = QCoreApplication::translate("CatalogueModel", "%1 parameters")
                                    .arg(QLocale().toString(count))});
  }
  return entries;
}

std::vector<CatalogueEntry> entries_of(const std::vector<cost::DeviceSpec>& devices) {
  std::vector<CatalogueEntry> entries;
  for (const cost::DeviceSpec& device : devices) {
    entries.push_back({.name = QString::fromStdString(device.name),
                       .title = QString::fromStdString(device.product),
                       .size = bytes_text(device.total),
                       .amount = static_cast<qlonglong>(device.total.value()),
                       .exact = exact_text(device.total)});
  }
  return entries;
}

std::vector<CatalogueEntry> entries_of(const std::vector<std::string>& names) {
  std::vector<CatalogueEntry> entries;
  for (const std::string& name : names) {
    entries.push_back(
        {.name = QString::fromStdString(name), .title = {}, .size = {}, .amount = 0, .exact = {}});
  }
  return entries;
}

CatalogueModel::CatalogueModel(std::vector<CatalogueEntry> entries, QObject* parent)
    : QAbstractTableModel(parent), entries_(std::move(entries)) {}

int CatalogueModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(entries_.size());
}

int CatalogueModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(kColumnCount);
}

QVariant CatalogueModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid() || !checkIndex(index)) {
    return {};
  }
  const CatalogueEntry& entry = entries_[static_cast<std::size_t>(index.row())];
  const std::array<QString, kColumnCount> texts = {entry.name, entry.size, entry.title};
  const QString& text = texts.at(static_cast<std::size_t>(index.column()));
  switch (role) {
    case Qt::DisplayRole:
    case Qt::EditRole:
      return text;
    case kAmountRole:
      return index.column() == kSizeColumn ? QVariant(entry.amount) : QVariant(text);
    case Qt::AccessibleTextRole:
      return entry.title.isEmpty() ? entry.name
                                   : tr("%1: %2, %3").arg(entry.name, entry.title, entry.size);
    case Qt::ToolTipRole:
      return entry.title.isEmpty() ? entry.name : tr("%1\n%2").arg(entry.title, entry.exact);
    case Qt::TextAlignmentRole:
      return cell_alignment(index.column() == kSizeColumn);
    default:
      return {};
  }
}

QVariant CatalogueModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation == Qt::Vertical || role != Qt::DisplayRole) {
    return {};
  }
  switch (section) {
    case kNameColumn:
      return tr("name");
    case kSizeColumn:
      return tr("size");
    case kTitleColumn:
      return tr("title");
    default:
      return {};
  }
}

int CatalogueModel::rowOf(const QString& name) const {
  for (std::size_t row = 0; row < entries_.size(); ++row) {
    if (entries_[row].name.compare(name, Qt::CaseInsensitive) == 0) {
      return static_cast<int>(row);
    }
  }
  return -1;
}

}  // namespace headroom::gui
