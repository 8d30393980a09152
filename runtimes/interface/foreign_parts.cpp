#include "runtimes/interface/foreign_parts.h"

#include <algorithm>
#include <array>
#include <string>

namespace headroom::ir {
namespace {

struct Part {
  std::string_view name;
  bool given;
  std::string_view owner;  ///< The framework that reads it.
};

}  // namespace

Status refuse_foreign_parts(const ParallelPlan& plan, std::initializer_list<std::string_view> own) {
  const std::array<Part, 6> parts = {{{"megatron", plan.megatron.has_value(), "megatron"},
                                      {"zero", plan.zero.has_value(), "deepspeed"},
                                      {"ddp", plan.ddp.has_value(), "transformers"},
                                      {"fsdp", plan.fsdp.has_value(), "fsdp"},
                                      {"titan", plan.titan.has_value(), "torchtitan"},
                                      {"tune", plan.tune.has_value(), "torchtune"}}};
  for (const Part& part : parts) {
    if (part.given && std::ranges::find(own, part.name) == own.end()) {
      const std::string owner(part.owner);
      return Error::invalid_argument(part.name, "options of " + owner + " with " + plan.runtime,
                                     "the runtime " + owner, "use --runtime " + owner);
    }
  }
  return ok();
}

}  // namespace headroom::ir
