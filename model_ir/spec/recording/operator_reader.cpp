#include "model_ir/spec/recording/operator_reader.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

namespace headroom::ir {

bool OperatorReader::read_operator(const JsonValue& value, const JsonValue::Array& fields,
                                   Instruction& instruction) {
  if (fields.size() < 4 || fields[1].as_string() == nullptr || fields[2].as_array() == nullptr ||
      fields[3].as_array() == nullptr) {
    return refuse(value, "[\"op\", name, inputs, outputs]");
  }
  instruction.name = *fields[1].as_string();
  if (!read_references(*fields[2].as_array(), 0, instruction.inputs)) {
    return false;
  }
  instruction.outputs.reserve(fields[3].as_array()->size());
  for (const JsonValue& each : *fields[3].as_array()) {
    RecordedOutput output;
    const bool read = instruction.kind == Instruction::Kind::kNode
                          ? read_existing(each, output)
                          : read_output(each, instruction.inputs.size(), output);
    if (!read) {
      return false;
    }
    instruction.outputs.push_back(std::move(output));
  }
  share_storages(instruction);
  if (fields.size() > 4 && !read_extra(fields[4], instruction)) {
    return false;
  }
  if (instruction.name == "keep" && !is_kept(instruction)) {
    return refuse(value, "one value that a module keeps, and no output");
  }
  if (instruction.name == "native_dropout" && !is_dropout(instruction)) {
    return refuse(value, "dropout of a value, with new outputs");
  }
  if (instruction.name == "embedding_dense_backward" && !is_table_gradient(instruction)) {
    return refuse(value, "the gradient of a table from two tensors, with one output of two sizes");
  }
  return instruction.name != "scaled_dot_product_attention" || is_attention(instruction) ||
         refuse(value, "attention of queries, keys and values, with one new output");
}

bool OperatorReader::is_kept(const Instruction& instruction) {
  return instruction.inputs.size() == 1 &&
         instruction.inputs.front().kind == Reference::Kind::kValue && instruction.outputs.empty();
}

bool OperatorReader::is_dropout(const Instruction& instruction) {
  return !instruction.inputs.empty() && !instruction.outputs.empty() &&
         instruction.outputs.front().target.kind == Reference::Kind::kValue;
}

bool OperatorReader::is_table_gradient(const Instruction& instruction) {
  return instruction.inputs.size() >= 2 && instruction.outputs.size() == 1 &&
         instruction.outputs.front().shape.size() == 2;
}

bool OperatorReader::is_attention(const Instruction& instruction) {
  const auto is_value = [](const Reference& input) {
    return input.kind == Reference::Kind::kValue;
  };
  return instruction.inputs.size() >= 3 &&
         std::all_of(instruction.inputs.begin(), instruction.inputs.begin() + 3, is_value) &&
         instruction.outputs.size() == 1 && is_value(instruction.outputs.front().target) &&
         instruction.outputs.front().how == RecordedOutput::How::kNew;
}

bool OperatorReader::read_existing(const JsonValue& value, RecordedOutput& output) {
  const JsonValue::Array* const fields = value.as_array();
  if (fields == nullptr || fields->size() != 1 || !read_reference(fields->front(), output.target) ||
      output.target.kind != Reference::Kind::kValue) {
    return refuse(value, "[value]");
  }
  return true;
}

bool OperatorReader::read_output(const JsonValue& value, std::size_t inputs,
                                 RecordedOutput& output) {
  const JsonValue::Array* const fields = value.as_array();
  if (fields == nullptr || fields->size() < 3) {
    return refuse(value, "[value, type, shape]");
  }
  if (const std::optional<std::uint32_t> number = index_of((*fields)[0])) {
    output.target = {.kind = Reference::Kind::kValue, .index = *number};
    if (!make(*number)) {
      return refuse(value, "a value that does not exist yet");
    }
  } else if (!read_reference((*fields)[0], output.target) ||
             output.target.kind == Reference::Kind::kNone) {
    return refuse(value, "a value, a parameter or a buffer as output");
  }
  const std::string* const type = (*fields)[1].as_string();
  const std::optional<DType> dtype = type == nullptr ? std::nullopt : parse_recorded_type(*type);
  if (!dtype) {
    return refuse(value, "a type such as bf16 or int64");
  }
  output.dtype = *dtype;
  return read_shape((*fields)[2], output.shape) &&
         (fields->size() < 4 || read_how((*fields)[3], inputs, output));
}

bool OperatorReader::read_how(const JsonValue& value, std::size_t inputs, RecordedOutput& output) {
  const std::string_view text =
      value.as_string() == nullptr ? std::string_view{} : *value.as_string();
  if (constexpr std::string_view kBytes = "bytes "; text.starts_with(kBytes)) {
    output.bytes = SizeExpression::parse(text.substr(kBytes.size()));
    return output.bytes.has_value() || refuse(value, "\"bytes\" and an expression of B and S");
  }
  const auto view = number_after(text, "view of ");
  const auto same = number_after(text, "is ");
  if ((!view && !same) || (view ? *view : *same) >= inputs) {
    return refuse(value, "\"view of N\" or \"is N\" with the position of an input");
  }
  output.how = view ? RecordedOutput::How::kView : RecordedOutput::How::kSame;
  output.input = view ? *view : *same;
  return true;
}

bool OperatorReader::read_extra(const JsonValue& extra, Instruction& instruction) {
  if (extra.as_object() == nullptr) {
    return refuse(extra, "an object");
  }
  if (const JsonValue* const saves = extra.find("saves")) {
    if (!read_saves(*saves, instruction)) {
      return false;
    }
  }
  if (const JsonValue* const base = extra.find("base")) {
    instruction.base = index_of(*base);
    if (!instruction.base || !is_alive(*instruction.base)) {
      return refuse(*base, "a value that has been made and not dropped");
    }
  }
  if (const JsonValue* const gradient = extra.find("gradient")) {
    instruction.gradient = index_of(*gradient);
    if (!check_gradient(*gradient, instruction)) {
      return false;
    }
  }
  if (const JsonValue* const kept = extra.find("kept")) {
    instruction.kept = kept->as_string() != nullptr && instruction.inputs.size() == 1 &&
                       instruction.inputs[0].kind == Reference::Kind::kParameter &&
                       instruction.outputs.size() == 1;
    if (!instruction.kept) {
      return refuse(extra, "\"kept\" of an operator with one parameter and one output");
    }
  }
  if (const JsonValue* const scalars = extra.find("scalars")) {
    read_scalars(*scalars, instruction);
  }
  const JsonValue* const inside = extra.find("inside");
  return inside == nullptr || read_inside(*inside, instruction);
}

void OperatorReader::read_scalars(const JsonValue& scalars, Instruction& instruction) {
  if (const JsonValue* const dim = scalars.find("dim")) {
    instruction.dim = dim->as_integer();
  }
  if (const JsonValue* const exponent = scalars.find("exponent")) {
    instruction.exponent = exponent->as_number();
  }
  if (const JsonValue* const accumulates = scalars.find("accumulate")) {
    instruction.accumulates = accumulates->as_bool().value_or(false);
  }
  if (const JsonValue* const lies = scalars.find("as_it_lies")) {
    instruction.as_it_lies = lies->as_bool().value_or(false);
  }
  if (const JsonValue* const causal = scalars.find("is_causal")) {
    instruction.causal = causal->as_bool().value_or(false);
  }
  if (const JsonValue* const groups = scalars.find("enable_gqa")) {
    instruction.groups = groups->as_bool().value_or(false);
  }
  if (const JsonValue* const strided = scalars.find("mask_strided")) {
    instruction.mask_strided = strided->as_bool().value_or(false);
  }
  const JsonValue* const rows = scalars.find("rows_first");
  if (rows != nullptr && rows->as_array() != nullptr) {
    const std::size_t count = std::min(rows->as_array()->size(), instruction.rows_first.size());
    for (std::size_t i = 0; i < count; ++i) {
      instruction.rows_first[i] = (*rows->as_array())[i].as_bool().value_or(false);
    }
  }
  if (const JsonValue* const dropout = scalars.find("dropout_p")) {
    instruction.dropout = dropout->as_number().value_or(0);
  }
}

bool OperatorReader::read_saves(const JsonValue& saves, Instruction& instruction) {
  if (saves.as_array() == nullptr || saves.as_array()->size() > kMostSaved) {
    return refuse(saves, "a list such as [\"in 0\", \"out 1\"]");
  }
  for (const JsonValue& each : *saves.as_array()) {
    const std::string_view text =
        each.as_string() == nullptr ? std::string_view{} : *each.as_string();
    const auto input = number_after(text, "in ");
    const auto output = number_after(text, "out ");
    SavedReference saved;
    if (input && *input < instruction.inputs.size()) {
      saved.index = *input;
    } else if (output && *output < instruction.outputs.size()) {
      saved = {.kind = SavedReference::Kind::kOutput, .index = *output, .other = {}};
    } else if (input || output || each.is_null() || !read_reference(each, saved.other)) {
      return refuse(each, "\"in N\", \"out N\", a value or a parameter");
    } else {
      saved.kind = SavedReference::Kind::kOther;
    }
    instruction.saves.push_back(saved);
  }
  return true;
}

bool OperatorReader::check_gradient(const JsonValue& value, const Instruction& instruction) {
  if (!instruction.gradient || *instruction.gradient >= context_.gradients.size()) {
    return refuse(value, "the index of one of the gradients");
  }
  const RecordedGradient& gradient = context_.gradients[*instruction.gradient];
  const bool edges = std::ranges::all_of(gradient.edges, [&](std::int32_t edge) {
    return edge == kOutsideEdge ? true
           : edge == kBaseEdge  ? instruction.base.has_value()
                                : static_cast<std::size_t>(edge) < instruction.inputs.size();
  });
  const std::size_t outputs = instruction.base ? 1 : instruction.outputs.size();
  const auto exists = [&](const Reference& reference) {
    return reference.kind == Reference::Kind::kGradient ? reference.index < outputs
           : reference.kind == Reference::Kind::kSaved  ? reference.index < instruction.saves.size()
                                                        : true;
  };
  bool known = std::ranges::all_of(gradient.results, exists);
  for (const Instruction& each : gradient.code.instructions) {
    known = known && std::ranges::all_of(each.inputs, exists);
  }
  return (edges && known) ||
         refuse(value, "a template whose edges, gradients and saved tensors this operator has");
}

bool OperatorReader::read_inside(const JsonValue& inside, Instruction& instruction) {
  if (inside.as_array() == nullptr) {
    return refuse(inside, "a list of allocations");
  }
  std::vector<bool> live;
  for (const JsonValue& each : *inside.as_array()) {
    InnerStep step;
    const JsonValue::Array* const pair = each.as_array();
    if (each.as_string() != nullptr) {
      const auto output = number_after(*each.as_string(), "new ");
      if (!output || *output >= instruction.outputs.size()) {
        return refuse(each, "\"new N\" with the position of an output");
      }
      step.index = *output;
    } else if (pair != nullptr && pair->size() == 2 && (*pair)[0].as_string() != nullptr &&
               *(*pair)[0].as_string() == "free") {
      const std::optional<std::uint32_t> number = index_of((*pair)[1]);
      if (!number || *number >= live.size() || !live[*number]) {
        return refuse(each, "a temporary that is alive");
      }
      live[*number] = false;
      step = {.kind = InnerStep::Kind::kFree, .index = *number, .bytes = {}};
    } else if (pair != nullptr && pair->size() == 2) {
      const std::optional<std::uint32_t> number = index_of((*pair)[1]);
      if (!number || *number > live.size() || !read_size((*pair)[0], step.bytes)) {
        return refuse(each, "[bytes, number of a temporary]");
      }
      live.resize(std::max<std::size_t>(live.size(), std::size_t{*number} + 1));
      live[*number] = true;
      step.kind = InnerStep::Kind::kAllocate;
      step.index = *number;
    } else {
      return refuse(each, "\"new N\", [bytes, N] or [\"free\", N]");
    }
    instruction.inside.push_back(std::move(step));
  }
  return true;
}

}  // namespace headroom::ir
