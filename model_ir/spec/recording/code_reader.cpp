#include "model_ir/spec/recording/code_reader.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <unordered_map>
#include <utility>

#include "model_ir/json/json_reader.h"

namespace headroom::ir {
namespace {

using Array = JsonValue::Array;

constexpr std::uint32_t kMostIndex = 1U << 24;
constexpr std::size_t kMostEdges = 64;  // Bits of `needed_by`.

/// "in 3": the word, and the number behind it.
std::optional<std::uint32_t> number_after(std::string_view text, std::string_view word) {
  if (!text.starts_with(word)) {
    return std::nullopt;
  }
  text.remove_prefix(word.size());
  std::uint32_t number = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  return fault == std::errc{} && end == text.data() + text.size() && number < kMostIndex
             ? std::optional(number)
             : std::nullopt;
}

std::optional<std::uint32_t> index_of(const JsonValue& value) {
  const std::optional<std::int64_t> number = value.as_integer();
  return number && *number >= 0 && *number < kMostIndex
             ? std::optional(static_cast<std::uint32_t>(*number))
             : std::nullopt;
}

/// Gives each name a number in the order of its first use.
class NameList {
 public:
  explicit NameList(std::vector<std::string>& list) : list_(list) {}
  std::uint32_t index(std::string_view name) {
    const auto [entry, fresh] =
        numbers_.emplace(std::string(name), static_cast<std::uint32_t>(list_.size()));
    if (fresh) {
      list_.emplace_back(name);
    }
    return entry->second;
  }

 private:
  std::vector<std::string>& list_;
  std::unordered_map<std::string, std::uint32_t> numbers_;
};

/// Reads the instructions of one code.
class CodeReader {
 public:
  CodeReader(RecordingFaults& faults, const CodeContext& context, CodeNames& names)
      : faults_(faults),
        context_(context),
        parameters_(names.parameters),
        buffers_(names.buffers),
        modules_(names.modules) {}

