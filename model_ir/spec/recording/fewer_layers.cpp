#include "model_ir/spec/recording/fewer_layers.h"

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace headroom::ir {
namespace {

constexpr std::uint32_t kRemoved = UINT32_MAX;
using Indices = std::vector<std::uint32_t>;  ///< By old index: the new one, or `kRemoved`.

bool is_value(const Reference& reference) {
  return reference.kind == Reference::Kind::kValue;
}

/// Keeps the items that `stays` accepts, and notes where they are now.
template <typename Item, typename Stays>
std::vector<Item> kept_of(const std::vector<Item>& items, const Stays& stays, Indices& indices) {
  std::vector<Item> kept;
  for (const Item& item : items) {
    indices.push_back(stays(item) ? static_cast<std::uint32_t>(kept.size()) : kRemoved);
    if (indices.back() != kRemoved) {
      kept.push_back(item);
    }
  }
  return kept;
}

bool is_gone(const Reference& reference, const RecordedScope& scope) {
  return (reference.kind == Reference::Kind::kParameter &&
          scope.parameters[reference.index] == kRemoved) ||
         (reference.kind == Reference::Kind::kBuffer && scope.buffers[reference.index] == kRemoved);
}

/// The arguments that a call drops.
std::span<const std::uint32_t> consumed_by(const Instruction& call,
                                           const RecordedVariant& variant) {
  if (call.kind == Instruction::Kind::kLayer) {
    return variant.bodies[variant.layers[call.index].body].consumed;
  }
  return call.loop ? std::span<const std::uint32_t>(call.loop->body.consumed)
                   : std::span<const std::uint32_t>{};
}

/// Whether the forward of a variant uses only what is there: values that are alive, and objects
/// that are left.
class LifeCheck {
 public:
  explicit LifeCheck(const RecordedVariant& variant)
      : variant_(variant),
        roots_(variant.forward.values, kRemoved),
        alive_(variant.forward.values, false) {
    for (std::uint32_t i = 0; i < variant.inputs.size(); ++i) {
      make(i, i);
    }
  }

  [[nodiscard]] bool holds() {
    return std::ranges::all_of(variant_.forward.instructions,
                               [&](const Instruction& instruction) { return run(instruction); });
  }

 private:
  void make(std::uint32_t value, std::uint32_t root) {
    roots_[value] = root;
    alive_[root] = true;
  }

  [[nodiscard]] bool is_there(const Reference& reference) const {
    return is_value(reference)
               ? roots_[reference.index] != kRemoved && alive_[roots_[reference.index]]
               : !is_gone(reference, variant_.forward_scope);
  }

  bool run(const Instruction& instruction) {
    using Kind = Instruction::Kind;
    const auto there = [&](const Reference& reference) { return is_there(reference); };
    const bool module = instruction.kind == Kind::kEnter || instruction.kind == Kind::kLeave ||
                        instruction.kind == Kind::kLinear;
    if (module && variant_.forward_scope.modules[instruction.index] == kRemoved) {
      return false;
    }
    if (!std::ranges::all_of(instruction.inputs, there) ||
        (instruction.loop && !is_left(instruction.loop->body.code))) {
      return false;
    }
    if (instruction.kind == Kind::kDrop) {
      for (const Reference& dropped : instruction.inputs) {
        alive_[roots_[dropped.index]] = false;
      }
      return true;
    }
    for (const std::uint32_t consumed : consumed_by(instruction, variant_)) {
      if (is_value(instruction.inputs[consumed])) {
        alive_[roots_[instruction.inputs[consumed].index]] = false;
      }
    }
    for (const RecordedOutput& output : instruction.outputs) {
      if (instruction.kind == Kind::kNode || !is_value(output.target)) {
        continue;
      }
      const bool own =
          output.how == RecordedOutput::How::kNew || !is_value(instruction.inputs[output.input]);
      make(output.target.index,
           own ? output.target.index : roots_[instruction.inputs[output.input].index]);
    }
    return true;
  }

  /// Whether the objects that the code of a loop refers to are left.
  [[nodiscard]] bool is_left(const RecordedCode& code) const {
    return std::ranges::none_of(code.instructions, [&](const Instruction& instruction) {
      return std::ranges::any_of(instruction.inputs, [&](const Reference& input) {
        return is_gone(input, variant_.forward_scope);
      });
    });
  }

  const RecordedVariant& variant_;
  std::vector<std::uint32_t> roots_;  ///< By value: the one that owns the storage.
  std::vector<bool> alive_;           ///< By value that owns a storage.
};

class Shortener {
 public:
  Shortener(const Recording& recording, std::size_t first, std::size_t count)
      : recording_(recording), first_(first), count_(count) {}

  std::shared_ptr<const Recording> shorten() {
    result_->model = recording_.model;
    result_->library = recording_.library;
    result_->torch = recording_.torch;
    result_->sequence_multiple = recording_.sequence_multiple;
    result_->differs_in_fp16 = recording_.differs_in_fp16;
    result_->gradients = recording_.gradients;
    keep_objects();
    for (const RecordedVariant& variant : recording_.variants) {
      if (variant.layers.size() < first_ + count_ || !add_variant(variant)) {
        return nullptr;
      }
    }
    return possible_ ? std::shared_ptr<const Recording>(result_) : nullptr;
  }

 private:
  [[nodiscard]] bool is_removed(std::int32_t layer) const {
    return layer >= 0 && static_cast<std::size_t>(layer) >= first_ &&
           static_cast<std::size_t>(layer) < first_ + count_;
  }

  [[nodiscard]] std::int32_t moved(std::int32_t layer) const {
    const bool later = layer >= 0 && static_cast<std::size_t>(layer) >= first_ + count_;
    return later ? layer - static_cast<std::int32_t>(count_) : layer;
  }

  [[nodiscard]] bool is_buffer_removed(std::string_view name) const {
    const std::vector<RecordedLayer>& layers = recording_.variants.front().layers;
    for (std::size_t i = first_; i < first_ + count_ && i < layers.size(); ++i) {
      const std::string& path = recording_.modules[layers[i].module].path;
      if (name.size() > path.size() && name.starts_with(path) && name[path.size()] == '.') {
        return true;
      }
    }
    return false;
  }

  void keep_objects() {
    const auto stays = [&](const auto& item) { return !is_removed(item.layer); };
    result_->modules = kept_of(recording_.modules, stays, modules_);
    result_->parameters = kept_of(recording_.parameters, stays, parameters_);
    result_->buffers = kept_of(
        recording_.buffers,
        [&](const RecordedBuffer& buffer) { return !is_buffer_removed(buffer.name); }, buffers_);
    for (RecordedModule& module : result_->modules) {
      module.layer = moved(module.layer);
      for (std::uint32_t& parameter : module.linear) {
        parameter = at(parameters_, parameter);
      }
    }
    for (RecordedParameter& parameter : result_->parameters) {
      parameter.layer = moved(parameter.layer);
      parameter.module = at(modules_, parameter.module);
    }
  }

  /// The new index of something that must be left.
  std::uint32_t at(const Indices& indices, std::uint32_t index) {
    possible_ = possible_ && indices[index] != kRemoved;
    return possible_ ? indices[index] : 0;
  }

  bool add_variant(const RecordedVariant& variant) {
    RecordedVariant& made = result_->variants.emplace_back();
    made = {.parameters = variant.parameters,
            .autocast = variant.autocast,
            .attention = variant.attention,
            .inputs = variant.inputs,
            .quantised = variant.quantised,
            .prepared = variant.prepared,
            .liger = variant.liger,
            .images = variant.images,
            .masks_made = variant.masks_made,
            .micro_batch = variant.micro_batch,
            .sequence_from = variant.sequence_from,
            .sequence_below = variant.sequence_below,
            .sequence_multiple = variant.sequence_multiple,
            .sequence_no_multiple = variant.sequence_no_multiple,
            .load = load_of(variant.load),
            .forward = {},
            .forward_scope = variant.forward_scope,
            .layers = {},
            .bodies = variant.bodies};
    for (std::size_t i = 0; i < variant.layers.size(); ++i) {
      if (is_removed(static_cast<std::int32_t>(i))) {
        continue;
      }
      RecordedLayer layer = variant.layers[i];
      layer.module = at(modules_, layer.module);
      for (const auto& [list, indices] : {std::pair{&layer.scope.parameters, &parameters_},
                                          std::pair{&layer.scope.buffers, &buffers_},
                                          std::pair{&layer.scope.modules, &modules_}}) {
        for (std::uint32_t& index : *list) {
          index = at(*indices, index);
        }
      }
      made.layers.push_back(std::move(layer));
    }
    return possible_ && shorten_forward(variant, made);
  }

  /// Indices of what is not left stay in the scope, which nothing may use.
  void move_scope(RecordedScope& scope) const {
    for (std::uint32_t& index : scope.parameters) {
      index = parameters_[index];
    }
    for (std::uint32_t& index : scope.buffers) {
      index = buffers_[index];
    }
    for (std::uint32_t& index : scope.modules) {
      index = modules_[index];
    }
  }

  /// The constructors without those of the removed layers. Variants share them.
  std::shared_ptr<const RecordedLoad> load_of(const std::shared_ptr<const RecordedLoad>& load) {
    std::shared_ptr<const RecordedLoad>& known = loads_[load.get()];
    if (known == nullptr) {
      auto made = std::make_shared<RecordedLoad>();
      made->scope = load->scope;
      move_scope(made->scope);
      shorten_load(*load, *made);
      known = std::move(made);
    }
    return known;
  }

  void shorten_load(const RecordedLoad& load, RecordedLoad& made) {
    made.code.values = load.code.values;
    std::vector<bool> gone(load.code.values, false);
    const auto is_lost = [&](const Reference& reference) {
      return is_value(reference) ? gone[reference.index] : is_gone(reference, made.scope);
    };
    for (const Instruction& instruction : load.code.instructions) {
      if (instruction.kind == Instruction::Kind::kDrop) {
        Instruction drop = instruction;
        std::erase_if(drop.inputs, is_lost);
        made.code.instructions.push_back(std::move(drop));
        continue;
      }
      const bool lost = std::ranges::any_of(instruction.inputs, is_lost) ||
                        std::ranges::any_of(instruction.outputs, [&](const RecordedOutput& output) {
                          return !is_value(output.target) && is_gone(output.target, made.scope);
                        });
      if (!lost) {
        made.code.instructions.push_back(instruction);
        continue;
      }
      for (const RecordedOutput& output : instruction.outputs) {
        if (is_value(output.target)) {
          gone[output.target.index] = true;
        } else {
          possible_ = possible_ && is_gone(output.target, made.scope);
        }
      }
    }
  }

  /// Replaces the outputs of removed layers by their inputs.
  bool shorten_forward(const RecordedVariant& variant, RecordedVariant& made) {
    move_scope(made.forward_scope);
    made.forward.values = variant.forward.values;
    std::vector<std::uint32_t> same(variant.forward.values);
    for (std::uint32_t i = 0; i < same.size(); ++i) {
      same[i] = i;
    }
    for (const Instruction& instruction : variant.forward.instructions) {
      Instruction copy = instruction;
      rename(copy, same);
      if (copy.kind != Instruction::Kind::kLayer) {
        made.forward.instructions.push_back(std::move(copy));
      } else if (!is_removed(static_cast<std::int32_t>(copy.index))) {
        copy.index = static_cast<std::uint32_t>(moved(static_cast<std::int32_t>(copy.index)));
        made.forward.instructions.push_back(std::move(copy));
      } else if (!pass(copy, variant, same, made.forward.instructions)) {
        return false;
      }
    }
    keep_last_drops(made, same);
    return LifeCheck(made).holds();
  }

  static void rename(Instruction& instruction, const std::vector<std::uint32_t>& same) {
    for (Reference& input : instruction.inputs) {
      input.index = is_value(input) ? same[input.index] : input.index;
    }
    for (SavedReference& saved : instruction.saves) {
      const bool value = saved.kind == SavedReference::Kind::kOther && is_value(saved.other);
      saved.other.index = value ? same[saved.other.index] : saved.other.index;
    }
    if (instruction.base) {
      instruction.base = same[*instruction.base];
    }
  }

  /// A removed layer hands on its hidden state. Arguments that it would have dropped are dropped.
  static bool pass(const Instruction& call, const RecordedVariant& variant,
                   std::vector<std::uint32_t>& same, std::vector<Instruction>& code) {
    if (call.outputs.size() != 1 || call.inputs.empty() || !is_value(call.inputs.front())) {
      return false;
    }
    same[call.outputs.front().target.index] = call.inputs.front().index;
    Instruction drop;
    drop.kind = Instruction::Kind::kDrop;
    for (const std::uint32_t consumed : consumed_by(call, variant)) {
      if (is_value(call.inputs[consumed]) && call.inputs[consumed] != call.inputs.front()) {
        drop.inputs.push_back(call.inputs[consumed]);
      }
    }
    if (!drop.inputs.empty()) {
      code.push_back(std::move(drop));
    }
    return true;
  }

  /// A value that stands for several is dropped where the last of them was.
  static void keep_last_drops(RecordedVariant& variant, const std::vector<std::uint32_t>& same) {
    std::vector<bool> stands(variant.forward.values, false);
    for (std::uint32_t i = 0; i < same.size(); ++i) {
      if (same[i] != i) {
        stands[same[i]] = true;
      }
    }
    std::vector<bool> dropped(variant.forward.values, false);
    std::vector<Instruction>& code = variant.forward.instructions;
    for (auto instruction = code.rbegin(); instruction != code.rend(); ++instruction) {
      if (instruction->kind == Instruction::Kind::kDrop) {
        std::erase_if(instruction->inputs, [&](const Reference& input) {
          const bool again = stands[input.index] && dropped[input.index];
          dropped[input.index] = true;
          return again;
        });
      }
      for (const std::uint32_t consumed : consumed_by(*instruction, variant)) {
        if (is_value(instruction->inputs[consumed])) {
          dropped[instruction->inputs[consumed].index] = true;
        }
      }
    }
  }

  const Recording& recording_;
  std::size_t first_, count_;
  std::shared_ptr<Recording> result_ = std::make_shared<Recording>();
  Indices modules_, parameters_, buffers_;
  std::map<const RecordedLoad*, std::shared_ptr<const RecordedLoad>> loads_;
  bool possible_ = true;
};

}  // namespace

std::vector<std::uint32_t> kinds_of_layers(const Recording& recording) {
  const std::vector<RecordedVariant>& variants = recording.variants;
  std::vector<std::vector<std::int64_t>> traits(variants.front().layers.size());
  for (std::size_t i = 0; i < traits.size(); ++i) {
    for (const RecordedVariant& variant : variants) {
      // Layers that a variant does not have are like no other.
      traits[i].push_back(i < variant.layers.size() ? std::int64_t{variant.layers[i].body}
                                                    : -1 - static_cast<std::int64_t>(i));
    }
  }
  for (const RecordedParameter& parameter : recording.parameters) {
    if (parameter.layer >= 0) {
      std::vector<std::int64_t>& layer = traits[static_cast<std::size_t>(parameter.layer)];
      layer.push_back(static_cast<std::int64_t>(parameter.dims.size()));
      layer.insert(layer.end(), parameter.dims.begin(), parameter.dims.end());
      layer.push_back(parameter.trainable ? 1 : 0);
    }
  }
  std::map<std::vector<std::int64_t>, std::uint32_t> known;
  std::vector<std::uint32_t> kinds;
  for (std::vector<std::int64_t>& each : traits) {
    kinds.push_back(
        known.emplace(std::move(each), static_cast<std::uint32_t>(known.size())).first->second);
  }
  return kinds;
}

std::shared_ptr<const Recording> with_fewer_layers(const Recording& recording, std::size_t first,
                                                   std::size_t count) {
  return Shortener(recording, first, count).shorten();
}

}  // namespace headroom::ir
