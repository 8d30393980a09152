#include "runtimes/checkpoint/module_filter.h"

#include <algorithm>
#include <utility>

namespace headroom::ir::checkpoint {
namespace {

constexpr std::string_view kPatternMark = "re:";
constexpr std::string_view kExperts = ".experts";

bool is_component(std::string_view module, std::string_view name) {
  const std::string dotted = "." + std::string(module) + ".";
  return dotted.find("." + std::string(name) + ".") != std::string::npos;
}

}  // namespace

ModuleFilter::ModuleFilter(const CheckpointQuantisation& quantisation, Loader loader)
    : quantisation_(&quantisation),
      loader_(loader),
      rule_(rule_of(quantisation.method, loader)),
      kept_(compile(quantisation.kept, rule_)) {
  for (const QuantGroup& group : quantisation.groups) {
    targets_.push_back(compile(group.targets, Rule::kCompressed));
  }
}

// Source: transformers quantizers/quantizers_utils.py (should_convert_module); vLLM
// quantization/utils/quant_utils.py (is_layer_skipped), bitsandbytes.py (is_layer_skipped_bnb),
// compressed_tensors/utils.py (should_ignore_layer), modelopt.py (is_layer_excluded).
ModuleFilter::Rule ModuleFilter::rule_of(QuantMethod method, Loader loader) {
  switch (method) {
    case QuantMethod::kCompressedTensors:
      return Rule::kCompressed;
    case QuantMethod::kModelOpt:
      return Rule::kWildcard;
    case QuantMethod::kAwq:
      return loader == Loader::kVllm ? Rule::kSubstring : Rule::kPrefix;
    case QuantMethod::kBitsAndBytes:
      return loader == Loader::kVllm ? Rule::kComponent : Rule::kPrefix;
    case QuantMethod::kFp8:
    case QuantMethod::kFbgemmFp8:
    case QuantMethod::kMxfp4:
    case QuantMethod::kGptq:
    case QuantMethod::kUnknown:
      return loader == Loader::kVllm ? Rule::kExact : Rule::kPrefix;
  }
  return Rule::kExact;
}

std::vector<ModuleFilter::Name> ModuleFilter::compile(const std::vector<std::string>& names,
                                                      Rule rule) {
  std::vector<Name> compiled;
  compiled.reserve(names.size());
  for (const std::string& text : names) {
    Name name{.text = text, .pattern = {}};
    if (rule == Rule::kWildcard) {
      name.pattern = NamePattern::wildcard(text);
    } else if (rule == Rule::kPrefix || text.starts_with(kPatternMark)) {
      const std::string_view expression =
          rule == Rule::kPrefix ? name.text : name.text.substr(kPatternMark.size());
      Result<NamePattern> pattern = NamePattern::compile(expression);
      if (pattern) {
        name.pattern = std::move(pattern).value();
      } else {
        unread_ = text;
      }
    }
    compiled.push_back(std::move(name));
  }
  return compiled;
}

bool ModuleFilter::matches(Rule rule, const Name& name, std::string_view module) {
  switch (rule) {
    case Rule::kPrefix:
      return name.pattern.matches_prefix(module) || module.ends_with(name.text);
    case Rule::kExact:
      return name.text == module ||
             (module.ends_with(kExperts) && name.text.find(module) != std::string_view::npos);
    case Rule::kSubstring:
      return module.find(name.text) != std::string_view::npos;
    case Rule::kComponent:
      return is_component(module, name.text) ||
             (module.starts_with(name.text) && module.substr(name.text.size()).starts_with("."));
    case Rule::kCompressed:
      return name.text == module || name.text == "Linear" ||
             (name.text.starts_with(kPatternMark) && name.pattern.matches_prefix(module));
    case Rule::kWildcard:
      return name.pattern.matches_all(module);
  }
  return false;
}

bool ModuleFilter::match_any(Rule rule, const std::vector<Name>& names, std::string_view module) {
  const bool by_expert =
      (rule == Rule::kCompressed || rule == Rule::kWildcard) && module.ends_with(kExperts);
  const std::string first = std::string(module) + ".0.gate_proj";
  return std::ranges::any_of(names, [&](const Name& name) {
    return matches(rule, name, module) || (by_expert && matches(rule, name, first));
  });
}

const QuantGroup* ModuleFilter::group_of(std::string_view module, bool is_head) const {
  const QuantMethod method = quantisation_->method;
  const bool grouped =
      method == QuantMethod::kCompressedTensors || method == QuantMethod::kModelOpt;
  if (is_head) {
    // vLLM's ParallelLMHead is no linear layer; only GPTQ may quantise it. transformers leaves it
    // out where the file has no list, and always for AWQ; optimum converts the blocks alone.
    const bool by_default =
        quantisation_->names_kept && method != QuantMethod::kAwq && method != QuantMethod::kGptq;
    const bool possible = loader_ == Loader::kVllm
                              ? method == QuantMethod::kGptq && quantisation_->head
                              : by_default || grouped;
    if (!possible) {
      return nullptr;
    }
  }
  if (match_any(rule_, kept_, module)) {
    return nullptr;
  }
  for (std::size_t at = 0; at < targets_.size(); ++at) {
    if (!grouped || match_any(Rule::kCompressed, targets_[at], module)) {
      return &quantisation_->groups[at];
    }
  }
  return nullptr;
}

}  // namespace headroom::ir::checkpoint
