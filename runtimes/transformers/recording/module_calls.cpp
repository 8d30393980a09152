#include "runtimes/transformers/recording/module_calls.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "model_ir/spec/recording/module_path.h"

namespace headroom::ir::transformers {
namespace {

/// Classes whose call is one operator.
/// Source: pytorch/pytorch torch/nn/modules/activation.py, dropout.py;
///         huggingface/transformers src/transformers/activations.py.
std::string_view operator_of(std::string_view type) {
  struct Known {
    std::string_view type, name;
  };
  static constexpr std::array kKnown = {Known{"SiLUActivation", "silu"},
                                        Known{"SiLU", "silu"},
                                        Known{"GELUActivation", "gelu"},
                                        Known{"GELU", "gelu"},
                                        Known{"GELUTanh", "gelu"},
                                        Known{"PytorchGELUTanh", "gelu"},
                                        Known{"ReLU", "relu"},
                                        Known{"ReLUSquaredActivation", "relu"},
                                        Known{"Tanh", "tanh"},
                                        Known{"Sigmoid", "sigmoid"},
                                        Known{"Dropout", "native_dropout"}};
  const auto* const found = std::ranges::find(kKnown, type, &Known::type);
  return found == kKnown.end() ? std::string_view{} : found->name;
}

/// Lists of modules, which are never called themselves.
bool is_list(std::string_view type) {
  return type == "ModuleList" || type == "ModuleDict" || type == "ParameterList" ||
         type == "ParameterDict";
}

class CallFinder {
 public:
  CallFinder(const Recording& recording, const CalledCode& called)
      : recording_(recording),
        called_(called),
        owner_(recording.modules[called.module].path),
        makers_(called.code.values, kArgument) {
    for (std::size_t i = 0; i < recording.modules.size(); ++i) {
      modules_.emplace(recording.modules[i].path, static_cast<std::uint32_t>(i));
    }
    for (std::uint32_t i = 0; i < instructions().size(); ++i) {
      for (const RecordedOutput& output : instructions()[i].outputs) {
        const bool made = instructions()[i].kind != Instruction::Kind::kNode &&
                          output.target.kind == Reference::Kind::kValue;
        if (made) {
          makers_[output.target.index] = i;
        }
      }
    }
  }

  std::vector<CodeCall> find() {
    find_recorded();
    find_outer();
    find_single();
    std::ranges::stable_sort(spans_, [](const Span& left, const Span& right) {
      return left.first != right.first ? left.first < right.first : left.last > right.last;
    });
    std::vector<CodeCall> calls;
    for (const Span& span : spans_) {
      if (span.called) {
        calls.push_back({.path = std::string(relative(span.path)),
                         .first = span.first,
                         .last = span.last,
                         .input = input_of(span),
                         .outputs = outputs_of(span)});
      }
    }
    return calls;
  }

 private:
  static constexpr std::uint32_t kArgument = UINT32_MAX;

  struct Span {
    std::string_view path;
    std::uint32_t first = 0;
    std::uint32_t last = 0;
    bool called = true;  ///< False: it only shows that the modules around it run.
  };

  [[nodiscard]] const std::vector<Instruction>& instructions() const {
    return called_.code.instructions;
  }
  [[nodiscard]] std::string_view path_of(std::uint32_t module) const {
    return recording_.modules[module].path;
  }
  [[nodiscard]] std::string_view type_of(std::string_view path) const {
    const auto found = modules_.find(path);
    return found == modules_.end() ? std::string_view{} : recording_.modules[found->second].type;
  }
  [[nodiscard]] std::string_view relative(std::string_view path) const {
    return owner_.empty() ? path : path.substr(std::min(path.size(), owner_.size() + 1));
  }

  /// Calls that the code has, and those of modules whose buffers it reads.
  void find_recorded() {
    std::vector<Span> open;
    for (std::uint32_t i = 0; i < instructions().size(); ++i) {
      const Instruction& instruction = instructions()[i];
      switch (instruction.kind) {
        case Instruction::Kind::kEnter:
          open.push_back({.path = path_of(called_.scope.modules[instruction.index]), .first = i});
          recorded_.insert(open.back().path);
          break;
        case Instruction::Kind::kLeave:
          if (!open.empty()) {
            open.back().last = i;
            spans_.push_back(open.back());
            open.pop_back();
          }
          break;
        case Instruction::Kind::kLinear:
          spans_.push_back({.path = path_of(called_.scope.modules[instruction.index]),
                            .first = i,
                            .last = i,
                            .called = false});
          break;
        case Instruction::Kind::kLayer:
          spans_.push_back({.path = path_of(called_.layers[instruction.index].module),
                            .first = i,
                            .last = i,
                            .called = false});
          break;
        case Instruction::Kind::kOp:
          find_reader(i, open);
          break;
        default:
          break;
      }
    }
    std::ranges::stable_sort(spans_, {}, &Span::first);
  }

  /// A module that reads its buffer at instruction `i`, unless it is running.
  void find_reader(std::uint32_t i, const std::vector<Span>& open) {
    for (const Reference& input : instructions()[i].inputs) {
      if (input.kind != Reference::Kind::kBuffer) {
        continue;
      }
      const std::string_view path =
          parent_of(recording_.buffers[called_.scope.buffers[input.index]].name);
      const bool runs = path == owner_ || recorded_.contains(path) ||
                        std::ranges::find(open, path, &Span::path) != open.end();
      if (!runs && modules_.contains(path)) {
        spans_.push_back({.path = path, .first = i, .last = i});
        recorded_.insert(path);
        return;
      }
    }
  }

