#include "model_ir/spec/recording/recording_reader.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <unordered_map>
#include <utility>

#include "model_ir/json/json_reader.h"
#include "model_ir/spec/recording/code_reader.h"
#include "model_ir/spec/recording/module_path.h"

namespace headroom::ir {
namespace {

constexpr std::int64_t kVersion = 1;
constexpr std::int64_t kGreatestDim = std::int64_t{1} << 40;
constexpr std::size_t kMostLayers = 4096;

/// Finds objects of the recording by name.
struct Names {
  std::unordered_map<std::string, std::uint32_t> parameters;
  std::unordered_map<std::string, std::uint32_t> buffers;
};

class Reader {
 public:
  explicit Reader(std::string_view file) : faults_(file) {}

  Result<std::shared_ptr<const Recording>> read(const JsonValue& document) {
    if (!read_document(document)) {
      return faults_.error();
    }
    return std::shared_ptr<const Recording>(std::move(recording_));
  }

 private:
  bool read_document(const JsonValue& document) {
    const JsonValue* const version = document.find("headroom_recording");
    if (version == nullptr || version->as_integer() != kVersion) {
      return faults_.refuse("/headroom_recording", version, "version 1",
                            "record the model again with headroom import");
    }
    recording_->model = text_of(document.find("model"));
    recording_->task = text_of(document.find("task"));
    if (const JsonValue* const versions = document.find("versions")) {
      recording_->library = text_of(versions->find("transformers"));
      recording_->torch = text_of(versions->find("torch"));
      for (const auto& [name, release] :
           versions->as_object() == nullptr ? JsonValue::Object() : *versions->as_object()) {
        if (release.is_null()) {
          recording_->missing.push_back(name);
        }
      }
    }
    if (const JsonValue* const sizes = document.find("sizes")) {
      const JsonValue* const multiple = sizes->find("sequence_multiple");
      if (multiple != nullptr) {
        const std::optional<std::int64_t> value = multiple->as_integer();
        if (!value || *value < 1 || *value > kGreatestDim) {
          return faults_.refuse("/sizes/sequence_multiple", multiple, "a whole number above 0");
        }
        recording_->sequence_multiple = *value;
      }
    }
    if (const JsonValue* const differs = document.find("differs_in_fp16")) {
      if (!differs->as_bool()) {
        return faults_.refuse("/differs_in_fp16", differs, "true or false");
      }
      recording_->differs_in_fp16 = *differs->as_bool();
    }
    return read_modules(document) && read_parameters(document) && read_buffers(document) &&
           read_gradients(document) && read_variants(document);
  }

  static std::string text_of(const JsonValue* value) {
    return value != nullptr && value->as_string() != nullptr ? *value->as_string() : std::string{};
  }

  /// The list `key`; nullptr, and a fault, if it is none.
  const JsonValue::Array* list(const JsonValue& owner, std::string_view key,
                               const std::string& place) {
    const JsonValue* const value = owner.find(key);
    if (value == nullptr || value->as_array() == nullptr) {
      faults_.refuse(place + "/" + std::string(key), value, "a list");
      return nullptr;
    }
    return value->as_array();
  }

  bool read_modules(const JsonValue& document) {
    const JsonValue::Array* const modules = list(document, "modules", "");
    if (modules == nullptr) {
      return false;
    }
    for (const JsonValue& entry : *modules) {
      const JsonValue::Array* const pair = entry.as_array();
      if (pair == nullptr || pair->size() != 2 || (*pair)[0].as_string() == nullptr ||
          (*pair)[1].as_string() == nullptr) {
        return faults_.refuse("/modules/" + std::to_string(recording_->modules.size()), &entry,
                              "[path, class]");
      }
      recording_->modules.push_back({.path = *(*pair)[0].as_string(),
                                     .type = *(*pair)[1].as_string(),
                                     .layer = -1,
                                     .linear = {}});
      modules_.emplace(recording_->modules.back().path,
                       static_cast<std::uint32_t>(recording_->modules.size() - 1));
    }
    return true;
  }

