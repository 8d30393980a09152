#include "model_ir/spec/recording/code_reader.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "model_ir/json/json_reader.h"
#include "model_ir/spec/recording/operator_reader.h"

namespace headroom::ir {
namespace {

using Array = JsonValue::Array;

/// Reads the instructions of one code.
class CodeReader : public OperatorReader {
 public:
  using OperatorReader::OperatorReader;

  bool read(const JsonValue* value, const std::string& place, std::uint32_t given,
            RecordedCode& code) {
    const Array* const instructions = value == nullptr ? nullptr : value->as_array();
    if (instructions == nullptr) {
      return faults_.refuse(place, value, "a list of instructions");
    }
    roots_.clear();
    alive_.clear();
    lists_.clear();
    given_ = given;
    consumed_.clear();
    for (std::uint32_t number = 0; number < given; ++number) {
      static_cast<void>(make(number));
    }
    place_ = {.list = place, .entry = 0};
    code.instructions.reserve(instructions->size());
    for (const JsonValue& each : *instructions) {
      place_.entry = code.instructions.size();
      Instruction& instruction = code.instructions.emplace_back();
      if (!read_instruction(each, instruction) || !reads_lists_rightly(each, instruction)) {
        return false;
      }
    }
    code.values = static_cast<std::uint32_t>(roots_.size());
    return true;
  }

  /// [name, type, shape]
  bool read_input(const JsonValue& value, RecordedOutput& input) {
    const Array* const fields = value.as_array();
    const std::string* const type =
        fields == nullptr || fields->size() != 3 ? nullptr : (*fields)[1].as_string();
    const std::optional<DType> dtype = type == nullptr ? std::nullopt : parse_recorded_type(*type);
    if (!dtype) {
      return refuse(value, "[name, type, shape]");
    }
    input.dtype = *dtype;
    return read_shape((*fields)[2], input.shape);
  }

 private:
  /// Lists that loops made are taken by operators that join tensors, and by nothing else.
  bool reads_lists_rightly(const JsonValue& value, Instruction& instruction) {
    if (lists_.empty() || instruction.kind == Instruction::Kind::kDrop) {
      return true;
    }
    const auto is_list = [&](const Reference& one) {
      return one.kind == Reference::Kind::kValue && lists_.contains(one.index);
    };
    instruction.takes_lists = std::ranges::any_of(instruction.inputs, is_list);
    const bool joins = instruction.kind == Instruction::Kind::kOp &&
                       (instruction.name == "cat" || instruction.name == "stack") &&
                       instruction.outputs.size() == 1 &&
                       instruction.outputs.front().how == RecordedOutput::How::kNew &&
                       !instruction.gradient && !instruction.base && instruction.saves.empty();
    const bool plain = std::ranges::all_of(instruction.inputs, [](const Reference& one) {
      return one.kind == Reference::Kind::kValue;
    });
    const bool saves = std::ranges::any_of(
        instruction.saves, [&](const SavedReference& saved) { return is_list(saved.other); });
    const bool writes = (instruction.base && lists_.contains(*instruction.base)) ||
                        (instruction.kind == Instruction::Kind::kNode &&
                         std::ranges::any_of(instruction.outputs, [&](const RecordedOutput& one) {
                           return is_list(one.target);
                         }));
    if (saves || writes || (instruction.takes_lists && !(joins && plain))) {
      return refuse(value,
                    "no list that a loop made: cat and stack of values take one, without a "
                    "gradient, and nothing else does");
    }
    return true;
  }

  bool read_instruction(const JsonValue& value, Instruction& instruction) {
    const Array* const fields = value.as_array();
    const std::string* const kind =
        fields == nullptr || fields->empty() ? nullptr : fields->front().as_string();
    if (kind == nullptr) {
      return refuse(value, "an instruction such as [\"op\", name, inputs, outputs]");
    }
    if (*kind == "op" || *kind == "node") {
      instruction.kind = *kind == "op" ? Instruction::Kind::kOp : Instruction::Kind::kNode;
      return read_operator(value, *fields, instruction);
    }
    if (*kind == "drop") {
      return read_drop(value, *fields, instruction);
    }
    if (*kind == "enter" || *kind == "leave") {
      instruction.kind = *kind == "enter" ? Instruction::Kind::kEnter : Instruction::Kind::kLeave;
      return read_module(value, *fields, instruction);
    }
    if (*kind == "linear") {
      return read_linear(value, *fields, instruction);
    }
    if (*kind == "repeat") {
      return read_repeat(value, *fields, instruction);
    }
    if (*kind == "layer") {
      return read_layer(value, *fields, instruction);
    }
    if (*kind == "result" && fields->size() >= 2) {
      instruction.kind = Instruction::Kind::kResult;
      return read_references(*fields, 1, instruction.inputs);
    }
    return refuse(value, "op, node, linear, layer, drop, enter, leave or result");
  }