  /// Modules around those whose calls are known.
  void find_outer() {
    std::vector<Span> open, closed;
    for (const Span& span : spans_) {
      while (!open.empty() && !is_inside(parent_of(span.path), open.back().path)) {
        closed.push_back(open.back());
        open.pop_back();
      }
      std::vector<std::string_view> outer;
      for (std::string_view path = parent_of(span.path); path.size() > owner_.size();
           path = parent_of(path)) {
        const bool runs = recorded_.contains(path) || is_list(type_of(path)) ||
                          std::ranges::find(open, path, &Span::path) != open.end();
        if (!runs && modules_.contains(path)) {
          outer.push_back(path);
        }
      }
      for (auto path = outer.rbegin(); path != outer.rend(); ++path) {
        open.push_back({.path = *path, .first = span.first, .last = span.last});
      }
      for (Span& each : open) {
        each.last = std::max(each.last, span.last);
      }
    }
    closed.insert(closed.end(), open.begin(), open.end());
    for (const Span& span : closed) {
      recorded_.insert(span.path);
      spans_.push_back(span);
    }
  }

  /// Modules that run one operator, by their classes.
  void find_single() {
    std::vector<Span> found;
    for (std::uint32_t i = 0; i < instructions().size(); ++i) {
      if (instructions()[i].kind != Instruction::Kind::kOp) {
        continue;
      }
      std::string_view around = owner_;
      for (const Span& span : spans_) {
        const bool inner = span.first <= i && i <= span.last && is_inside(span.path, around);
        around = inner ? span.path : around;
      }
      for (const RecordedModule& module : recording_.modules) {
        if (operator_of(module.type) == instructions()[i].name &&
            parent_of(module.path) == around && recorded_.insert(module.path).second) {
          found.push_back({.path = module.path, .first = i, .last = i});
          break;
        }
      }
    }
    spans_.insert(spans_.end(), found.begin(), found.end());
  }

  /// The first value from outside that the call reads.
  [[nodiscard]] std::optional<std::uint32_t> input_of(const Span& span) const {
    if (type_of(span.path).find("Attention") != std::string_view::npos) {
      return std::nullopt;
    }
    for (std::uint32_t i = span.first; i <= span.last; ++i) {
      if (instructions()[i].kind == Instruction::Kind::kDrop) {
        continue;
      }
      for (const Reference& input : instructions()[i].inputs) {
        const bool outside =
            input.kind == Reference::Kind::kValue &&
            (makers_[input.index] == kArgument || makers_[input.index] < span.first);
        if (outside) {
          return input.index;
        }
      }
    }
    return std::nullopt;
  }

  [[nodiscard]] std::vector<std::uint32_t> outputs_of(const Span& span) const {
    const auto is_made = [&](std::uint32_t value) {
      return makers_[value] != kArgument && makers_[value] >= span.first &&
             makers_[value] <= span.last;
    };
    std::vector<std::uint32_t> outputs;
    const auto read = [&](std::uint32_t value) {
      if (is_made(value) && std::ranges::find(outputs, value) == outputs.end()) {
        outputs.push_back(value);
      }
    };
    for (std::size_t i = span.last + std::size_t{1}; i < instructions().size(); ++i) {
      if (instructions()[i].kind == Instruction::Kind::kDrop) {
        continue;
      }
      for (const Reference& input : instructions()[i].inputs) {
        if (input.kind == Reference::Kind::kValue) {
          read(input.index);
        }
      }
    }
    std::ranges::for_each(called_.outputs, read);
    std::ranges::sort(outputs);
    return outputs;
  }

  const Recording& recording_;
  const CalledCode& called_;
  std::string_view owner_;
  std::unordered_map<std::string_view, std::uint32_t> modules_;
  std::vector<std::uint32_t> makers_;  ///< By value: the instruction that makes it.
  std::vector<Span> spans_;
  std::set<std::string_view> recorded_;  ///< Modules whose calls are known.
};

}  // namespace

std::vector<CodeCall> calls_of(const Recording& recording, const CalledCode& called) {
  return CallFinder(recording, called).find();
}

ModuleCalls::ModuleCalls(const Recording& recording, const RecordedVariant& variant)
    : bodies_(variant.bodies.size()) {
  std::unordered_map<std::string_view, std::uint32_t> modules;
  for (std::size_t i = 0; i < recording.modules.size(); ++i) {
    modules.emplace(recording.modules[i].path, static_cast<std::uint32_t>(i));
  }
  const auto modules_of = [&](const std::string& owner, const std::vector<CodeCall>& calls) {
    std::vector<std::uint32_t> found;
    for (const CodeCall& call : calls) {
      const auto entry = modules.find(owner.empty() ? call.path : owner + "." + call.path);
      found.push_back(entry == modules.end() ? 0 : entry->second);
    }
    return found;
  };
  std::vector<bool> known(variant.bodies.size(), false);
  for (const RecordedLayer& layer : variant.layers) {
    const RecordedBody& body = variant.bodies[layer.body];
    if (!known[layer.body]) {
      known[layer.body] = true;
      bodies_[layer.body] = calls_of(recording, {.code = body.code,
                                                 .scope = layer.scope,
                                                 .outputs = body.outputs,
                                                 .layers = variant.layers,
                                                 .module = layer.module});
    }
    bodies_of_layers_.push_back(layer.body);
    layer_modules_.push_back(modules_of(recording.modules[layer.module].path, bodies_[layer.body]));
  }
  const std::vector<std::uint32_t> none;
  forward_ = calls_of(recording, {.code = variant.forward,
                                  .scope = variant.forward_scope,
                                  .outputs = none,
                                  .layers = variant.layers,
                                  .module = 0});
  forward_modules_ = modules_of({}, forward_);
}

}  // namespace headroom::ir::transformers