  bool read_dims(const JsonValue& value, const std::string& place,
                 std::vector<std::int64_t>& dims) {
    const JsonValue::Array* const sizes = value.as_array();
    if (sizes == nullptr || sizes->size() > kMostDims) {
      return faults_.refuse(place, &value, "a list of at most 8 sizes");
    }
    std::int64_t elements = 1;
    for (const JsonValue& size : *sizes) {
      const std::optional<std::int64_t> dim = size.as_integer();
      if (!dim || *dim < 0 || *dim > kGreatestDim ||
          __builtin_mul_overflow(elements, *dim, &elements) ||
          elements > SizeExpression::kGreatest) {
        return faults_.refuse(place, &value, "sizes whose product is below 2^53");
      }
      dims.push_back(*dim);
    }
    return true;
  }

  bool read_parameters(const JsonValue& document) {
    const JsonValue::Array* const parameters = list(document, "parameters", "");
    if (parameters == nullptr) {
      return false;
    }
    for (const JsonValue& entry : *parameters) {
      const std::string place = "/parameters/" + std::to_string(recording_->parameters.size());
      const JsonValue::Array* const fields = entry.as_array();
      if (fields == nullptr || fields->size() < 2 || (*fields)[0].as_string() == nullptr) {
        return faults_.refuse(place, &entry, "[name, sizes]");
      }
      RecordedParameter parameter;
      parameter.name = *(*fields)[0].as_string();
      if (!read_dims((*fields)[1], place + "/1", parameter.dims) ||
          (fields->size() > 2 && !read_traits((*fields)[2], place + "/2", parameter))) {
        return false;
      }
      const std::size_t dot = parameter.name.rfind('.');
      const auto module =
          modules_.find(dot == std::string::npos ? "" : parameter.name.substr(0, dot));
      if (module == modules_.end()) {
        return faults_.refuse(place, &entry, "a parameter of one of the modules");
      }
      parameter.module = module->second;
      const auto index = static_cast<std::uint32_t>(recording_->parameters.size());
      if (!names_.parameters.emplace(parameter.name, index).second) {
        return faults_.refuse(place, &entry, "a name that no other parameter has");
      }
      recording_->parameters.push_back(std::move(parameter));
    }
    return note_linears();
  }

  /// Finds the parameters of linear layers under all their names. The weight is a matrix.
  bool note_linears() {
    for (RecordedModule& module : recording_->modules) {
      if (module.type != "Linear") {
        continue;
      }
      for (const char* const name : {".weight", ".bias"}) {
        const auto found = names_.parameters.find(module.path + name);
        if (found != names_.parameters.end()) {
          module.linear.push_back(found->second);
        }
      }
      if (module.linear.empty()) {
        continue;
      }
      const std::vector<std::int64_t>& dims = recording_->parameters[module.linear.front()].dims;
      if (dims.size() != 2 || dims[0] < 1 || dims[1] < 1) {
        const JsonValue got(module.path);
        return faults_.refuse("/modules", &got, "a Linear whose weight has two sizes above 0");
      }
    }
    return true;
  }

  bool read_traits(const JsonValue& traits, const std::string& place,
                   RecordedParameter& parameter) {
    if (const JsonValue* const tied = traits.find("tied")) {
      for (const JsonValue& name :
           tied->as_array() != nullptr ? *tied->as_array() : JsonValue::Array{}) {
        if (name.as_string() != nullptr) {
          parameter.other_names.push_back(*name.as_string());
          names_.parameters.emplace(*name.as_string(),
                                    static_cast<std::uint32_t>(recording_->parameters.size()));
        }
      }
    }
    if (const JsonValue* const trainable = traits.find("trainable")) {
      parameter.trainable = trainable->as_bool().value_or(true);
    }
    const JsonValue* const dtype = traits.find("dtype");
    return dtype == nullptr || read_type(dtype, place + "/dtype", parameter.dtype);
  }

