#include <functional>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "runtimes/torch/eager.h"
#include "runtimes/torch/flash_package.h"
#include "runtimes/torch/functions.h"

namespace headroom::ir::torch {
namespace {

/// An operator whose node saves its own output.
struct Operator {
  std::string name;
  std::function<Tensor(Eager& eager, const Tensor& input)> run;
};

std::vector<Operator> operators_that_save_their_output() {
  return {
      {"softmax", [](Eager& e, const Tensor& x) { return softmax_last(e, x, DType::kFp32); }},
      {"log_softmax", [](Eager& e, const Tensor& x) { return log_softmax(e, x, DType::kFp32); }},
      {"rsqrt", rsqrt},
      {"tanh", tanh},
      {"sigmoid", sigmoid},
      {"attention", [](Eager& e, const Tensor& x) { return sdpa(e, x, x, x, {}); }},
      {"attention of cuDNN",
       [](Eager& e, const Tensor& x) {
         SdpaOptions options;
         options.cudnn = true;
         return sdpa(e, x, x, x, options);
       }},
      {"attention of flash-attn",
       [](Eager& e, const Tensor& x) { return flash_package(e, x, x, x, {}); }},
  };
}

}  // namespace

TEST_CASE("autograd: an output that nobody uses is freed together with its node") {
  for (const Operator& each : operators_that_save_their_output()) {
    CAPTURE(each.name);
    Eager eager{DeviceTraits{}};
    const Tensor input = eager.parameter({2, 4, 64, 64}, DType::kBf16, true);
    const std::size_t start = eager.program().events.size();
    {
      const Tensor output = each.run(eager, input);
      CHECK(output->grad_fn != nullptr);
    }
    std::set<BlockId> alive;
    const std::vector<Event>& events = eager.program().events;
    for (std::size_t i = start; i < events.size(); ++i) {
      if (events[i].kind == EventKind::kAllocate) {
        alive.insert(events[i].block);
      } else if (events[i].kind == EventKind::kFree) {
        alive.erase(events[i].block);
      }
    }
    CHECK(alive.empty());
  }
}

}  // namespace headroom::ir::torch
