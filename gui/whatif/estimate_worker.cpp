#include "gui/whatif/estimate_worker.h"

#include <exception>
#include <utility>

#include <QMetaObject>

namespace headroom::gui {

EstimateWorker::EstimateWorker(Estimator estimator, QObject* parent)
    : QObject(parent), estimator_(std::move(estimator)) {
  debounce_.setSingleShot(true);
  debounce_.setInterval(kDebounce);
  connect(&debounce_, &QTimer::timeout, this, &EstimateWorker::handOver);
  thread_ = std::jthread([this](const std::stop_token& quit) { run(quit); });
}

EstimateWorker::~EstimateWorker() {
  current_.request_stop();
  thread_.request_stop();
  thread_.join();  // Joined while all members are still alive.
}

quint64 EstimateWorker::ask(const Scenario& scenario, Urgency urgency) {
  asked_ = scenario;
  ++newest_;
  current_.request_stop();  // Its answer would not be used.
  const bool single = !last_asked_.isValid() || last_asked_.elapsed() > kDebounce.count();
  if (single || urgency == Urgency::kNow) {
    debounce_.stop();
    handOver();
  } else {
    debounce_.start();
  }
  last_asked_.start();
  return newest_;
}

void EstimateWorker::cancel() {
  ++newest_;
  debounce_.stop();
  current_.request_stop();
  const std::lock_guard lock(mutex_);
  waiting_.reset();
}

void EstimateWorker::handOver() {
  current_ = std::stop_source();
  {
    const std::lock_guard lock(mutex_);
    waiting_ = Job{.request = newest_, .scenario = asked_, .stop = current_.get_token()};
  }
  wake_.notify_one();
}

void EstimateWorker::run(const std::stop_token& quit) {
  while (true) {
    std::optional<Job> job;
    {
      std::unique_lock lock(mutex_);
      if (!wake_.wait(lock, quit, [this] { return waiting_.has_value(); })) {
        return;
      }
      job = std::exchange(waiting_, std::nullopt);
      begun_ = job->request;
    }
    post();
    Answer answer = work(*job);
    {
      const std::lock_guard lock(mutex_);
      finished_.push_back(std::move(answer));
    }
    post();
  }
}

Answer EstimateWorker::work(const Job& job) const {
  Answer answer{.request = job.request,
                .scenario = job.scenario,
                .appraisal = nullptr,
                .estimate = nullptr,
                .error = std::nullopt,
                .fault = {}};
  try {
    Result<Appraisal> result = estimator_(job.scenario, job.stop);
    if (result) {
      answer.appraisal = std::make_shared<const Appraisal>(std::move(result).value());
      answer.estimate = {answer.appraisal, &answer.appraisal->estimate};
    } else {
      answer.error = std::move(result).error();
    }
  } catch (const std::exception& fault) {
    answer.fault = QString::fromUtf8(fault.what());
  } catch (...) {
    answer.fault = tr("unknown exception");
  }
  if (answer.estimate == nullptr && !answer.error && answer.fault.isEmpty()) {
    answer.fault = tr("exception without a text");
  }
  return answer;
}

// Invoked by name. The thread touches only members that `mutex_` guards, and Qt drops a queued call
// to an object that is being destroyed.
void EstimateWorker::post() {
  QMetaObject::invokeMethod(this, "collect", Qt::QueuedConnection);
}

void EstimateWorker::collect() {
  std::optional<quint64> begun;
  std::vector<Answer> finished;
  {
    const std::lock_guard lock(mutex_);
    begun = std::exchange(begun_, std::nullopt);
    finished.swap(finished_);
  }
  if (begun == newest_) {
    Q_EMIT started(newest_);
  }
  for (const Answer& answer : finished) {
    if (answer.request == newest_) {
      Q_EMIT answered(answer);
    }
  }
}

}  // namespace headroom::gui
