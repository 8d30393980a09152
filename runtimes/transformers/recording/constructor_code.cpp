#include "runtimes/transformers/recording/constructor_code.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace headroom::ir::transformers {
namespace {

bool is_value(const Reference& reference) {
  return reference.kind == Reference::Kind::kValue;
}

/// Marks the instructions that make parameters and buffers, and those that make what they read.
std::vector<bool> needed_instructions(const RecordedCode& code) {
  std::vector<bool> values(code.values, false);
  std::vector<bool> needed(code.instructions.size(), false);
  for (std::size_t i = code.instructions.size(); i-- > 0;) {
    const Instruction& instruction = code.instructions[i];
    // Memory without content is a parameter, also if another one takes its place later.
    needed[i] = instruction.name == "empty" ||
                std::ranges::any_of(instruction.outputs, [&](const RecordedOutput& output) {
                  return !is_value(output.target) || values[output.target.index];
                });
    for (std::size_t k = 0; needed[i] && k < instruction.inputs.size(); ++k) {
      if (is_value(instruction.inputs[k])) {
        values[instruction.inputs[k].index] = true;
      }
    }
  }
  return needed;
}

/// Casts the outputs of one instruction, and knows which values have been cast before.
class Narrower {
 public:
  Narrower(const RecordedCode& code, DType dtype)
      : dtype_(dtype), narrow_(code.values, false), values_(code.values) {
    result_.instructions.reserve(code.instructions.size());
    for (const Instruction& instruction : code.instructions) {
      add(instruction);
    }
    result_.values = values_;
  }

  [[nodiscard]] RecordedCode take() { return std::move(result_); }

 private:
  [[nodiscard]] bool is_narrow(const Reference& input) const {
    return input.kind == Reference::Kind::kBuffer || (is_value(input) && narrow_[input.index]);
  }

  void add(Instruction instruction) {
    const bool makes =
        instruction.kind == Instruction::Kind::kOp &&
        std::ranges::any_of(instruction.outputs, [](const RecordedOutput& output) {
          return output.dtype == DType::kFp32 && output.target.kind != Reference::Kind::kParameter;
        });
    const bool factory = std::ranges::none_of(instruction.inputs, [](const Reference& input) {
      return input.kind != Reference::Kind::kNone;
    });
    const bool follows = instruction.name != "_to_copy" &&
                         std::ranges::any_of(instruction.inputs, [&](const Reference& input) {
                           return is_narrow(input);
                         });
    if (!makes || !(factory || follows)) {
      result_.instructions.push_back(std::move(instruction));
      return;
    }
    std::vector<std::pair<std::uint32_t, RecordedOutput>> casts;
    for (RecordedOutput& output : instruction.outputs) {
      if (output.dtype != DType::kFp32 || output.target.kind == Reference::Kind::kParameter) {
        continue;
      }
      if (is_value(output.target)) {
        narrow_[output.target.index] = true;
      }
      RecordedOutput narrow = output;
      narrow.dtype = dtype_;
      if (factory) {  // The constructor's result is cast.
        output.target = {.kind = Reference::Kind::kValue, .index = values_};
        casts.emplace_back(values_++, std::move(narrow));
      } else {
        output = std::move(narrow);
      }
    }
    result_.instructions.push_back(std::move(instruction));
    for (auto& [wide, narrow] : casts) {
      add_cast(wide, std::move(narrow));
    }
  }

  void add_cast(std::uint32_t wide, RecordedOutput narrow) {
    const Reference value{.kind = Reference::Kind::kValue, .index = wide};
    Instruction cast;
    cast.name = "_to_copy";
    cast.inputs = {value};
    cast.outputs.push_back(std::move(narrow));
    Instruction drop;
    drop.kind = Instruction::Kind::kDrop;
    drop.inputs = {value};
    result_.instructions.push_back(std::move(cast));
    result_.instructions.push_back(std::move(drop));
  }

  DType dtype_;
  std::vector<bool> narrow_;  ///< By value of the original code.
  std::uint32_t values_;
  RecordedCode result_;
};

}  // namespace

RecordedCode without_initialisation(const RecordedCode& code) {
  const std::vector<bool> needed = needed_instructions(code);
  std::vector<bool> made(code.values, false);
  RecordedCode result{.instructions = {}, .values = code.values};
  for (std::size_t i = 0; i < code.instructions.size(); ++i) {
    Instruction instruction = code.instructions[i];
    if (instruction.kind == Instruction::Kind::kDrop) {
      std::erase_if(instruction.inputs,
                    [&](const Reference& dropped) { return !made[dropped.index]; });
    } else if (!needed[i]) {
      continue;
    }
    for (const RecordedOutput& output : instruction.outputs) {
      if (is_value(output.target)) {
        made[output.target.index] = true;
      }
    }
    result.instructions.push_back(std::move(instruction));
  }
  return result;
}

RecordedCode with_narrow_buffers(const RecordedCode& code, DType dtype) {
  return Narrower(code, dtype).take();
}

}  // namespace headroom::ir::transformers