  bool read_drop(const JsonValue& value, const Array& fields, Instruction& instruction) {
    instruction.kind = Instruction::Kind::kDrop;
    if (!read_references(fields, 1, instruction.inputs)) {
      return false;
    }
    for (const Reference& dropped : instruction.inputs) {
      if (dropped.kind != Reference::Kind::kValue || !is_alive(dropped.index)) {
        return refuse(value, "values that are alive");
      }
      let_go(dropped.index);
    }
    return true;
  }

  /// Arguments that the called code drops are gone in the calling code, too.
  bool consume(const JsonValue& value, const std::vector<std::uint32_t>& consumed,
               const Instruction& instruction) {
    for (const std::uint32_t argument : consumed) {
      const Reference& given = instruction.inputs[argument];
      if (given.kind == Reference::Kind::kValue) {
        if (!is_alive(given.index)) {
          return refuse(value, "arguments that are dropped once");
        }
        let_go(given.index);
      }
    }
    return true;
  }

  /// ["repeat", turns, arguments, {arguments, next, code, outputs}, outputs]
  bool read_repeat(const JsonValue& value, const Array& fields, Instruction& instruction) {
    instruction.kind = Instruction::Kind::kRepeat;
    const bool complete = !template_ && depth_ == 0 && fields.size() == 5 &&
                          fields[2].as_array() != nullptr && fields[3].as_object() != nullptr &&
                          fields[4].as_array() != nullptr;
    auto loop = std::make_shared<RecordedLoop>();
    if (!complete) {
      return refuse(value, "[\"repeat\", turns, arguments, code, outputs], not inside another");
    }
    if (!read_size(fields[1], loop->turns) ||
        !read_references(*fields[2].as_array(), 0, instruction.inputs) ||
        !read_turn(fields[3], *loop)) {
      return false;
    }
    if (instruction.inputs.size() != loop->body.arguments ||
        fields[4].as_array()->size() != loop->body.outputs.size()) {
      return refuse(value, "as many arguments and outputs as the code has");
    }
    for (const JsonValue& output : *fields[4].as_array()) {
      const std::optional<std::uint32_t> index = index_of(output);
      if (!index || !make(*index)) {
        return refuse(value, "new values as outputs");
      }
      if (instruction.outputs.size() + loop->lists >= loop->body.outputs.size()) {
        lists_.insert(*index);
      }
      instruction.outputs.push_back(
          {.target = {.kind = Reference::Kind::kValue, .index = *index}, .shape = {}, .bytes = {}});
    }
    const std::vector<std::uint32_t> consumed = loop->body.consumed;
    instruction.loop = std::move(loop);
    return consume(value, consumed, instruction);
  }

  /// The code of one turn, whose values are its own.
  bool read_turn(const JsonValue& value, RecordedLoop& loop) {
    const Place place = place_;
    const auto roots = roots_;
    const auto alive = alive_;
    const auto consumed = consumed_;
    const auto lists = lists_;
    const std::uint32_t given = given_;
    ++depth_;
    const bool read = read_part(value, place.text() + "/3", loop.body) && read_next(value, loop) &&
                      read_lists(value, loop);
    --depth_;
    lists_ = lists;
    roots_ = roots;
    alive_ = alive;
    consumed_ = consumed;
    given_ = given;
    place_ = place;
    return read;
  }

  bool read_lists(const JsonValue& value, RecordedLoop& loop) {
    const JsonValue* const lists = value.find("lists");
    const std::optional<std::uint32_t> count =
        lists == nullptr ? std::uint32_t{0} : index_of(*lists);
    if (!count || *count > loop.body.outputs.size()) {
      return faults_.refuse(place_.text() + "/3/lists", lists,
                            "the number of outputs that are lists, at most " +
                                std::to_string(loop.body.outputs.size()));
    }
    loop.lists = *count;
    return true;
  }

