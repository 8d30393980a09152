#include "gui/pages/newest_job.h"

#include <exception>
#include <utility>

#include <QMetaObject>

namespace headroom::gui {

NewestJob::NewestJob(QObject* parent) : QObject(parent) {
  thread_ = std::jthread([this](const std::stop_token& quit) { loop(quit); });
}

NewestJob::~NewestJob() {
  current_.request_stop();
  thread_.request_stop();
  thread_.join();  // Joined while all members are still alive.
}

void NewestJob::run(Work work) {
  current_.request_stop();
  current_ = std::stop_source();
  busy_ = true;
  {
    const std::lock_guard lock(mutex_);
    waiting_ = Job{.number = ++newest_, .work = std::move(work), .stop = current_.get_token()};
  }
  wake_.notify_one();
}

void NewestJob::cancel() {
  current_.request_stop();
  ++newest_;  // No result has this number.
  busy_ = false;
  const std::lock_guard lock(mutex_);
  waiting_.reset();
}

NewestJob::Result NewestJob::result_of(const Job& job) {
  Result result{.number = job.number, .delivery = {}, .fault = {}};
  try {
    result.delivery = job.work(job.stop);
  } catch (const std::exception& fault) {
    result.fault = QString::fromUtf8(fault.what());
  } catch (...) {
    result.fault = tr("unknown exception");
  }
  return result;
}

void NewestJob::loop(const std::stop_token& quit) {
  while (true) {
    std::optional<Job> job;
    {
      std::unique_lock lock(mutex_);
      if (!wake_.wait(lock, quit, [this] { return waiting_.has_value(); })) {
        return;
      }
      job = std::exchange(waiting_, std::nullopt);
    }
    Result result = result_of(*job);
    {
      const std::lock_guard lock(mutex_);
      done_ = std::move(result);
    }
    // Invoked by name: Qt drops a queued call to an object that is being destroyed.
    QMetaObject::invokeMethod(this, "collect", Qt::QueuedConnection);
  }
}

void NewestJob::collect() {
  std::optional<Result> result;
  {
    const std::lock_guard lock(mutex_);
    result = std::exchange(done_, std::nullopt);
  }
  if (!result || result->number != newest_) {
    return;
  }
  busy_ = false;
  if (!result->fault.isEmpty()) {
    Q_EMIT failed(result->fault);
    return;
  }
  if (result->delivery) {
    result->delivery();
  }
  if (!busy_) {  // A delivery may have started the next job.
    Q_EMIT finished();
  }
}

}  // namespace headroom::gui
