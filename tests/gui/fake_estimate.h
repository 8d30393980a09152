#pragma once

#include <cstdint>
#include <memory>
#include <ostream>
#include <vector>

#include <QString>
#include <QTest>

#include "costmodel/estimate.h"
#include "gui/main_window.h"
#include "gui/models/breakdown_model.h"
#include "gui/whatif/estimate_worker.h"

// doctest prints what it compares.
inline std::ostream& operator<<(std::ostream& out, const QString& text) {
  return out << text.toStdString();
}

namespace headroom::gui::test {

/// A program of three phases on a device of 80 GiB, 1 GiB of it outside the allocator:
///
///   load            16 GiB parameters
///   step1.forward   16 GiB parameters + B GiB activations
///   step1.backward  16 GiB parameters + B GiB activations + 16 GiB gradients    <- the peak
///
/// Each phase reserves 1 GiB more than its tensors take. With B = 1 it fits with 46 - B GiB to
/// spare; from B = 47 on it does not.
[[nodiscard]] cost::StepEstimate fake_estimate(std::int64_t micro_batch = 1);

// Its categories, in the order of TensorRole.
constexpr int kParameters = BreakdownModel::kFirstCategoryColumn;
constexpr int kGradients = kParameters + 1;
constexpr int kActivations = kParameters + 2;

/// Answers with `fake_estimate` of the scenario's micro-batch.
[[nodiscard]] Result<Appraisal> answer(const Scenario& scenario);

[[nodiscard]] Scenario with_micro_batch(Scenario scenario, std::int64_t micro_batch);

/// A catalogue of two models and two GPUs, and `estimator` in the place of the real one.
[[nodiscard]] WindowSetup setup_with(Estimator estimator);
[[nodiscard]] WindowSetup fake_setup();

/// Runs the event loop until `condition` holds; false if it does not within a generous limit, which
/// only a wrong program reaches.
template <typename Condition>
[[nodiscard]] bool eventually(Condition condition) {
  constexpr int kLimit = 20'000;
  return QTest::qWaitFor(condition, kLimit);
}

}  // namespace headroom::gui::test