  bool read_type(const JsonValue* value, const std::string& place, std::optional<DType>& dtype) {
    const std::string* const text = value == nullptr ? nullptr : value->as_string();
    dtype = text == nullptr ? std::nullopt : parse_recorded_type(*text);
    return dtype.has_value() || faults_.refuse(place, value, "a type such as bf16 or int64");
  }

  bool read_buffers(const JsonValue& document) {
    const JsonValue::Array* const buffers = list(document, "buffers", "");
    if (buffers == nullptr) {
      return false;
    }
    for (const JsonValue& entry : *buffers) {
      const std::string place = "/buffers/" + std::to_string(recording_->buffers.size());
      const JsonValue::Array* const fields = entry.as_array();
      if (fields == nullptr || fields->size() != 3 || (*fields)[0].as_string() == nullptr) {
        return faults_.refuse(place, &entry, "[name, sizes, type]");
      }
      RecordedBuffer buffer{.name = *(*fields)[0].as_string(), .dims = {}};
      std::optional<DType> dtype;
      if (!read_dims((*fields)[1], place + "/1", buffer.dims) ||
          !read_type(&(*fields)[2], place + "/2", dtype)) {
        return false;
      }
      buffer.dtype = *dtype;
      names_.buffers.emplace(buffer.name, static_cast<std::uint32_t>(recording_->buffers.size()));
      recording_->buffers.push_back(std::move(buffer));
    }
    return true;
  }

  bool read_gradients(const JsonValue& document) {
    const JsonValue::Array* const gradients = list(document, "gradients", "");
    if (gradients == nullptr) {
      return false;
    }
    for (const JsonValue& entry : *gradients) {
      const std::string place = "/gradients/" + std::to_string(recording_->gradients.size());
      RecordedGradient gradient;
      if (!read_gradient(entry, place, faults_, gradient)) {
        return false;
      }
      recording_->gradients.push_back(std::move(gradient));
    }
    return true;
  }

  bool read_variants(const JsonValue& document) {
    const JsonValue::Array* const variants = list(document, "variants", "");
    if (variants == nullptr) {
      return false;
    }
    if (variants->empty()) {
      return faults_.refuse("/variants", document.find("variants"), "at least one variant");
    }
    for (const JsonValue& entry : *variants) {
      const std::string place = "/variants/" + std::to_string(recording_->variants.size());
      RecordedVariant variant;
      if (!read_variant(entry, place, variant)) {
        return false;
      }
      recording_->variants.push_back(std::move(variant));
    }
    note_layers();
    return true;
  }

  bool read_variant(const JsonValue& entry, const std::string& place, RecordedVariant& variant) {
    std::optional<DType> parameters;
    if (!read_type(entry.find("parameters"), place + "/parameters", parameters)) {
      return false;
    }
    variant.parameters = *parameters;
    const JsonValue* const autocast = entry.find("autocast");
    if (autocast != nullptr && !autocast->is_null() &&
        !read_type(autocast, place + "/autocast", variant.autocast)) {
      return false;
    }
    variant.attention = text_of(entry.find("attention"));
    variant.masks_made = text_of(entry.find("masks")) == "made";
    const std::string linears = text_of(entry.find("linears"));
    variant.prepared = linears == "prepared";
    variant.quantised = linears == "quantised" || variant.prepared;
    if (entry.find("linears") != nullptr && !variant.quantised) {
      return faults_.refuse(place + "/linears", entry.find("linears"),
                            "\"quantised\" or \"prepared\"");
    }
    const JsonValue* const kernels = entry.find("kernels");
    variant.liger = text_of(kernels) == "liger";
    if (kernels != nullptr && !variant.liger) {
      return faults_.refuse(place + "/kernels", kernels, "\"liger\"");
    }
    if (!read_images(entry.find("images"), place + "/images", variant.images)) {
      return false;
    }
    std::optional<std::int64_t> from, multiple, tokens;
    if (!read_bound(entry, "micro_batch", place, variant.micro_batch) ||
        !read_bound(entry, "image_tokens", place, tokens) ||
        !read_bound(entry, "sequence_from", place, from) ||
        !read_bound(entry, "sequence_below", place, variant.sequence_below) ||
        !read_bound(entry, "sequence_multiple", place, multiple) ||
        !read_bound(entry, "sequence_no_multiple", place, variant.sequence_no_multiple)) {
      return false;
    }
    variant.images.tokens = tokens.value_or(0);
    variant.sequence_from = from.value_or(1);
    variant.sequence_multiple = multiple.value_or(1);
    std::vector<CodeNames> body_names;
    return read_bodies(entry, place, variant, body_names) &&
           read_layers(entry, place, variant, body_names) && read_whole(entry, place, variant);
  }

