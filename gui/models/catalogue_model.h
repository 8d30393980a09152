#pragma once

#include <string>
#include <vector>

#include <QAbstractTableModel>

#include "costmodel/hardware/hardware_spec.h"
#include "model_ir/spec/model_catalogue.h"

namespace headroom::gui {

/// One line of a catalogue list.
struct CatalogueEntry {
  QString name;          ///< What a scenario stores.
  QString title;         ///< "NVIDIA A100-SXM4-80GB", "meta-llama/Llama-3.1-8B"
  QString size;          ///< "8.03 B", "79.1 GiB"
  qlonglong amount = 0;  ///< Parameters or bytes, for sorting.
  QString exact;         ///< "8,030,261,248 parameters"
};

[[nodiscard]] std::vector<CatalogueEntry> entries_of(const std::vector<ir::ModelTitle>& models);
[[nodiscard]] std::vector<CatalogueEntry> entries_of(const std::vector<cost::DeviceSpec>& devices);
/// Entries with names only, for a catalogue that has a faulty entry.
[[nodiscard]] std::vector<CatalogueEntry> entries_of(const std::vector<std::string>& names);

/// A list of models or of GPUs from which the user chooses.
class CatalogueModel : public QAbstractTableModel {
  Q_OBJECT

 public:
  enum Column { kNameColumn, kSizeColumn, kTitleColumn, kColumnCount };
  enum Role { kAmountRole = Qt::UserRole };  ///< qlonglong for the size; for others, their text.

  explicit CatalogueModel(std::vector<CatalogueEntry> entries, QObject* parent = nullptr);

  [[nodiscard]] int rowCount(const QModelIndex& parent = {}) const override;
  [[nodiscard]] int columnCount(const QModelIndex& parent = {}) const override;
  [[nodiscard]] QVariant data(const QModelIndex& index, int role) const override;
  [[nodiscard]] QVariant headerData(int section, Qt::Orientation orientation,
                                    int role) const override;

  /// Row of `name`, ignoring case; -1 if there is none.
  [[nodiscard]] int rowOf(const QString& name) const;

 private:
  std::vector<CatalogueEntry> entries_;
};

}  // namespace headroom::gui
