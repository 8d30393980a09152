#pragma once

#include <memory>
#include <mutex>
#include <typeindex>
#include <unordered_map>
#include <utility>

#include "planner/evaluate/lowered_plan.h"

namespace headroom::plan {

/// Results that searches of one model on one device and machine share. Requires: model, device and
/// machine are always the same.
///
/// Threads: may be used by any number of threads.
class SearchRecords {
 public:
  LoweredRecords lowered;

  /// The records of one framework, in its own type. They are made from `arguments` at the first
  /// call. Making them must not request other records.
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
