#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace headroom::plan {

/// Runs `work(i)` for i in [0, count) on `threads` threads. If calls throw, the first exception is
/// rethrown once all threads have ended.
template <typename Work>
void in_parallel(std::size_t count, int threads, const Work& work) {
  std::atomic<std::size_t> next{0};
  std::once_flag caught;
  std::exception_ptr fault;
  const auto run = [&] {
    try {
      for (std::size_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) {
        work(i);
      }
    } catch (...) {
      std::call_once(caught, [&] { fault = std::current_exception(); });
      next = count;
    }
  };
  {
    std::vector<std::jthread> others;
    for (int i = 1; i < threads && static_cast<std::size_t>(i) < count; ++i) {
      others.emplace_back(run);
    }
    run();
  }
  if (fault) {
    std::rethrow_exception(fault);
  }
}

}  // namespace headroom::plan