  bool read(const JsonValue* value, const std::string& place, std::uint32_t given,
            RecordedCode& code) {
    const Array* const instructions = value == nullptr ? nullptr : value->as_array();
    if (instructions == nullptr) {
      return faults_.refuse(place, value, "a list of instructions");
    }
    roots_.clear();
    alive_.clear();
    given_ = given;
    consumed_.clear();
    for (std::uint32_t number = 0; number < given; ++number) {
      static_cast<void>(make(number));
    }
    for (const JsonValue& each : *instructions) {
      place_ = place + "/" + std::to_string(code.instructions.size());
      Instruction instruction;
      if (!read_instruction(each, instruction)) {
        return false;
      }
      code.instructions.push_back(std::move(instruction));
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

  /// In a template, references lead to gradients and saved tensors.
  void set_template(bool is_template) { template_ = is_template; }

  bool read_reference(const JsonValue& value, Reference& reference) {
    if (value.is_null()) {
      return true;
    }
    if (const std::optional<std::uint32_t> number = index_of(value)) {
      reference = {.kind = Reference::Kind::kValue, .index = *number};
      return is_alive(*number) || refuse(value, "a value that has been made and not dropped");
    }
    const std::string* const text = value.as_string();
    if (text == nullptr) {
      return refuse(value, "a value, a parameter, a buffer or null");
    }
    if (template_) {
      const auto gradient = number_after(*text, "g");
      const auto saved = number_after(*text, "s");
      if (gradient || saved) {
        reference = {.kind = gradient ? Reference::Kind::kGradient : Reference::Kind::kSaved,
                     .index = gradient ? *gradient : *saved};
        return reference.index < kMostEdges || refuse(value, "a number below 64");
      }
    } else if (text->starts_with("p:")) {
      reference = {.kind = Reference::Kind::kParameter,
                   .index = parameters_.index(std::string_view(*text).substr(2))};
      return true;
    } else if (text->starts_with("b:")) {
      reference = {.kind = Reference::Kind::kBuffer,
                   .index = buffers_.index(std::string_view(*text).substr(2))};
      return true;
    }
    return refuse(value,
                  template_ ? "a value, g0, s0 or null" : "a value, a parameter, a buffer or null");
  }

  bool refuse(const JsonValue& got, std::string_view wanted) {
    return faults_.refuse(place_, &got, wanted);
  }

  void set_place(std::string place) { place_ = std::move(place); }

 private:
  [[nodiscard]] bool is_alive(std::uint32_t value) const {
    return value < roots_.size() && roots_[value] != kNotMade && alive_[roots_[value]];
  }

  /// Gives a new value a storage of its own; false if it exists already.
  bool make(std::uint32_t value) {
    if (value >= roots_.size()) {
      roots_.resize(std::size_t{value} + 1, kNotMade);
      alive_.resize(roots_.size(), false);
    }
    const bool fresh = roots_[value] == kNotMade;
    roots_[value] = fresh ? value : roots_[value];
    alive_[value] = alive_[value] || fresh;
    return fresh;
  }

  /// Outputs on the storage of an input live as long as it does.
  void share_storages(const Instruction& instruction) {
    for (const RecordedOutput& output : instruction.outputs) {
      const bool shares =
          output.how != RecordedOutput::How::kNew && output.target.kind == Reference::Kind::kValue;
      if (shares && instruction.inputs[output.input].kind == Reference::Kind::kValue) {
        roots_[output.target.index] = roots_[instruction.inputs[output.input].index];
      }
    }
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

  void let_go(std::uint32_t value) {
    alive_[roots_[value]] = false;
    if (roots_[value] < given_) {
      consumed_.push_back(roots_[value]);
    }
  }

  /// What code that is called drops of its arguments is gone in the calling code, too.
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
      instruction.outputs.push_back(
          {.target = {.kind = Reference::Kind::kValue, .index = *index}, .shape = {}, .bytes = {}});
    }
    const std::vector<std::uint32_t> consumed = loop->body.consumed;
    instruction.loop = std::move(loop);
    return consume(value, consumed, instruction);
  }

  /// The code of one turn, whose values are its own.
  bool read_turn(const JsonValue& value, RecordedLoop& loop) {
    const std::string place = place_;
    const auto roots = roots_;
    const auto alive = alive_;
    const auto consumed = consumed_;
    const std::uint32_t given = given_;
    ++depth_;
    const bool read = read_part(value, place + "/3", loop.body) && read_next(value, loop);
    --depth_;
    roots_ = roots;
    alive_ = alive;
    consumed_ = consumed;
    given_ = given;
    place_ = place;
    return read;
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
    place_ = place + "/outputs";
    if (outputs == nullptr || outputs->as_array() == nullptr) {
      return faults_.refuse(place_, outputs, "a list of values");
    }
    for (const JsonValue& each : *outputs->as_array()) {
      const std::optional<std::uint32_t> output = index_of(each);
      if (!output || !is_alive(*output)) {
        return refuse(each, "a value that has been made and not dropped");
      }
      body.outputs.push_back(*output);
    }
    body.consumed = consumed_;
    return true;
  }

 private:
  bool read_references(const Array& fields, std::size_t first, std::vector<Reference>& inputs) {
    for (std::size_t i = first; i < fields.size(); ++i) {
      Reference reference;
      if (!read_reference(fields[i], reference)) {
        return false;
      }
      inputs.push_back(reference);
    }
    return true;
  }

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

  bool read_operator(const JsonValue& value, const Array& fields, Instruction& instruction) {
    if (fields.size() < 4 || fields[1].as_string() == nullptr || fields[2].as_array() == nullptr ||
        fields[3].as_array() == nullptr) {
      return refuse(value, "[\"op\", name, inputs, outputs]");
    }
    instruction.name = *fields[1].as_string();
    if (!read_references(*fields[2].as_array(), 0, instruction.inputs)) {
      return false;
    }
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
    return instruction.name != "scaled_dot_product_attention" || is_attention(instruction) ||
           refuse(value, "attention of queries, keys and values, with one new output");
  }

  /// Attention is run as a whole: its inputs are values, its output has a storage of its own.
  static bool is_attention(const Instruction& instruction) {
    const auto is_value = [](const Reference& input) {
      return input.kind == Reference::Kind::kValue;
    };
    return instruction.inputs.size() >= 3 &&
           std::all_of(instruction.inputs.begin(), instruction.inputs.begin() + 3, is_value) &&
           instruction.outputs.size() == 1 && is_value(instruction.outputs.front().target) &&
           instruction.outputs.front().how == RecordedOutput::How::kNew;
  }

  /// The output of a node, [value], which exists already.
  bool read_existing(const JsonValue& value, RecordedOutput& output) {
    const Array* const fields = value.as_array();
    if (fields == nullptr || fields->size() != 1 ||
        !read_reference(fields->front(), output.target) ||
        output.target.kind != Reference::Kind::kValue) {
      return refuse(value, "[value]");
    }
    return true;
  }

  bool read_output(const JsonValue& value, std::size_t inputs, RecordedOutput& output) {
    const Array* const fields = value.as_array();
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

  bool read_how(const JsonValue& value, std::size_t inputs, RecordedOutput& output) {
    const std::string text = value.as_string() == nullptr ? std::string{} : *value.as_string();
    if (constexpr std::string_view kBytes = "bytes "; text.starts_with(kBytes)) {
      output.bytes = SizeExpression::parse(std::string_view(text).substr(kBytes.size()));
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

  bool read_size(const JsonValue& value, SizeExpression& size) {
    if (const std::optional<std::int64_t> number = value.as_integer()) {
      size = SizeExpression(*number);
      return (*number >= 0 && *number <= SizeExpression::kGreatest) ||
             refuse(value, "a size from 0 to 2^53");
    }
    const std::optional<SizeExpression> parsed =
        value.as_string() == nullptr ? std::nullopt : SizeExpression::parse(*value.as_string());
    if (!parsed) {
      return refuse(value, "a number, or an expression of B and S such as \"2*B*S\"");
    }
    size = *parsed;
    return true;
  }

  bool read_shape(const JsonValue& value, RecordedShape& shape) {
    const Array* const sizes = value.as_array();
    if (sizes == nullptr || sizes->size() > kMostDims) {
      return refuse(value, "a list of at most 8 sizes");
    }
    for (const JsonValue& each : *sizes) {
      shape.emplace_back();
      if (!read_size(each, shape.back())) {
        return false;
      }
    }
    return true;
  }

  bool read_extra(const JsonValue& extra, Instruction& instruction) {
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

  static void read_scalars(const JsonValue& scalars, Instruction& instruction) {
    if (const JsonValue* const dim = scalars.find("dim")) {
      instruction.dim = dim->as_integer();
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

  bool read_saves(const JsonValue& saves, Instruction& instruction) {
    if (saves.as_array() == nullptr || saves.as_array()->size() > kMostEdges) {
      return refuse(saves, "a list such as [\"in 0\", \"out 1\"]");
    }
    for (const JsonValue& each : *saves.as_array()) {
      const std::string text = each.as_string() == nullptr ? std::string{} : *each.as_string();
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

  /// A template fits its operator: edges lead to inputs, gradients and saved tensors exist.
  bool check_gradient(const JsonValue& value, const Instruction& instruction) {
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
             : reference.kind == Reference::Kind::kSaved
                 ? reference.index < instruction.saves.size()
                 : true;
    };
    bool known = std::ranges::all_of(gradient.results, exists);
    for (const Instruction& each : gradient.code.instructions) {
      known = known && std::ranges::all_of(each.inputs, exists);
    }
    return (edges && known) ||
           refuse(value, "a template whose edges, gradients and saved tensors this operator has");
  }

  bool read_inside(const JsonValue& inside, Instruction& instruction) {
    if (inside.as_array() == nullptr) {
      return refuse(inside, "a list of allocations");
    }
    std::vector<bool> live;
    for (const JsonValue& each : *inside.as_array()) {
      InnerStep step;
      const Array* const pair = each.as_array();
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

  RecordingFaults& faults_;
  const CodeContext& context_;
  NameList parameters_, buffers_, modules_;
  static constexpr std::uint32_t kNotMade = UINT32_MAX;
  std::string place_;
  std::vector<std::uint32_t> roots_;  ///< By value: the one that owns the storage.
  std::vector<bool> alive_;           ///< By value that owns a storage.
  std::uint32_t given_ = 0;           ///< Arguments of the code.
  std::vector<std::uint32_t> consumed_;
  int depth_ = 0;
  bool template_ = false;
};

/// Which edges need each instruction and each saved tensor.
void trace_needs(RecordedGradient& gradient) {
  const std::vector<Instruction>& code = gradient.code.instructions;
  std::vector<std::uint64_t> values(gradient.code.values, 0);
  std::vector<std::uint64_t> saved(kMostEdges, 0);
  const auto need = [&](const Reference& reference, std::uint64_t edges) {
    if (reference.kind == Reference::Kind::kValue) {
      values[reference.index] |= edges;
    } else if (reference.kind == Reference::Kind::kSaved) {
      saved[reference.index] |= edges;
    }
  };
  for (std::size_t edge = 0; edge < gradient.results.size(); ++edge) {
    need(gradient.results[edge], std::uint64_t{1} << edge);
  }
  gradient.needed_by.assign(code.size(), 0);
  for (std::size_t i = code.size(); i-- > 0;) {
    std::uint64_t edges = 0;
    for (const RecordedOutput& output : code[i].outputs) {
      edges |= values[output.target.index];
    }
    gradient.needed_by[i] = edges == 0 ? ~std::uint64_t{0} : edges;
    if (code[i].kind == Instruction::Kind::kOp) {
      for (const Reference& input : code[i].inputs) {
        need(input, edges);
      }
    }
  }
  // A tensor of which backward reads the sizes alone is kept all the same.
  std::ranges::replace(saved, std::uint64_t{0}, ~std::uint64_t{0});
  gradient.saved_for = std::move(saved);
}

}  // namespace

bool RecordingFaults::refuse(const std::string& pointer, const JsonValue* got,
                             std::string_view wanted, std::string_view fix) {
  if (!error_) {
    error_ = Error::invalid_input(file_, pointer, got == nullptr ? "nothing" : describe(*got),
                                  wanted, fix);
  }
  return false;
}

std::optional<DType> parse_recorded_type(std::string_view text) {
  struct Named {
    std::string_view name;
    DType dtype;
  };
  static constexpr std::array kTypes = {
      Named{"fp64", DType::kFp64},    Named{"fp32", DType::kFp32},
      Named{"fp16", DType::kFp16},    Named{"bf16", DType::kBf16},
      Named{"fp8_e4m3", DType::kFp8}, Named{"fp8_e5m2", DType::kFp8},
      Named{"int64", DType::kInt64},  Named{"uint64", DType::kInt64},
      Named{"uint32", DType::kInt32}, Named{"int32", DType::kInt32},
      Named{"int8", DType::kInt8},    Named{"uint8", DType::kUInt8},
      Named{"bool", DType::kBool},    Named{"complex64", DType::kFp64},
  };
  const auto* const found = std::ranges::find(kTypes, text, &Named::name);
  return found == kTypes.end() ? std::nullopt : std::optional(found->dtype);
}

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
    return faults.refuse(place, &value, "a name, and as many results as edges, at most 64");
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
  trace_needs(gradient);
  return true;
}

}  // namespace headroom::ir