  bool read_next(const JsonValue& value, RecordedLoop& loop) {
    const JsonValue* const next = value.find("next");
    if (next == nullptr || next->as_array() == nullptr ||
        next->as_array()->size() != loop.body.arguments) {
      return refuse(value, "\"next\" with one entry for each argument");
    }
    for (const JsonValue& each : *next->as_array()) {
      loop.next.emplace_back();
      if (each.is_null()) {
        continue;
      }
      loop.next.back() = index_of(each);
      if (!loop.next.back() || !is_alive(*loop.next.back())) {
        return refuse(each, "a value of the turn, or null");
      }
    }
    return true;
  }

 public:
  /// Code with arguments and outputs.
  bool read_part(const JsonValue& value, const std::string& place, RecordedBody& body) {
    const JsonValue* const arguments = value.find("arguments");
    const std::optional<std::uint32_t> count =
        arguments == nullptr ? std::nullopt : index_of(*arguments);
    const JsonValue* const outputs = value.find("outputs");
    if (!count) {
      return faults_.refuse(place + "/arguments", arguments, "the number of arguments");
    }
    body.arguments = *count;
    if (!read(value.find("code"), place + "/code", *count, body.code)) {
      return false;
    }
    set_place(place + "/outputs");
    if (outputs == nullptr || outputs->as_array() == nullptr) {
      return faults_.refuse(place_.list, outputs, "a list of values");
    }
    for (const JsonValue& each : *outputs->as_array()) {
      const std::optional<std::uint32_t> output = index_of(each);
      if (!output || !is_alive(*output)) {
        return refuse(each, "a value that has been made and not dropped");
      }
      if (lists_.contains(*output)) {
        return refuse(each, "a value that is no list: a list ends in the code that made it");
      }
      body.outputs.push_back(*output);
    }
    body.consumed = consumed_;
    return true;
  }

 private:
  bool read_module(const JsonValue& value, const Array& fields, Instruction& instruction) {
    const std::string* const path = fields.size() < 2 ? nullptr : fields[1].as_string();
    if (path == nullptr || template_) {
      return refuse(value, "the path of a module");
    }
    instruction.index = modules_.index(*path);
    return true;
  }

  bool read_linear(const JsonValue& value, const Array& fields, Instruction& instruction) {
    instruction.kind = Instruction::Kind::kLinear;
    if (fields.size() < 4 || !read_module(value, fields, instruction)) {
      return refuse(value, "[\"linear\", module, input, output]");
    }
    Reference input;
    RecordedOutput output;
    if (!read_reference(fields[2], input) || !read_output(fields[3], 1, output)) {
      return false;
    }
    if (input.kind == Reference::Kind::kNone || output.target.kind != Reference::Kind::kValue) {
      return refuse(value, "a value as input, and a new one as output");
    }
    instruction.inputs.push_back(input);
    instruction.outputs.push_back(std::move(output));
    return true;
  }

  bool read_layer(const JsonValue& value, const Array& fields, Instruction& instruction) {
    instruction.kind = Instruction::Kind::kLayer;
    const std::optional<std::uint32_t> layer =
        fields.size() < 4 ? std::nullopt : index_of(fields[1]);
    if (!layer || *layer >= context_.layers.size() || fields[2].as_array() == nullptr ||
        fields[3].as_array() == nullptr) {
      return refuse(value, "[\"layer\", index of a layer, arguments, outputs]");
    }
    instruction.index = *layer;
    if (!read_references(*fields[2].as_array(), 0, instruction.inputs)) {
      return false;
    }
    for (const JsonValue& output : *fields[3].as_array()) {
      const std::optional<std::uint32_t> index = index_of(output);
      if (!index || !make(*index)) {
        return refuse(value, "new values as outputs");
      }
      instruction.outputs.push_back(
          {.target = {.kind = Reference::Kind::kValue, .index = *index}, .shape = {}, .bytes = {}});
    }
    const CodeContext::Layer& called = context_.layers[*layer];
    return (instruction.inputs.size() == called.arguments &&
            instruction.outputs.size() == called.outputs)
               ? consume(value, called.consumed, instruction)
               : refuse(value, "as many arguments and outputs as the layer's body has");
  }

