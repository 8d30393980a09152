#include "runtimes/transformers/recording/prepared_code.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "model_ir/base/check.h"

namespace headroom::ir::transformers {

using torch::Eager;
using torch::Shape;

namespace {

std::int64_t value_of(const SizeExpression& size, const BatchSizes& sizes) {
  const std::optional<std::int64_t> value = size.at(sizes);
  HEADROOM_ASSERT(value.has_value());  // `recording_trouble` has evaluated all of them.
  return *value;
}

std::vector<const Op*> linears_of(const Recording& recording, const Graph& graph) {
  std::unordered_map<std::string_view, const Op*> by_path;
  for (std::size_t node = 0; node < graph.op_count(); ++node) {
    const Op& op = graph.op(NodeId{static_cast<std::uint32_t>(node)});
    if (op.kind == OpKind::kLinear) {
      by_path.emplace(graph.tensor(op.outputs[0]).name, &op);
    }
  }
  std::vector<const Op*> linears(recording.modules.size(), nullptr);
  for (std::size_t i = 0; i < linears.size(); ++i) {
    const auto found = by_path.find(recording.modules[i].path);
    linears[i] = found == by_path.end() ? nullptr : found->second;
  }
  return linears;
}

/// The values that the result alone reads, beside loss and logits.
std::vector<bool> cached_by(const RecordedCode& forward) {
  constexpr std::size_t kUsual = 2;  // Loss and logits.
  std::vector<bool> cached(forward.values, false);
  for (const Instruction& one : forward.instructions) {
    for (std::size_t i = kUsual; one.kind == Instruction::Kind::kResult && i < one.inputs.size();
         ++i) {
      if (one.inputs[i].kind == Reference::Kind::kValue) {
        cached[one.inputs[i].index] = true;
      }
    }
  }
  for (const Instruction& one : forward.instructions) {
    if (one.kind == Instruction::Kind::kResult || one.kind == Instruction::Kind::kDrop) {
      continue;
    }
    for (const Reference& input : one.inputs) {
      if (input.kind == Reference::Kind::kValue) {
        cached[input.index] = false;
      }
    }
  }
  return cached;
}

/// Code for autocast may make a buffer in another type than the list of buffers says.
std::vector<DType> buffer_types_of(const Recording& recording, const TypedCode& code) {
  std::vector<DType> types;
  for (const RecordedBuffer& buffer : recording.buffers) {
    types.push_back(typed(code.change, buffer.dtype));
  }
  const RecordedLoad& load = *code.load;
  for (const Instruction& instruction : load.code.instructions) {
    for (const RecordedOutput& output : instruction.outputs) {
      if (output.target.kind == Reference::Kind::kBuffer) {
        types[load.scope.buffers[output.target.index]] = typed(code.load_change, output.dtype);
      }
    }
  }
  return types;
}

/// Whether the shape is that of `heads`, [B, A, S, D], after a swap of A and S.
bool swaps_heads(const Shape& heads, const Shape& swapped) {
  return heads.rank() == 4 && swapped.rank() == 4 && heads[1] == swapped[2] &&
         heads[2] == swapped[1];
}

/// Marks the copies that bring what attention made, [B, A, S, D], into the order [B, S, A, D].
void mark_head_copies(PreparedCode& code) {
  std::vector<const PreparedInstruction*> maker(code.values, nullptr);
  const auto maker_of = [&](const PreparedInstruction& reader) -> const PreparedInstruction* {
    const std::vector<Reference>& inputs = reader.recorded->inputs;
    return inputs.empty() || inputs[0].kind != Reference::Kind::kValue ? nullptr
                                                                       : maker[inputs[0].index];
  };
  for (PreparedInstruction& instruction : code.instructions) {
    if (instruction.recorded->kind != Instruction::Kind::kOp) {
      continue;
    }
    if (instruction.recorded->name == "clone") {
      const PreparedInstruction* const swap = maker_of(instruction);
      const PreparedInstruction* const made =
          swap != nullptr && swap->traits.transposes ? maker_of(*swap) : nullptr;
      instruction.orders_heads =
          made != nullptr && made->traits.attends &&
          swaps_heads(made->outputs.front().shape, swap->outputs.front().shape);
    }
    for (const RecordedOutput& output : instruction.recorded->outputs) {
      if (output.target.kind == Reference::Kind::kValue) {
        maker[output.target.index] = &instruction;
      }
    }
  }
}

bool is_softmax(std::string_view name) {
  return name == "_softmax" || name == "_log_softmax";
}

/// The only instruction that reads a value; null if there are several.
PreparedInstruction* only_reader(PreparedCode& code, std::uint32_t value) {
  PreparedInstruction* reader = nullptr;
  const Reference wanted{.kind = Reference::Kind::kValue, .index = value};
  for (PreparedInstruction& instruction : code.instructions) {
    if (instruction.recorded->kind == Instruction::Kind::kDrop ||
        std::ranges::find(instruction.recorded->inputs, wanted) ==
            instruction.recorded->inputs.end()) {
      continue;
    }
    if (reader != nullptr) {
      return nullptr;
    }
    reader = &instruction;
  }
  return reader;
}

/// The bytes of a temporary that were recorded in another type.
std::int64_t temporary_bytes(std::int64_t bytes, const Instruction& instruction,
                             const OperatorTraits& traits, const TypeChange& change) {
  const bool scales = traits.typed_temporaries && !instruction.outputs.empty() &&
                      instruction.outputs.front().dtype == change.from;
  return scales ? scaled_bytes(bytes, change) : bytes;
}

}  // namespace

PreparedModel::PreparedModel(Eager& eager, const Recording& recording, const TypedCode& code,
                             const Graph& graph, const BatchSizes& sizes)
    : recording_(recording),
      code_(code),
      variant_(*code.variant),
      sizes_(sizes),
      linears_(linears_of(recording, graph)),
      buffer_types_(buffer_types_of(recording, code)),
      gradients_(recording.gradients.size()) {
  for (std::size_t i = 0; i < gradients_.size(); ++i) {
    gradients_[i].recorded = &recording.gradients[i];
    gradients_[i].code = prepare(eager, recording.gradients[i].code, code.change);
  }
  forward_ = prepare(eager, variant_.forward, code.change);
  cached_ = cached_by(variant_.forward);
  bodies_.reserve(variant_.bodies.size());
  for (const RecordedBody& body : variant_.bodies) {
    bodies_.push_back(prepare(eager, body.code, code.change));
  }
  if (code.given_mask) {
    give_mask();
  }
  if (code.change && code.change->to == DType::kFp16) {
    widen_in_softmax(forward_);
    std::ranges::for_each(bodies_, [this](PreparedCode& body) { widen_in_softmax(body); });
  }
}

void PreparedModel::give_mask() {
  const Shape ids = shape_of(variant_.inputs.front().shape);
  std::vector<bool> masks(forward_.values, false);
  for (PreparedInstruction& instruction : forward_.instructions) {
    const Instruction& recorded = *instruction.recorded;
    if (recorded.kind != Instruction::Kind::kOp || instruction.outputs.size() != 1 ||
        recorded.outputs.front().target.kind != Reference::Kind::kValue) {
      continue;
    }
    const bool ones = recorded.name == "ones" && instruction.outputs.front().shape == ids;
    const bool follows = !recorded.inputs.empty() && !instruction.traits.casts &&
                         std::ranges::all_of(recorded.inputs, [&](const Reference& input) {
                           return input.kind == Reference::Kind::kValue && masks[input.index];
                         });
    if (ones || follows) {
      masks[recorded.outputs.front().target.index] = true;
      instruction.outputs.front().dtype = DType::kInt64;
    }
  }
}

void PreparedModel::widen_in_softmax(PreparedCode& code) {
  for (PreparedInstruction& cast : code.instructions) {
    if (!cast.traits.casts || cast.outputs.size() != 1 || cast.outputs[0].dtype != DType::kFp32) {
      continue;
    }
    PreparedInstruction* const reader =
        only_reader(code, cast.recorded->outputs.front().target.index);
    if (reader == nullptr || !is_softmax(reader->recorded->name) || reader->gradient == nullptr) {
      continue;
    }
    cast.leaves_fp16 = true;
    PreparedGradient& narrow = narrow_gradients_[*reader->recorded->gradient];
    if (narrow.recorded == nullptr) {
      narrow.recorded = reader->gradient->recorded;
      for (const PreparedInstruction& one : reader->gradient->code.instructions) {
        PreparedInstruction& made = narrow.code.instructions.emplace_back();
        made.recorded = one.recorded;
        made.operation = one.operation;
        made.traits = one.traits;
        made.outputs = one.outputs;
        made.inside = one.inside;
        for (PreparedOutput& output : made.outputs) {
          output.dtype = output.dtype == DType::kFp32 ? DType::kFp16 : output.dtype;
        }
      }
      narrow.code.values = reader->gradient->code.values;
    }
    reader->gradient = &narrow;
  }
}

Shape PreparedModel::shape_of(const RecordedShape& shape) const {
  std::array<std::int64_t, Shape::kMaxRank> dims{};
  for (std::size_t i = 0; i < shape.size(); ++i) {
    dims[i] = value_of(shape[i], sizes_);
  }
  return Shape(std::span<const std::int64_t>(dims.data(), shape.size()));
}

PreparedCode PreparedModel::prepare(Eager& eager, const RecordedCode& code,
                                    const std::optional<TypeChange>& change) const {
  PreparedCode prepared{.values = code.values, .instructions = {}};
  prepared.instructions.reserve(code.instructions.size());
  for (const Instruction& instruction : code.instructions) {
    PreparedInstruction& made = prepared.instructions.emplace_back();
    made.recorded = &instruction;
    if (instruction.loop) {
      made.turns = value_of(instruction.loop->turns, sizes_);
      made.loop =
          std::make_unique<const PreparedCode>(prepare(eager, instruction.loop->body.code, change));
      continue;
    }
    if (instruction.kind != Instruction::Kind::kOp &&
        instruction.kind != Instruction::Kind::kNode) {
      continue;
    }
    eager.set_site(instruction.name, eager.layer());
    made.operation = eager.operation();
    made.traits = traits_of(instruction);
    made.refers = std::ranges::any_of(instruction.saves, [](const SavedReference& saved) {
      return saved.kind == SavedReference::Kind::kOther;
    });
    made.buffered = std::ranges::any_of(instruction.inputs, [](const Reference& input) {
      return input.kind == Reference::Kind::kBuffer;
    });
    made.gradient = instruction.gradient ? &gradients_[*instruction.gradient] : nullptr;
    made.outputs.reserve(instruction.outputs.size());
    for (const RecordedOutput& output : instruction.outputs) {
      const std::int64_t bytes = output.bytes ? value_of(*output.bytes, sizes_) : -1;
      const bool scales = change && output.bytes && output.dtype == change->from;
      made.outputs.push_back({.shape = shape_of(output.shape),
                              .dtype = typed(change, output.dtype),
                              .bytes = scales ? scaled_bytes(bytes, *change) : bytes});
    }
    made.may_return_input = change.has_value() && made.traits.casts;
    // Grouped products in other types than bf16 are calls of the library, without temporaries.
    // Source: pytorch/pytorch aten/src/ATen/native/cuda/GroupedBlas.cpp, _grouped_mm_cuda.
    if (change && made.traits.work == OperatorTraits::Work::kGrouped) {
      continue;
    }
    made.inside.reserve(instruction.inside.size());
    for (const InnerStep& step : instruction.inside) {
      const std::int64_t bytes = value_of(step.bytes, sizes_);
      made.inside.push_back(change ? temporary_bytes(bytes, instruction, made.traits, *change)
                                   : bytes);
    }
  }
  mark_head_copies(prepared);
  return prepared;
}

}  // namespace headroom::ir::transformers
