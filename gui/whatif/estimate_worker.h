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

#include <QObject>
#include <QString>
#include <QTimer>

#include "costmodel/estimate.h"
#include "gui/whatif/scenario.h"
#include "model_ir/base/result.h"

namespace headroom::gui {

/// Answers a scenario on the worker's thread. Once stop is requested, the answer is not used and
/// may be anything.
using Estimator = std::function<Result<cost::StepEstimate>(const Scenario& scenario,
                                                           const std::stop_token& stop)>;

/// The result of a request: an estimate, an error of the input, or a fault of the program.
struct Answer {
  quint64 request = 0;
  Scenario scenario;
  std::shared_ptr<const cost::StepEstimate> estimate;  ///< Null if there is no estimate.
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
    kDebounced,  ///< When no other has come for `kDebounce`.
    kNow,
  };
  static constexpr std::chrono::milliseconds kDebounce{150};

  explicit EstimateWorker(Estimator estimator, QObject* parent = nullptr);
  ~EstimateWorker() override;

  /// Requests an answer for a copy of `scenario`; returns the number of the request.
  quint64 ask(const Scenario& scenario, Urgency urgency = Urgency::kDebounced);

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