  std::unordered_set<std::uint32_t> lists_;  ///< Values that stand for what all turns made.
};

constexpr std::uint64_t kAllEdges = ~std::uint64_t{0};

/// Notes the edges that need each instruction and each saved tensor.
void trace_needs(RecordedGradient& gradient) {
  const std::vector<Instruction>& code = gradient.code.instructions;
  std::vector<std::uint64_t> values(gradient.code.values, 0);
  std::vector<std::uint64_t> saved(kMostSaved, 0);
  const auto need = [&](const Reference& reference, std::uint64_t edges) {
    if (reference.kind == Reference::Kind::kValue) {
      values[reference.index] |= edges;
    } else if (reference.kind == Reference::Kind::kSaved) {
      saved[reference.index] |= edges;
    }
  };
  for (std::size_t edge = 0; edge < gradient.results.size(); ++edge) {
    need(gradient.results[edge], edge_bit(edge));
  }
  gradient.needed_by.assign(code.size(), 0);
  for (std::size_t i = code.size(); i-- > 0;) {
    std::uint64_t edges = 0;
    for (const RecordedOutput& output : code[i].outputs) {
      edges |= values[output.target.index];
    }
    gradient.needed_by[i] = edges == 0 ? kAllEdges : edges;
    if (code[i].kind == Instruction::Kind::kOp) {
      for (const Reference& input : code[i].inputs) {
        need(input, edges);
      }
    }
  }
  // A tensor of which backward reads the sizes alone is kept all the same.
  std::ranges::replace(saved, std::uint64_t{0}, kAllEdges);
  gradient.saved_for = std::move(saved);
}

}  // namespace

bool read_input(const JsonValue& value, const std::string& place, RecordingFaults& faults,
                RecordedOutput& input) {
  const std::vector<RecordedGradient> none;
  const CodeContext context{.gradients = none, .layers = {}};
  CodeNames names;
  CodeReader reader(faults, context, names);
  reader.set_place(place);
  return reader.read_input(value, input);
}

bool read_code(const JsonValue* value, const std::string& place, RecordingFaults& faults,
               const CodeContext& context, std::uint32_t given, RecordedCode& code,
               CodeNames& names) {
  return CodeReader(faults, context, names).read(value, place, given, code);
}

bool read_body(const JsonValue& value, const std::string& place, RecordingFaults& faults,
               const CodeContext& context, RecordedBody& body, CodeNames& names) {
  if (!CodeReader(faults, context, names).read_part(value, place, body)) {
    return false;
  }
  return (body.arguments > 0 && !body.outputs.empty()) ||
         faults.refuse(place, &value, "a hidden state as argument and as output");
}

bool read_gradient(const JsonValue& value, const std::string& place, RecordingFaults& faults,
                   RecordedGradient& gradient) {
  const JsonValue* const name = value.find("name");
  const JsonValue* const edges = value.find("edges");
  const JsonValue* const results = value.find("results");
  if (name == nullptr || name->as_string() == nullptr || edges == nullptr ||
      edges->as_array() == nullptr || results == nullptr || results->as_array() == nullptr ||
      edges->as_array()->size() != results->as_array()->size() ||
      edges->as_array()->size() > kMostEdges) {
    return faults.refuse(place, &value, "a name, and as many results as edges, at most 65,536");
  }
  gradient.name = *name->as_string();
  for (const JsonValue& edge : *edges->as_array()) {
    const std::optional<std::int64_t> position =
        edge.is_null() ? std::optional<std::int64_t>(kOutsideEdge) : edge.as_integer();
    if (!position || (!edge.is_null() && *position == kOutsideEdge) || *position < kOutsideEdge ||
        *position >= kMostIndex) {
      return faults.refuse(place + "/edges", &edge, "the position of an input, -1 or null");
    }
    gradient.edges.push_back(static_cast<std::int32_t>(*position));
  }
  CodeNames names;
  const std::vector<RecordedGradient> none;
  const CodeContext context{.gradients = none, .layers = {}};
  CodeReader reader(faults, context, names);
  reader.set_template(true);
  if (!reader.read(value.find("code"), place + "/code", 0, gradient.code)) {
    return false;
  }
  reader.set_place(place + "/results");
  for (const JsonValue& each : *results->as_array()) {
    gradient.results.emplace_back();
    if (!reader.read_reference(each, gradient.results.back())) {
      return false;
    }
  }
  const JsonValue* const whole = value.find("whole");
  if (whole != nullptr && !whole->as_bool()) {
    return faults.refuse(place + "/whole", whole, "true or false");
  }
  if (whole != nullptr && *whole->as_bool()) {
    gradient.needed_by.assign(gradient.code.instructions.size(), kAllEdges);
    gradient.saved_for.assign(kMostSaved, kAllEdges);
  } else {
    trace_needs(gradient);
  }
  return true;
}

}  // namespace headroom::ir
