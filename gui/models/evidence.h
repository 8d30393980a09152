#pragma once

#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include <QAbstractTableModel>

#include "costmodel/residuals.h"
#include "gui/whatif/scenario.h"
#include "model_ir/base/result.h"
#include "validators/measured/row.h"

namespace headroom::gui {

/// A measured run near a scenario, and what the program predicts for it.
struct EvidenceRow {
  std::string source;
  std::string id;
  bool on_gpu = false;
  std::int64_t parameters = 0;
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t sequence = 0;
  std::int64_t micro_batch = 0;
  std::int64_t world = 1;
  std::optional<cost::Measurand>
      measurand;        ///< The quantity that is compared: the first that was measured.
  double measured = 0;  ///< Bytes, or milliseconds for a step time.
  double predicted = 0;
  double distance = 0;  ///< The distance from the scenario; less is nearer.
  [[nodiscard]] double error() const { return measured != 0 ? predicted / measured - 1 : 0; }
};

/// The measured runs of an installation, or of the source tree: beside the catalogue's folder.
/// Nothing if there are none.
[[nodiscard]] std::optional<std::string> measured_folder(const std::string& config_dir);

/// Reads all rows of `folder`.
///
/// Errors:  those of `check::read_rows`.
[[nodiscard]] Result<std::vector<check::MeasuredRow>> read_measured(const std::string& folder);

/// The `count` rows of the scenario's framework that are nearest to it, predicted now.
///
/// Model:   the distance is the sum of the doublings between both in parameters, layers, width,
///          sequence, micro-batch and ranks, plus 2 for each of precision, optimizer, recomputation
///          and adapters that differ.
/// Errors:  those of `load_source`.
[[nodiscard]] Result<std::vector<EvidenceRow>> nearest_evidence(
    const std::string& config_dir, const Scenario& scenario,
    std::span<const check::MeasuredRow> rows, std::size_t count, const std::stop_token& stop);

/// Rows as a table.
class EvidenceModel : public QAbstractTableModel {
  Q_OBJECT

 public:
  enum Column {
    kSourceColumn,
    kMeasuredColumn,
    kPredictedColumn,
    kErrorColumn,
    kWhatColumn,
    kModelColumn,
    kBatchColumn,
    kWhereColumn,
    kRunColumn,
    kColumns
  };
  static constexpr int kSortRole = Qt::UserRole;

  using QAbstractTableModel::QAbstractTableModel;

  void setRows(std::vector<EvidenceRow> rows);
  [[nodiscard]] const std::vector<EvidenceRow>& rows() const { return rows_; }

  [[nodiscard]] int rowCount(const QModelIndex& parent = {}) const override;
  [[nodiscard]] int columnCount(const QModelIndex& parent = {}) const override;
  [[nodiscard]] QVariant data(const QModelIndex& index, int role) const override;
  [[nodiscard]] QVariant headerData(int section, Qt::Orientation orientation,
                                    int role) const override;

 private:
  [[nodiscard]] static QString text(const EvidenceRow& row, int column);
  [[nodiscard]] static QVariant number(const EvidenceRow& row, int column);

  std::vector<EvidenceRow> rows_;
};

/// "exact", "+0.4 %".
[[nodiscard]] QString error_text(double error);

}  // namespace headroom::gui