  bool read_images(const JsonValue* value, const std::string& place, RecordedImages& images) {
    using Kind = RecordedImages::Kind;
    const std::string text = text_of(value);
    if (value == nullptr) {
      return true;
    }
    if (text == "one" || text == "several") {
      images.kind = text == "one" ? Kind::kOne : Kind::kSeveral;
      return true;
    }
    const std::optional<Images> these = parse_images(text);
    if (these) {
      images = {.kind = Kind::kThese, .these = *these};
    }
    return these || faults_.refuse(place, value,
                                   "COUNTxHEIGHTxWIDTH, such as \"2x1024x1024\", \"one\" or "
                                   "\"several\"");
  }

  /// A number above 0, or nothing if the key is absent.
  bool read_bound(const JsonValue& entry, std::string_view key, const std::string& place,
                  std::optional<std::int64_t>& bound) {
    const JsonValue* const value = entry.find(key);
    if (value == nullptr) {
      return true;
    }
    bound = value->as_integer();
    return (bound && *bound >= 1 && *bound <= kGreatestDim) ||
           faults_.refuse(place + "/" + std::string(key), value, "a whole number above 0");
  }

  bool read_bodies(const JsonValue& entry, const std::string& place, RecordedVariant& variant,
                   std::vector<CodeNames>& body_names) {
    const JsonValue::Array* const bodies = list(entry, "bodies", place);
    if (bodies == nullptr) {
      return false;
    }
    for (const JsonValue& each : *bodies) {
      const std::string at = place + "/bodies/" + std::to_string(variant.bodies.size());
      RecordedBody body;
      CodeNames names;
      const CodeContext context{.gradients = recording_->gradients, .layers = {}};
      if (!read_body(each, at, faults_, context, body, names)) {
        return false;
      }
      variant.bodies.push_back(std::move(body));
      body_names.push_back(std::move(names));
    }
    return true;
  }

  bool read_layers(const JsonValue& entry, const std::string& place, RecordedVariant& variant,
                   const std::vector<CodeNames>& body_names) {
    const JsonValue::Array* const layers = list(entry, "layers", place);
    if (layers == nullptr) {
      return false;
    }
    if (layers->size() > kMostLayers) {
      return faults_.refuse(place + "/layers", entry.find("layers"), "at most 4096 layers");
    }
    for (const JsonValue& each : *layers) {
      const std::string at = place + "/layers/" + std::to_string(variant.layers.size());
      const JsonValue* const module = each.find("module");
      const JsonValue* const body = each.find("body");
      const auto number = [](const JsonValue* value, std::size_t end) {
        const std::optional<std::int64_t> index =
            value == nullptr ? std::nullopt : value->as_integer();
        return index && *index >= 0 && static_cast<std::size_t>(*index) < end
                   ? std::optional(static_cast<std::uint32_t>(*index))
                   : std::nullopt;
      };
      const auto module_index = number(module, recording_->modules.size());
      const auto body_index = number(body, variant.bodies.size());
      if (!module_index || !body_index) {
        return faults_.refuse(at, &each, "the indices of a module and of a body");
      }
      RecordedLayer layer{.module = *module_index, .body = *body_index, .scope = {}};
      const std::string& path = recording_->modules[layer.module].path;
      if (!resolve(variant.bodies[layer.body].code, body_names[layer.body], path, at,
                   layer.scope)) {
        return false;
      }
      variant.layers.push_back(std::move(layer));
    }
    return true;
  }

