#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "model_ir/base/check.h"
#include "planner/space/framework_search.h"
#include "runtimes/deepspeed/search/search.h"
#include "runtimes/fsdp/search/search.h"
#include "runtimes/litgpt/search/search.h"
#include "runtimes/megatron/search/search.h"
#include "runtimes/registry.h"
#include "runtimes/search/registered_search.h"
#include "runtimes/torchtitan/search/search.h"
#include "runtimes/torchtune/search/search.h"
#include "runtimes/transformers/search/search.h"

namespace headroom::plan {
namespace {

/// The searches that frameworks bring: those that ship, then those of `RegisteredSearch`.
std::vector<const FrameworkSearch*>& own_searches() {
  static std::vector<const FrameworkSearch*> list = {
      &transformers_search(), &deepspeed_search(), &fsdp_search(),  &megatron_search(),
      &torchtitan_search(),   &torchtune_search(), &litgpt_search()};
  return list;
}

/// The search that a framework brings; nothing if it brings none.
const FrameworkSearch* own_search(std::string_view runtime) {
  const auto found = std::ranges::find(own_searches(), runtime, &FrameworkSearch::runtime);
  return found == own_searches().end() ? nullptr : *found;
}

/// The default `FrameworkSearch`, for frameworks that bring none.
const FrameworkSearch* usual_search(std::string_view runtime) {
  static std::mutex mutex;
  static std::map<std::string, FrameworkSearch, std::less<>> searches;
  const std::lock_guard lock(mutex);
  auto found = searches.find(runtime);
  if (found == searches.end()) {
    found = searches.try_emplace(std::string(runtime), runtime).first;
  }
  return &found->second;
}

const FrameworkSearch* search_named(std::string_view runtime) {
  const FrameworkSearch* const own = own_search(runtime);
  return own != nullptr ? own : usual_search(runtime);
}

}  // namespace

RegisteredSearch::RegisteredSearch(const FrameworkSearch& search) : search_(&search) {
  HEADROOM_ASSERT(own_search(search.runtime()) == nullptr);
  own_searches().push_back(search_);
}

RegisteredSearch::~RegisteredSearch() {
  std::erase(own_searches(), search_);
}

std::vector<const FrameworkSearch*> framework_searches() {
  std::vector<const FrameworkSearch*> all;
  for (const std::string_view runtime : ir::runtime_words()) {
    all.push_back(search_named(runtime));
  }
  return all;
}

const FrameworkSearch& search_of(const ir::ParallelPlan& plan) {
  return *search_named(plan.runtime);
}

}  // namespace headroom::plan
