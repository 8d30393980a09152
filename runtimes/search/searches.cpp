#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "planner/space/framework_search.h"
#include "runtimes/deepspeed/search/search.h"
#include "runtimes/fsdp/search/search.h"
#include "runtimes/megatron/search/search.h"
#include "runtimes/registry.h"
#include "runtimes/torchtitan/search/search.h"
#include "runtimes/transformers/search/search.h"

namespace headroom::plan {
namespace {

/// The search that a framework brings; nothing if it brings none.
const FrameworkSearch* own_search(std::string_view runtime) {
  for (const FrameworkSearch* const search :
       {&transformers_search(), &deepspeed_search(), &fsdp_search(), &megatron_search(),
        &torchtitan_search()}) {
    if (search->runtime() == runtime) {
      return search;
    }
  }
  return nullptr;
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