  bool read_whole(const JsonValue& entry, const std::string& place, RecordedVariant& variant) {
    CodeContext context{.gradients = recording_->gradients, .layers = {}};
    if (!read_load(entry, place, context, variant)) {
      return false;
    }
    for (const RecordedLayer& layer : variant.layers) {
      const RecordedBody& body = variant.bodies[layer.body];
      context.layers.push_back({.arguments = body.arguments,
                                .outputs = static_cast<std::uint32_t>(body.outputs.size()),
                                .consumed = body.consumed});
    }
    if (!read_inputs(entry, place, variant)) {
      return false;
    }
    CodeNames names;
    if (!read_code(entry.find("forward"), place + "/forward", faults_, context,
                   static_cast<std::uint32_t>(variant.inputs.size()), variant.forward, names) ||
        !resolve(variant.forward, names, "", place + "/forward", variant.forward_scope)) {
      return false;
    }
    const bool ends = !variant.forward.instructions.empty() &&
                      variant.forward.instructions.back().kind == Instruction::Kind::kResult;
    return ends || faults_.refuse(place + "/forward", entry.find("forward"),
                                  "code that ends with a result");
  }

  /// Without a list of inputs, the model is given ids [B, S].
  bool read_inputs(const JsonValue& entry, const std::string& place, RecordedVariant& variant) {
    const JsonValue* const inputs = entry.find("inputs");
    if (inputs == nullptr) {
      variant.inputs.push_back({.target = {},
                                .dtype = DType::kInt64,
                                .shape = {*SizeExpression::parse("B"), *SizeExpression::parse("S")},
                                .bytes = {}});
      return true;
    }
    if (inputs->as_array() == nullptr || inputs->as_array()->empty()) {
      return faults_.refuse(place + "/inputs", inputs, "a list of [name, type, shape]");
    }
    for (const JsonValue& each : *inputs->as_array()) {
      variant.inputs.emplace_back();
      if (!read_input(each, place + "/inputs", faults_, variant.inputs.back())) {
        return false;
      }
    }
    return true;
  }

  /// Variants of one precision are built by the same constructors, which the first of them has.
  bool read_load(const JsonValue& entry, const std::string& place, const CodeContext& context,
                 RecordedVariant& variant) {
    if (entry.find("load") == nullptr) {
      for (const RecordedVariant& before : recording_->variants) {
        if (before.parameters == variant.parameters) {
          variant.load = before.load;
          return true;
        }
      }
    }
    CodeNames names;
    const auto load = std::make_shared<RecordedLoad>();
    variant.load = load;
    return read_code(entry.find("load"), place + "/load", faults_, context, 0, load->code, names) &&
           resolve(load->code, names, "", place + "/load", load->scope) &&
           check_load(entry.find("load"), place, *load);
  }

