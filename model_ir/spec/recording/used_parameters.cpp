#include "model_ir/spec/recording/used_parameters.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace headroom::ir {
namespace {

constexpr std::string_view kExperts = "experts";

/// The number of experts that the last router chooses for each token; nothing without a router.
std::optional<std::int64_t> chosen(const RecordedCode& code) {
  std::optional<std::int64_t> count;
  for (const Instruction& one : code.instructions) {
    if (one.name == "topk" && !one.outputs.empty() && !one.outputs.front().shape.empty()) {
      count = one.outputs.front().shape.back().at({});
    }
  }
  return count;
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
    add(variant.forward_scope, chosen(variant.forward));
    for (const RecordedLayer& layer : variant.layers) {
      const RecordedCode& code = variant.bodies[layer.body].code;
      add(layer.scope, chosen(code));
      use_.attending_layers += calls_attention(code) ? 1 : 0;
    }
    if (use_.attending_layers == 0) {
      use_.attending_layers = static_cast<std::int64_t>(variant.layers.size());
    }
    return std::move(use_);
  }

 private:
  void add(const RecordedScope& scope, const std::optional<std::int64_t>& experts) {
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
      add(index, experts, static_cast<std::int64_t>(numbers.size()));
    }
  }

  void add(std::uint32_t index, const std::optional<std::int64_t>& chosen_experts,
           std::int64_t listed) {
    const RecordedParameter& parameter = recording_.parameters[index];
    if (use_.elements[index] > 0) {
      return;  // The code runs several times.
    }
    const std::string& path = recording_.modules[parameter.module].path;
    std::int64_t elements = 1;
    for (const std::int64_t dim : parameter.dims) {
      elements *= dim;
    }
    const bool is_listed = !number_in_list(path).empty();
    const bool is_fused = is_routed(path) && !is_listed && parameter.dims.size() > 2;
    use_.fused_experts += is_fused ? elements : 0;
    if (chosen_experts && is_routed(path) && (is_listed || parameter.dims.size() > 1)) {
      const std::int64_t count = is_listed ? listed : parameter.dims.front();
      if (count > *chosen_experts) {
        elements = elements / count * *chosen_experts;
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
