#include "gui/pages/newest_job.h"

#include <atomic>
#include <stdexcept>

#include <QSignalSpy>

#include <doctest/doctest.h>

#include "tests/gui/fake_estimate.h"

namespace headroom::gui {

using test::eventually;

TEST_CASE("NewestJob: delivers on the thread that owns it") {
  NewestJob job;
  const QSignalSpy finished(&job, &NewestJob::finished);
  QThread* worked = nullptr;
  QThread* delivered = nullptr;
  job.run([&](const std::stop_token&) {
    worked = QThread::currentThread();
    return [&] { delivered = QThread::currentThread(); };
  });
  CHECK(job.isBusy());
  REQUIRE(eventually([&] { return finished.count() == 1; }));
  CHECK(delivered == QThread::currentThread());
  CHECK(worked != delivered);
  CHECK_FALSE(job.isBusy());
}

TEST_CASE("NewestJob: a newer job stops the running one, whose result is dropped") {
  NewestJob job;
  const QSignalSpy finished(&job, &NewestJob::finished);
  std::atomic<bool> begun{false};
  std::vector<int> delivered;
  job.run([&](const std::stop_token& stop) -> NewestJob::Delivery {
    begun = true;
    begun.notify_one();
    while (!stop.stop_requested()) {
      std::this_thread::yield();
    }
    return [&] { delivered.push_back(1); };
  });
  begun.wait(false);
  job.run([&](const std::stop_token&) { return [&] { delivered.push_back(2); }; });
  REQUIRE(eventually([&] { return finished.count() == 1; }));
  CHECK(delivered == std::vector<int>{2});
}

TEST_CASE("NewestJob: a cancelled job is not delivered, the next one is") {
  NewestJob job;
  const QSignalSpy finished(&job, &NewestJob::finished);
  std::vector<int> delivered;
  job.run([&](const std::stop_token&) { return [&] { delivered.push_back(1); }; });
  job.cancel();
  CHECK_FALSE(job.isBusy());
  job.run([&](const std::stop_token&) { return [&] { delivered.push_back(2); }; });
  REQUIRE(eventually([&] { return finished.count() == 1; }));
  CHECK(delivered == std::vector<int>{2});
}

TEST_CASE("NewestJob: an exception is reported, not thrown") {
  NewestJob job;
  const QSignalSpy failed(&job, &NewestJob::failed);
  job.run([](const std::stop_token&) -> NewestJob::Delivery {
    throw std::runtime_error("a broken invariant");
  });
  REQUIRE(eventually([&] { return failed.count() == 1; }));
  CHECK(failed.front().front().toString() == QStringLiteral("a broken invariant"));
  CHECK_FALSE(job.isBusy());
}

}  // namespace headroom::gui