  /// Finds what the names of a code stand for in the module `path`.
  bool resolve(const RecordedCode& code, const CodeNames& names, const std::string& path,
               const std::string& place, RecordedScope& scope) {
    const std::string prefix = path.empty() ? "" : path + ".";
    const auto find_all = [&](const std::vector<std::string>& wanted, const auto& known,
                              std::vector<std::uint32_t>& found, std::string_view kind) {
      for (const std::string& name : wanted) {
        std::string full = prefix + name;
        if (name.empty() && !full.empty()) {
          full.pop_back();
        }
        auto entry = known.find(full);
        if (entry == known.end()) {  // It stands outside the layer.
          entry = known.find(name);
        }
        if (entry == known.end()) {
          const JsonValue got(full);
          return faults_.refuse(place, &got, "the name of a " + std::string(kind));
        }
        found.push_back(entry->second);
      }
      return true;
    };
    return find_all(names.parameters, names_.parameters, scope.parameters, "parameter") &&
           find_all(names.buffers, names_.buffers, scope.buffers, "buffer") &&
           find_all(names.modules, modules_, scope.modules, "module") &&
           check_linears(code, place, scope);
  }

  bool check_linears(const RecordedCode& code, const std::string& place,
                     const RecordedScope& scope) {
    for (const Instruction& instruction : code.instructions) {
      if (instruction.loop && !check_linears(instruction.loop->body.code, place, scope)) {
        return false;
      }
      if (instruction.kind != Instruction::Kind::kLinear) {
        continue;
      }
      const RecordedModule& module = recording_->modules[scope.modules[instruction.index]];
      if (module.linear.empty()) {
        const JsonValue got(module.path);
        return faults_.refuse(place, &got, "the path of a Linear with a weight");
      }
    }
    return true;
  }

  /// The constructors make every parameter.
  bool check_load(const JsonValue* value, const std::string& place, const RecordedLoad& load) {
    std::vector<bool> made(recording_->parameters.size(), false);
    for (const Instruction& instruction : load.code.instructions) {
      for (const RecordedOutput& output : instruction.outputs) {
        if (output.target.kind == Reference::Kind::kParameter) {
          made[load.scope.parameters[output.target.index]] = true;
        }
      }
    }
    const auto missing = std::ranges::find(made, false);
    return missing == made.end() ||
           faults_.refuse(
               place + "/load", value,
               "code that makes every parameter, also " +
                   recording_->parameters[static_cast<std::size_t>(missing - made.begin())].name);
  }

  /// Says of each module and parameter which layer it belongs to.
  void note_layers() {
    const RecordedVariant& variant = recording_->variants.front();
    std::unordered_map<std::string, std::int32_t> layers;
    for (std::size_t k = 0; k < variant.layers.size(); ++k) {
      layers.emplace(recording_->modules[variant.layers[k].module].path,
                     static_cast<std::int32_t>(k));
    }
    for (RecordedModule& module : recording_->modules) {
      for (std::string path = module.path;;) {
        if (const auto found = layers.find(path); found != layers.end()) {
          module.layer = found->second;
        }
        const std::size_t dot = path.rfind('.');
        if (module.layer >= 0 || dot == std::string::npos) {
          break;
        }
        path.resize(dot);
      }
    }
    for (RecordedParameter& parameter : recording_->parameters) {
      parameter.layer = recording_->modules[parameter.module].layer;
    }
    note_idle_layers();
  }

  /// Says of each parameter whether it belongs to a layer that does not run.
  void note_idle_layers() {
    const LayerLists lists(*recording_);
    std::unordered_map<std::string_view, std::int32_t> idle;
    for (RecordedParameter& parameter : recording_->parameters) {
      const std::string_view layer = lists.layer_of(recording_->modules[parameter.module].path);
      if (parameter.layer < 0 && !layer.empty()) {
        parameter.idle_layer =
            idle.emplace(layer, static_cast<std::int32_t>(idle.size())).first->second;
      }
    }
  }

  RecordingFaults faults_;
  std::shared_ptr<Recording> recording_ = std::make_shared<Recording>();
  std::unordered_map<std::string, std::uint32_t> modules_;
  Names names_;
};

}  // namespace

Result<std::shared_ptr<const Recording>> read_recording(const JsonValue& document,
                                                        std::string_view file) {
  return Reader(file).read(document);
}

}  // namespace headroom::ir
