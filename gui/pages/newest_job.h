#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>

#include <QObject>
#include <QString>

namespace headroom::gui {

/// Runs jobs on a thread of its own, one at a time. A new job stops the running one, and only the
/// newest is delivered.
class NewestJob : public QObject {
  Q_OBJECT

 public:
  /// The function that takes a result on the GUI thread.
  using Delivery = std::function<void()>;
  /// Computes a result on the job's thread. Once stop is requested, the result is not used and may
  /// be anything, also nothing.
  using Work = std::function<Delivery(const std::stop_token& stop)>;

  explicit NewestJob(QObject* parent = nullptr);
  ~NewestJob() override;

  void run(Work work);
  /// Stops the running job; nothing is delivered until the next one.
  void cancel();
  /// Whether a job has not been delivered yet.
  [[nodiscard]] bool isBusy() const { return busy_; }

 Q_SIGNALS:
  /// Emitted when the newest job has been delivered.
  void finished();
  /// Emitted if the newest job ended with an exception.
  void failed(const QString& fault);

 private:
  struct Job {
    quint64 number = 0;
    Work work;
    std::stop_token stop;
  };
  struct Result {
    quint64 number = 0;
    Delivery delivery;
    QString fault;
  };

  Q_INVOKABLE void collect();
  void loop(const std::stop_token& quit);
  [[nodiscard]] static Result result_of(const Job& job);

  // Used on the GUI thread only.
  quint64 newest_ = 0;
  bool busy_ = false;
  std::stop_source current_;

  // Shared by the threads; `mutex_` guards them.
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::optional<Job> waiting_;
  std::optional<Result> done_;

  std::jthread thread_;  // Last: it must end before the members that it uses.
};

}  // namespace headroom::gui
