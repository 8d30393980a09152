#include "gui/whatif/estimate_worker.h"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include <QSignalSpy>

#include <doctest/doctest.h>

#include "tests/gui/fake_estimate.h"

namespace headroom::gui {
namespace {

using test::eventually;
using test::with_micro_batch;

/// Keeps the answers of a worker.
struct Listener {
  explicit Listener(EstimateWorker& worker) {
    QObject::connect(&worker, &EstimateWorker::answered, &worker,
                     [this](const Answer& answer) { answers.push_back(answer); });
  }
  std::vector<Answer> answers;
};

/// Blocks until stop is requested.
void wait_for(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  wake.wait(lock, stop, [] { return false; });
}

}  // namespace

TEST_CASE("EstimateWorker: answers a request with its number, off the thread that asked") {
  std::atomic<bool> elsewhere = false;
  EstimateWorker worker([asker = std::this_thread::get_id(), &elsewhere](
                            const Scenario& scenario, const std::stop_token& /*stop*/) {
    elsewhere = std::this_thread::get_id() != asker;
    return test::answer(scenario);
  });
  const Listener listener(worker);
  const quint64 request =
      worker.ask(with_micro_batch(default_scenario(), 3), EstimateWorker::Urgency::kNow);
  REQUIRE(eventually([&] { return !listener.answers.empty(); }));
  CHECK(elsewhere);
  CHECK(listener.answers[0].request == request);
  CHECK(listener.answers[0].scenario == with_micro_batch(default_scenario(), 3));
  REQUIRE(listener.answers[0].estimate);
  CHECK(listener.answers[0].estimate->peak_allocated == Bytes{35 * kGiB});
}

TEST_CASE("EstimateWorker: of a burst of edits, the last is shown and few others computed") {
  std::vector<std::int64_t> computed;  // Used on the worker's thread until the last answer.
  EstimateWorker worker([&computed](const Scenario& scenario, const std::stop_token& /*stop*/) {
    computed.push_back(scenario.plan.workload.micro_batch);
    return test::answer(scenario);
  });
  const Listener listener(worker);
  quint64 last = 0;
  for (int micro_batch = 1; micro_batch <= 20; ++micro_batch) {
    last = worker.ask(with_micro_batch(default_scenario(), micro_batch));
  }
  REQUIRE(eventually([&] { return !listener.answers.empty(); }));
  CHECK(computed.size() < 20);  // Two, unless this thread is held up.
  CHECK(computed.back() == 20);
  CHECK(listener.answers.size() == 1);
  CHECK(listener.answers[0].request == last);
  CHECK(listener.answers[0].scenario.plan.workload.micro_batch == 20);
}

TEST_CASE("EstimateWorker: a newer request stops the one that runs, whose answer is dropped") {
  std::atomic<bool> running = false;
  std::atomic<bool> stopped = false;
  EstimateWorker worker([&](const Scenario& scenario, const std::stop_token& stop) {
    if (scenario.plan.workload.micro_batch == 1) {
      running = true;
      wait_for(stop);
      stopped = true;
    }
    return test::answer(scenario);
  });
  const Listener listener(worker);
  worker.ask(with_micro_batch(default_scenario(), 1), EstimateWorker::Urgency::kNow);
  REQUIRE(eventually([&] { return running.load(); }));
  const quint64 newest =
      worker.ask(with_micro_batch(default_scenario(), 2), EstimateWorker::Urgency::kNow);
  REQUIRE(eventually([&] { return !listener.answers.empty(); }));
  CHECK(stopped);
  CHECK(listener.answers.size() == 1);
  CHECK(listener.answers[0].request == newest);
}

TEST_CASE("EstimateWorker: an answer that is ready before a newer question is still dropped") {
  std::atomic<int> finished = 0;
  EstimateWorker worker([&](const Scenario& scenario, const std::stop_token& /*stop*/) {
    ++finished;
    return test::answer(scenario);
  });
  const Listener listener(worker);
  worker.ask(with_micro_batch(default_scenario(), 1), EstimateWorker::Urgency::kNow);
  while (finished == 0) {  // Without the event loop: the answer waits in the queue.
    std::this_thread::yield();
  }
  const quint64 newest =
      worker.ask(with_micro_batch(default_scenario(), 2), EstimateWorker::Urgency::kNow);
  REQUIRE(eventually([&] { return !listener.answers.empty(); }));
  CHECK(listener.answers.size() == 1);
  CHECK(listener.answers[0].request == newest);
}

TEST_CASE("EstimateWorker: reports when the newest request has begun") {
  EstimateWorker worker([](const Scenario& scenario, const std::stop_token& /*stop*/) {
    return test::answer(scenario);
  });
  QSignalSpy started(&worker, &EstimateWorker::started);
  const quint64 request = worker.ask(default_scenario(), EstimateWorker::Urgency::kNow);
  REQUIRE(eventually([&] { return started.count() > 0; }));
  CHECK(started.at(0).at(0).toULongLong() == request);
}

TEST_CASE("EstimateWorker: an error of the input arrives whole") {
  const Error error = Error::invalid_argument("gpu", "h1000", "a GPU", "use h100");
  EstimateWorker worker(
      [&error](const Scenario& /*scenario*/, const std::stop_token& /*stop*/) -> Result<Appraisal> {
        return error;
      });
  const Listener listener(worker);
  worker.ask(default_scenario(), EstimateWorker::Urgency::kNow);
  REQUIRE(eventually([&] { return !listener.answers.empty(); }));
  CHECK(listener.answers[0].error == error);
  CHECK(listener.answers[0].estimate == nullptr);
}

TEST_CASE("EstimateWorker: exceptions become messages, and the next question is answered") {
  EstimateWorker worker(
      [](const Scenario& scenario, const std::stop_token& /*stop*/) -> Result<Appraisal> {
        if (scenario.plan.workload.micro_batch == 1) {
          throw InternalError("broken invariant");
        }
        if (scenario.plan.workload.micro_batch == 2) {
          throw 42;  // NOLINT(hicpp-exception-baseclass): whatever a library may throw.
        }
        return test::answer(scenario);
      });
  const Listener listener(worker);
  for (std::size_t micro_batch = 1; micro_batch <= 3; ++micro_batch) {
    worker.ask(with_micro_batch(default_scenario(), static_cast<std::int64_t>(micro_batch)),
               EstimateWorker::Urgency::kNow);
    REQUIRE(eventually([&] { return listener.answers.size() == micro_batch; }));
  }
  CHECK(listener.answers[0].fault == QStringLiteral("broken invariant"));
  CHECK_FALSE(listener.answers[1].fault.isEmpty());
  CHECK(listener.answers[2].estimate != nullptr);
}

TEST_CASE("EstimateWorker: goes away in the middle of a question") {
  std::atomic<bool> running = false;
  std::atomic<bool> stopped = false;
  {
    EstimateWorker worker([&](const Scenario& scenario, const std::stop_token& stop) {
      running = true;
      wait_for(stop);
      stopped = true;
      return test::answer(scenario);
    });
    worker.ask(default_scenario(), EstimateWorker::Urgency::kNow);
    REQUIRE(eventually([&] { return running.load(); }));
  }
  CHECK(stopped);
}

}  // namespace headroom::gui
