#include "model_ir/spec/recording/used_parameters.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace headroom::ir {
namespace {

constexpr std::string_view kExperts = "experts";

/// A choice of experts for each token.
struct Router {
  std::int64_t chosen = 0;
  std::int64_t experts = 0;  ///< 0: the code does not show of how many.
};

/// A size that does not depend on the batch; otherwise 0.
std::int64_t constant_of(const SizeExpression& size) {
  const std::int64_t one = size.at({}).value_or(0);
  return size.at({.batch = 2, .sequence = 3}) == one ? one : 0;
}

/// The router that chooses last; nothing without one.
std::optional<Router> router_of(const RecordedCode& code) {
  std::optional<Router> router;
  std::map<std::uint32_t, std::int64_t> widths;  // The last dimension of each value so far.
  for (const Instruction& one : code.instructions) {
    if (one.name == "topk" && !one.outputs.empty() && !one.outputs.front().shape.empty()) {
      const std::uint32_t scores = one.inputs.empty() ? 0 : one.inputs.front().index;
      router = Router{.chosen = one.outputs.front().shape.back().at({}).value_or(0),
                      .experts = widths.contains(scores) ? widths.at(scores) : 0};
    }
    for (const RecordedOutput& output : one.outputs) {
      if (output.target.kind == Reference::Kind::kValue && !output.shape.empty()) {
        widths[output.target.index] = constant_of(output.shape.back());
      }
    }
  }
  return router;
}

bool calls_attention(const RecordedCode& code) {
  return std::ranges::any_of(code.instructions, [](const Instruction& one) {
    return one.name == "scaled_dot_product_attention" ||
           (one.kind == Instruction::Kind::kRepeat && calls_attention(one.loop->body.code));
  });
}

/// "7" in "mlp.experts.7.up_proj"; empty where the experts are no list of modules.
std::string_view number_in_list(std::string_view path) {
  const std::size_t at = path.find(kExperts);
  if (at == std::string_view::npos || path.substr(at + kExperts.size()).size() < 2) {
    return {};
  }
  const std::string_view rest = path.substr(at + kExperts.size() + 1);
  const std::string_view number = rest.substr(0, rest.find('.'));
  const bool is_number =
      std::ranges::all_of(number, [](char one) { return one >= '0' && one <= '9'; });
  return is_number ? number : std::string_view();
}

bool is_routed(std::string_view path) {
  return path.find(kExperts) != std::string_view::npos &&
         path.find("shared_experts") == std::string_view::npos;
}

class Use {
 public:
  explicit Use(const Recording& recording) : recording_(recording) {
    use_.elements.resize(recording.parameters.size());
  }

  RecordedUse found() {
    const RecordedVariant& variant = recording_.variants.front();
    add(variant.forward_scope, router_of(variant.forward));
    for (const RecordedLayer& layer : variant.layers) {
      const RecordedCode& code = variant.bodies[layer.body].code;
      add(layer.scope, router_of(code));
      use_.attending_layers += calls_attention(code) ? 1 : 0;
    }
    if (use_.attending_layers == 0) {
      use_.attending_layers = static_cast<std::int64_t>(variant.layers.size());
    }
    return std::move(use_);
  }

 private:
  void add(const RecordedScope& scope, const std::optional<Router>& router) {
    std::vector<std::uint32_t> parameters = scope.parameters;
    std::set<std::string_view> numbers;  // Experts that are modules of a list.
    for (const std::uint32_t module : scope.modules) {
      const RecordedModule& one = recording_.modules[module];
      parameters.insert(parameters.end(), one.linear.begin(), one.linear.end());
      const std::string_view number = number_in_list(one.path);
      if (!number.empty()) {
        numbers.insert(number);
      }
    }
    for (const std::uint32_t index : parameters) {
      add(index, router, static_cast<std::int64_t>(numbers.size()));
    }
  }

  void add(std::uint32_t index, const std::optional<Router>& router, std::int64_t listed) {
    const RecordedParameter& parameter = recording_.parameters[index];
    if (use_.elements[index] > 0) {
      return;  // The code runs several times.
    }
    const std::string& path = recording_.modules[parameter.module].path;
    std::int64_t elements = 1;
    for (const std::int64_t dim : parameter.dims) {
      elements *= dim;
    }
    const std::vector<std::int64_t>& dims = parameter.dims;
    const std::int64_t experts = router ? router->experts : 0;
    const bool is_listed = !number_in_list(path).empty();
    const bool is_stack = experts > 0 && dims.size() > 2 && dims.front() == experts && dims[1] > 1;
    const bool is_fused = (is_routed(path) || is_stack) && !is_listed && dims.size() > 2;
    use_.fused_experts += is_fused ? elements : 0;
    if (router && (is_fused || is_routed(path)) && (is_listed || dims.size() > 1)) {
      const bool is_multiple = experts > 0 && dims.front() % experts == 0;
      const std::int64_t count = is_listed ? listed : is_multiple ? experts : dims.front();
      if (count > router->chosen) {
        elements = elements / count * router->chosen;
      }
    }
    use_.elements[index] = elements;
  }

  const Recording& recording_;
  RecordedUse use_;
};

}  // namespace

RecordedUse use_of(const Recording& recording) {
  return Use(recording).found();
}

}  // namespace headroom::ir
