#pragma once

#include <memory>
#include <mutex>
#include <typeindex>
#include <unordered_map>
#include <utility>

#include "planner/evaluate/lowered_plan.h"

namespace headroom::plan {

/// What searches of one model on one device and machine have worked out and share. Requires that
/// the model, the device and the machine are always the same.
///
/// Threads: may be used by any number of threads.
class SearchRecords {
 public:
  LoweredRecords lowered;

  /// The records of one framework, of its own type; made from `arguments` when first
  /// asked for. Making one must not ask for others.
  template <typename Records, typename... Arguments>
  [[nodiscard]] Records& of(Arguments&&... arguments) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<void>& slot = own_[std::type_index(typeid(Records))];
    if (slot == nullptr) {
      slot = std::make_shared<Records>(std::forward<Arguments>(arguments)...);
    }
    return *static_cast<Records*>(slot.get());
  }

 private:
  std::mutex mutex_;
  std::unordered_map<std::type_index, std::shared_ptr<void>> own_;
};

}  // namespace headroom::plan
