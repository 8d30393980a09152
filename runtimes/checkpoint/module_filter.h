#pragma once

#include <string_view>
#include <vector>

#include "model_ir/spec/checkpoint_quantisation.h"
#include "runtimes/checkpoint/loader.h"
#include "runtimes/checkpoint/name_pattern.h"

namespace headroom::ir::checkpoint {

/// Tells which modules of a checkpoint are quantised, and by which group.
class ModuleFilter {
 public:
  ModuleFilter(const CheckpointQuantisation& quantisation, Loader loader);

  /// The group by which the weight of a linear layer is quantised; nullptr: none.
  /// `module` is its name without ".weight"; `is_head`: the output matrix.
  [[nodiscard]] const QuantGroup* group_of(std::string_view module, bool is_head) const;

  /// The first name of the checkpoint that is no pattern which can be read; empty: all can.
  [[nodiscard]] std::string_view unread() const { return unread_; }

 private:
  /// The comparison of a name in the list with a module.
  enum class Rule {
    kPrefix,      ///< transformers: re.match, or the module ends with the name.
    kExact,       ///< vLLM: the same name; of experts, a part of the name in the list.
    kSubstring,   ///< vLLM, AWQ: the name is in the module's.
    kComponent,   ///< vLLM, bitsandbytes: a part between dots, or all before one.
    kCompressed,  ///< compressed-tensors: the same name, a class, or a pattern after "re:".
    kWildcard,    ///< Model Optimizer.
  };
  struct Name {
    std::string_view text;
    NamePattern pattern;
  };

  [[nodiscard]] static Rule rule_of(QuantMethod method, Loader loader);
  [[nodiscard]] static bool matches(Rule rule, const Name& name, std::string_view module);
  [[nodiscard]] static bool match_any(Rule rule, const std::vector<Name>& names,
                                      std::string_view module);
  [[nodiscard]] std::vector<Name> compile(const std::vector<std::string>& names, Rule rule);

  std::string_view unread_;  // Set by `compile`, so it comes before what is compiled.
  const CheckpointQuantisation* quantisation_;
  Loader loader_;
  Rule rule_;
  std::vector<Name> kept_;
  std::vector<std::vector<Name>> targets_;  ///< The names of each group.
};

}  // namespace headroom::ir::checkpoint
