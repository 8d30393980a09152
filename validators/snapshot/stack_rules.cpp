#include "validators/snapshot/stack_rules.h"

#include <algorithm>
#include <utility>

#include "model_ir/json/json_reader.h"

namespace headroom::check {
namespace {

constexpr std::array<std::string_view, kBlockUseCount> kUseNames = {
    "parameters",    "gradients",  "optimizer states", "activations", "temporaries",
    "communication", "workspaces", "other code",       "unexplained"};

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

BlockUse read_use(const ir::JsonObject& object, std::string_view key) {
  const std::string name = object.text(key);
  const auto* const found = std::ranges::find(kUseNames, name);
  if (found == kUseNames.end()) {
    object.refuse(key,
                  "parameters, gradients, optimizer states, activations, temporaries, "
                  "communication, workspaces or other code");
    return BlockUse::kOther;
  }
  return static_cast<BlockUse>(found - kUseNames.begin());
}

StackRule read_rule(const ir::JsonObject& object) {
  StackRule rule{.phase = object.text("phase"),
                 .file = object.text_or("file", ""),
                 .functions = object.texts_or_none("functions"),
                 .function_part = object.text_or("function_part", ""),
                 .kept = read_use(object, "kept"),
                 .passing = read_use(object, "passing")};
  object.accept("source");
  if (!object.has("source")) {
    object.refuse("source", "where the framework's code is");
  }
  return rule;
}

bool matches(const StackRule& rule, std::string_view file, std::string_view function) {
  const bool any = rule.file.empty() && rule.functions.empty() && rule.function_part.empty();
  return !any && contains(file, rule.file) && contains(function, rule.function_part) &&
         (rule.functions.empty() ||
          std::ranges::find(rule.functions, function) != rule.functions.end());
}

std::string_view last_part(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

/// What stands between `before` and the next "::" or "(" of a name; empty: `before` is not in it.
std::string_view word_after(std::string_view name, std::string_view before) {
  const std::size_t begin = name.find(before);
  if (begin == std::string_view::npos) {
    return {};
  }
  const std::string_view rest = name.substr(begin + before.size());
  return rest.substr(0, std::min(rest.find("::"), rest.find('(')));
}

/// The operator and the autograd node of a stack of C++: "mm of AddmmBackward0".
///
/// Source:  pytorch 2.11: at::_ops::NAME::call, torch::autograd::generated::NODE::apply.
std::string operator_of(const Snapshot& snapshot, StackId stack) {
  std::string_view operation;
  std::string_view node;
  for (const FrameId frame : snapshot.stack(stack)) {
    const std::string_view name = snapshot.function(frame);
    if (const std::string_view found = word_after(name, "at::_ops::"); !found.empty()) {
      operation = found;  // The outermost one is what was called; the others are its parts.
    }
    if (const std::string_view found = word_after(name, "torch::autograd::generated::");
        node.empty() && contains(name, "Backward") && contains(name, "::apply(")) {
      node = found;
    }
  }
  return std::string(operation) + (operation.empty() || node.empty() ? "" : " of ") +
         std::string(node);
}

/// The name of a C++ function without its arguments, and not longer than a line.
std::string short_function(std::string_view name) {
  constexpr std::size_t kMost = 40;
  std::string text(name.substr(0, name.find('(', name.starts_with('(') ? 1 : 0)));
  if (text.size() > kMost) {
    text = "..." + text.substr(text.size() - kMost + 3);
  }
  return text;
}

}  // namespace

std::string_view name_of(BlockUse use) {
  return kUseNames.at(static_cast<std::size_t>(use));
}

Result<StackRules> read_stack_rules(const std::string& path) {
  Result<ir::JsonReader> reader = ir::JsonReader::from_file(path);
  if (!reader) {
    return std::move(reader).error();
  }
  StackRules rules;
  const ir::JsonObject root = reader->root();
  for (const ir::JsonObject& object : root.objects_or_none("rules")) {
    rules.rules.push_back(read_rule(object));
    if (object.boolean_or("without_frames", false)) {
      rules.without_frames = rules.rules.size() - 1;
    }
  }
  rules.libraries = root.texts_or_none("libraries");
  if (Status read = reader->finish_refusing_unknown_keys(); !read) {
    return std::move(read).error();
  }
  return rules;
}

StackSorter::StackSorter(const StackRules& rules, const Snapshot& snapshot)
    : rules_(rules), snapshot_(snapshot) {
  const auto none = static_cast<std::uint32_t>(rules.rules.size());
  std::vector<std::uint32_t> by_frame(snapshot.frames.size(), none);
  is_library_.assign(snapshot.frames.size(), false);
  for (FrameId frame = 0; frame < snapshot.frames.size(); ++frame) {
    const std::string_view file = snapshot.file(frame);
    const std::string_view function = snapshot.function(frame);
    const auto first = std::ranges::find_if(
        rules.rules, [&](const StackRule& rule) { return matches(rule, file, function); });
    by_frame[frame] = static_cast<std::uint32_t>(first - rules.rules.begin());
    is_library_[frame] = std::ranges::any_of(
        rules.libraries, [&](const std::string& part) { return contains(file, part); });
  }
  rule_by_stack_.assign(snapshot.stacks(), none);
  for (StackId stack = 0; stack < snapshot.stacks(); ++stack) {
    for (const FrameId frame : snapshot.stack(stack)) {
      rule_by_stack_[stack] = std::min(rule_by_stack_[stack], by_frame[frame]);
    }
  }
  for (const DeviceTrace& trace : snapshot.traces) {
    has_frames_ = has_frames_ || std::ranges::any_of(trace.entries, [](const TraceEntry& entry) {
                    return entry.stack != 0;
                  });
  }
}

std::optional<std::size_t> StackSorter::rule_of(StackId stack) const {
  if (stack == 0) {
    return has_frames_ ? rules_.without_frames : std::nullopt;
  }
  const std::size_t rule = rule_by_stack_[stack];
  return rule < rules_.rules.size() ? std::optional(rule) : std::nullopt;
}

BlockUse StackSorter::use_of(const BlockLife& life) const {
  if (life.stack == 0 && life.begin == BlockLife::kBefore) {
    return BlockUse::kUnexplained;
  }
  const std::optional<std::size_t> rule = rule_of(life.stack);
  if (!rule) {
    return life.stack == 0 ? BlockUse::kUnexplained : BlockUse::kOther;
  }
  const StackRule& made = rules_.rules[*rule];
  const bool passes =
      life.end != BlockLife::kAlive && !life.unwound && phase_of(life.freed_by) == made.phase;
  return passes ? made.passing : made.kept;
}

std::string_view StackSorter::phase_of(StackId stack) const {
  const std::optional<std::size_t> rule = rule_of(stack);
  return rule ? std::string_view(rules_.rules[*rule].phase) : std::string_view();
}

std::string StackSorter::line_of(StackId stack) const {
  std::optional<FrameId> innermost;
  for (const FrameId frame : snapshot_.stack(stack)) {
    const std::string_view file = snapshot_.file(frame);
    if (!file.ends_with(".py") && is_library_[frame]) {
      continue;
    }
    if (!is_library_[frame] && !file.empty() && file != "??") {
      return frame_text(snapshot_, frame);
    }
    innermost = innermost || !file.ends_with(".py") ? innermost : frame;
  }
  return innermost ? frame_text(snapshot_, *innermost) : operator_of(snapshot_, stack);
}

std::string frame_text(const Snapshot& snapshot, FrameId frame) {
  const std::string_view path = snapshot.file(frame);
  std::string_view name = last_part(path);
  if (name == "__init__.py" && name.size() < path.size()) {
    const std::string_view folder = last_part(path.substr(0, path.size() - name.size() - 1));
    name = path.substr(path.size() - name.size() - folder.size() - 1);
  }
  const std::int64_t line = snapshot.frames[frame].line;
  return std::string(name) + (line > 0 ? ":" + std::to_string(line) : "") + " " +
         short_function(snapshot.function(frame));
}

}  // namespace headroom::check
