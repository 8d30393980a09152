#pragma once

#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace headroom::plan {

/// Runs `work(i)` for i in [0, count) on `threads` threads.
template <typename Work>
void in_parallel(std::size_t count, int threads, const Work& work) {
  std::atomic<std::size_t> next{0};
  const auto run = [&] {
    for (std::size_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) {
      work(i);
    }
  };
  std::vector<std::jthread> others;
  for (int i = 1; i < threads && static_cast<std::size_t>(i) < count; ++i) {
    others.emplace_back(run);
  }
  run();
}

}  // namespace headroom::plan
