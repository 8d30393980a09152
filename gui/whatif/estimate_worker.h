#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include <QElapsedTimer>
#include <QObject>
#include <QString>
#include <QTimer>

#include "costmodel/confidence.h"
#include "costmodel/estimate.h"
#include "costmodel/hardware/hardware_spec.h"
#include "costmodel/remedy.h"
#include "costmodel/time/machine.h"
#include "gui/whatif/scenario.h"
#include "model_ir/base/result.h"
#include "model_ir/spec/model_spec.h"
#include "validators/dryrun/recorded_program.h"

namespace headroom::gui {

/// The model, device and machine of an estimate, read from the catalogue and from files.
struct Grounds {
  ir::ModelSpec model;
  cost::DeviceSpec device;               ///< The device in its host.
  std::optional<cost::Machine> machine;  ///< Nothing: no times are known for the device.
  /// Set if a recorded program stands in place of the model.
  std::shared_ptr<const check::RecordedProgram> program{};
};

/// The answer to a scenario.
struct Appraisal {
  cost::StepEstimate estimate;
  std::shared_ptr<const Grounds> grounds{};      ///< Null if the answer was made without files.
  std::optional<cost::Confidence> confidence{};  ///< Set if errors of measured runs are known.
  std::optional<cost::Remedies> remedies{};      ///< Set if they were looked for.
};

/// Answers a scenario on the worker's thread. Once stop is requested, the answer is not used and
/// may be anything.
using Estimator =
    std::function<Result<Appraisal>(const Scenario& scenario, const std::stop_token& stop)>;

/// The result of a request: an estimate, an error of the input, or a fault of the program.
struct Answer {
  quint64 request = 0;
  Scenario scenario;
  std::shared_ptr<const Appraisal> appraisal;          ///< Null if there is no estimate.
  std::shared_ptr<const cost::StepEstimate> estimate;  ///< The estimate of the appraisal.
  std::optional<Error> error;
  QString fault;  ///< Message of an exception; empty if there was none.
};

/// Runs an `Estimator` on its own thread. Requests are numbered. A new request stops the running
/// one, and only the newest request is answered.
class EstimateWorker : public QObject {
  Q_OBJECT

 public:
  /// When a request is sent to the thread.
  enum class Urgency : std::uint8_t {
    /// At once. If another request came less than `kDebounce` before, when no other has come for
    /// `kDebounce`.
    kDebounced,
    kNow,
  };
  static constexpr std::chrono::milliseconds kDebounce{10};

  explicit EstimateWorker(Estimator estimator, QObject* parent = nullptr);
  ~EstimateWorker() override;

  /// Requests an answer for a copy of `scenario`; returns the number of the request.
  quint64 ask(const Scenario& scenario, Urgency urgency = Urgency::kDebounced);
  /// Stops the running request; nothing asked before is answered.
  void cancel();

 Q_SIGNALS:
  /// Emitted when the thread starts the newest request.
  void started(quint64 request);
  /// Emitted when the newest request has been answered.
  void answered(const headroom::gui::Answer& answer);

 private:
  struct Job {
    quint64 request = 0;
    Scenario scenario;
    std::stop_token stop;
  };

  Q_INVOKABLE void collect();

  void handOver();
  void run(const std::stop_token& quit);
  [[nodiscard]] Answer work(const Job& job) const;
  void post();

  // Used on the GUI thread only.
  QTimer debounce_;
  QElapsedTimer last_asked_;
  quint64 newest_ = 0;
  Scenario asked_;
  std::stop_source current_;

  // Shared by the threads; `mutex_` guards them.
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::optional<Job> waiting_;
  std::optional<quint64> begun_;
  std::vector<Answer> finished_;

  Estimator estimator_;  // Used on the worker thread.
  std::jthread thread_;  // Last: it must end before the members that it uses.
};

}  // namespace headroom::gui
