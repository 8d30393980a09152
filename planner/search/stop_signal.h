#pragma once

#include <atomic>
#include <chrono>
#include <optional>

namespace headroom::plan {

/// Ends a search before it is done: because the user asks for it, or because its time is over.
struct StopSignal {
  const std::atomic<bool>* flag = nullptr;  ///< Set when the user asks. Null: nobody can.
  std::optional<std::chrono::steady_clock::time_point> deadline{};

  [[nodiscard]] bool asked() const {
    return (flag != nullptr && flag->load()) ||
           (deadline && std::chrono::steady_clock::now() >= *deadline);
  }
};

}  // namespace headroom::plan
