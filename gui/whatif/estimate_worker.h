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

/// Answers a scenario. Called on the worker's thread; once stop is requested the answer is not
/// wanted any more and may be anything.
using Estimator = std::function<Result<cost::StepEstimate>(const Scenario& scenario,
                                                           const std::stop_token& stop)>;

/// What became of a request: an estimate, an error of the input, or a fault of the program.
struct Answer {
  quint64 request = 0;
  Scenario scenario;
  std::shared_ptr<const cost::StepEstimate> estimate;  ///< Null unless it was made.
  std::optional<Error> error;
  QString fault;  ///< What an exception said; empty unless there was one.
};

/// Runs an `Estimator` on a thread of its own. Requests are numbered; a new one stops the one that
/// runs, and only the newest is ever answered.
class EstimateWorker : public QObject {
  Q_OBJECT

 public:
  /// How soon a request goes to the thread.
  enum class Urgency : std::uint8_t {
    kDebounced,  ///< When no other has come for `kDebounce`.
    kNow,
  };
  static constexpr std::chrono::milliseconds kDebounce{150};

  explicit EstimateWorker(Estimator estimator, QObject* parent = nullptr);
  ~EstimateWorker() override;

  /// Asks for an answer to a copy of `scenario`; returns the request's number.
  quint64 ask(const Scenario& scenario, Urgency urgency = Urgency::kDebounced);

 Q_SIGNALS:
  /// The newest request has reached the thread.
  void started(quint64 request);
  /// The newest request has its answer.
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

  // Of the GUI thread.
  QTimer debounce_;
  quint64 newest_ = 0;
  Scenario asked_;
  std::stop_source current_;

  // Between the threads, under `mutex_`.
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::optional<Job> waiting_;
  std::optional<quint64> begun_;
  std::vector<Answer> finished_;

  Estimator estimator_;  // Of the worker thread.
  std::jthread thread_;  // Last: it must end before what it uses.
};

}  // namespace headroom::gui
