#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gui/charts/layer_map.h"
#include "gui/pages/newest_job.h"
#include "gui/pages/page.h"

class QActionGroup;
class QButtonGroup;
class QLabel;
class QPushButton;

namespace headroom::gui {

class LayerChart;

/// The treatment of each layer's activations. A click on a cell gives the layer the chosen
/// treatment, as far as the framework's options can; "Optimal within the memory" searches the
/// recomputation with the shortest step that fits.
class LayersPage : public Page {
  Q_OBJECT

 public:
  explicit LayersPage(std::string config_dir, QWidget* parent = nullptr);
  void setAnswer(const Answer& answer) override;
  [[nodiscard]] bool isBusy() const override { return job_.isBusy() || search_.isBusy(); }

  [[nodiscard]] LayerChart* chart() const { return chart_; }
  /// The treatment that a click gives.
  void setBrush(LayerTreatment treatment);

 private:
  /// The data that the page computes for an answer.
  struct Layers {
    LayerMap map;
    std::vector<LayerVariant> variants;
  };
  [[nodiscard]] QWidget* makeToolBar();
  void showLayers(std::shared_ptr<const Layers> layers, const QString& problem);
  void pick(qlonglong layer);
  void findOptimum();
  void applyOptimum(const ir::ParallelPlan& plan);
  void say(const QString& text);
  [[nodiscard]] QString summary() const;

  std::string config_dir_;
  Answer answer_;
  std::shared_ptr<const Layers> layers_;
  LayerChart* chart_ = nullptr;
  QButtonGroup* brushes_ = nullptr;
  QPushButton* optimum_ = nullptr;
  QLabel* summary_ = nullptr;
  QLabel* message_ = nullptr;
  NewestJob job_;
  NewestJob search_;
};

}  // namespace headroom::gui
