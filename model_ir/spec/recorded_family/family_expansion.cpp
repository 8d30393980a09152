#include "model_ir/spec/recorded_family/family_expansion.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "model_ir/spec/recorded_family/code_unroller.h"
#include "model_ir/spec/recorded_family/config_values.h"
#include "model_ir/spec/recorded_family/expansion_sizes.h"
#include "model_ir/spec/recorded_family/family_match.h"

namespace headroom::ir {
namespace {

constexpr std::int64_t kMostStackLayers = 1024;

class FamilyExpansion {
 public:
  /// Takes from `family` what the recording has as it is.
  FamilyExpansion(JsonValue& family, std::string_view family_file, const JsonValue& config,
                  const ConfigValues& values, std::string_view file)
      : family_(family),
        config_(config),
        values_(values),
        file_(file),
        sizes_(values, family_file, file) {}

  Result<JsonValue> run() {
    if (Status status = read_stacks(); !status) {
      return std::move(status).error();
    }
    JsonValue::Object result;
    result.push_back({"headroom_recording", JsonValue(std::int64_t{1})});
    for (const char* const key : {"model", "task", "versions"}) {
      result.push_back({key, part(family_, key)});
    }
    const JsonValue* const differs = family_.find("differs_in_fp16");
    result.push_back({"differs_in_fp16", differs == nullptr ? JsonValue(false) : *differs});
    result.push_back({"config", config_});
    result.push_back({"sizes", part(family_, "sizes")});
    for (const char* const key : {"modules", "parameters", "buffers"}) {
      result.push_back({key, JsonValue(entries(key))});
    }
    JsonValue gradients = taken("gradients");
    set_code(gradients);
    result.push_back({"gradients", std::move(gradients)});
    JsonValue variants = taken("variants");
    for (JsonValue& variant : *variants.as_array()) {
      expand(variant);
    }
    result.push_back({"variants", std::move(variants)});
    if (const std::optional<Error>& fault = sizes_.fault()) {
      return *fault;
    }
    return JsonValue(std::move(result));
  }

 private:
  JsonValue part(const JsonValue& owner, std::string_view key) {
    const JsonValue* const found = owner.find(key);
    if (found == nullptr) {
      sizes_.refuse("without the key " + std::string(key));
      return JsonValue();
    }
    return *found;
  }

  /// A list of the family, which has it no longer.
  JsonValue taken(std::string_view key) {
    (void)list(family_, key);  // Refuses what is no list.
    for (JsonMember& member : family_.as_object() == nullptr ? no_members_ : *family_.as_object()) {
      if (member.key == key && member.value.as_array() != nullptr) {
        return std::exchange(member.value, JsonValue());
      }
    }
    return JsonValue(JsonValue::Array{});
  }

  const JsonValue::Array& list(const JsonValue& owner, std::string_view key) {
    static const JsonValue::Array empty;
    const JsonValue* const found = owner.find(key);
    if (found == nullptr || found->as_array() == nullptr) {
      sizes_.refuse("without the list " + std::string(key));
      return empty;
    }
    return *found->as_array();
  }

  /// Counts the layers of each stack and finds their kinds.
  Status read_stacks() {
    for (const JsonValue& stack : list(family_, "stacks")) {
      const JsonValue* const count = stack.find("count");
      const JsonValue* const by = stack.find("by");
      const JsonValue* const path = stack.find("path");
      if (count == nullptr || by == nullptr || path == nullptr || path->as_string() == nullptr) {
        sizes_.refuse("a stack without path, count and by");
        return *sizes_.fault();
      }
      const std::optional<std::int64_t> layers = sizes_.size(*count).as_integer();
      if (!layers || *layers < 1 || *layers > kMostStackLayers) {
        std::string pointer = count->as_string() == nullptr ? "" : "/" + *count->as_string();
        std::ranges::replace(pointer, '.', '/');
        const Error none = Error::invalid_input(
            file_, pointer, layers ? std::to_string(*layers) : "no number", "1 to 1024 layers");
        return sizes_.fault().value_or(none);
      }
      LayerStack found{.path = *path->as_string(), .kinds = {}};
      for (std::int64_t index = 0; index < *layers; ++index) {
        const std::optional<std::string> label =
            layer_label(*by, values_.lookup(), {.index = index, .count = *layers});
        const std::optional<int> kind = label ? kind_of(stack, *label) : std::nullopt;
        if (!kind) {
          return unknown_layer(*by, index, label);
        }
        found.kinds.push_back(*kind);
      }
      stacks_.push_back(std::move(found));
    }
    return sizes_.fault() ? Status(*sizes_.fault()) : ok();
  }

  std::optional<int> kind_of(const JsonValue& stack, const std::string& label) {
    const JsonValue::Array& kinds = list(stack, "kinds");
    for (std::size_t at = 0; at < kinds.size(); ++at) {
      if (to_json(kinds[at]) == label) {
        return static_cast<int>(at);
      }
    }
    return std::nullopt;
  }

  /// The error for a layer of a kind that was not recorded, or whose kind is not to be told.
  Error unknown_layer(const JsonValue& by, std::int64_t index,
                      const std::optional<std::string>& label) const {
    std::string keys;
    for (const JsonValue& feature :
         by.as_array() == nullptr ? JsonValue::Array{} : *by.as_array()) {
      const JsonValue::Array* const one = feature.as_array();
      const std::string* const key =
          one != nullptr && one->size() > 1 ? (*one)[1].as_string() : nullptr;
      keys += key == nullptr ? "" : (keys.empty() ? "" : ", ") + *key;
    }
    return unlike_family(file_, keys,
                         "layer " + std::to_string(index) + " is " + label.value_or("not told"),
                         "a kind of layer");
  }

  JsonValue::Array entries(std::string_view key) {
    JsonValue::Array result;
    for (const JsonValue& entry : list(family_, key)) {
      const JsonValue* const each = entry.find("each");
      if (each == nullptr) {
        result.push_back(with_sizes(entry));
        continue;
      }
      const std::optional<std::int64_t> stack = each->as_integer();
      if (!stack || *stack < 0 || *stack >= std::ssize(stacks_)) {
        sizes_.refuse("entries of a stack that is not there");
        return result;
      }
      const LayerStack& layers = stacks_[static_cast<std::size_t>(*stack)];
      const JsonValue::Array& kinds = list(entry, "kinds");
      for (std::size_t index = 0; index < layers.kinds.size(); ++index) {
        const auto kind = static_cast<std::size_t>(layers.kinds[index]);
        if (kind >= kinds.size() || kinds[kind].as_array() == nullptr) {
          sizes_.refuse("entries without those of a kind of layer");
          return result;
        }
        for (const JsonValue& one : *kinds[kind].as_array()) {
          JsonValue own = with_sizes(one);
          set_index(own, index);
          result.push_back(std::move(own));
        }
      }
    }
    return result;
  }

  /// A module, parameter or buffer: the second of a parameter's or buffer's fields is its shape.
  JsonValue with_sizes(const JsonValue& entry) {
    JsonValue own = entry;
    JsonValue::Array* const fields = own.as_array();
    if (fields != nullptr && fields->size() > 1 && (*fields)[1].as_array() != nullptr) {
      (*fields)[1] = sizes_.shape((*fields)[1]);
    }
    return own;
  }

  /// Changes the code of gradients or of bodies of layers.
  void set_code(JsonValue& owners) {
    for (JsonValue& one : owners.as_array() == nullptr ? none_ : *owners.as_array()) {
      JsonValue::Object* const members = one.as_object();
      if (members == nullptr) {
        return sizes_.refuse("code that is no object");
      }
      for (JsonMember& member : *members) {
        if (member.key == "code") {
          sizes_.set_code(member.value);
        }
      }
    }
  }

  void expand(JsonValue& variant) {
    std::int64_t given = 0;
    for (JsonMember& member : variant.as_object() == nullptr ? no_members_ : *variant.as_object()) {
      if (member.key == "inputs") {
        given = member.value.as_array() == nullptr ? 0 : std::ssize(*member.value.as_array());
      }
      expand_member(member, given);
    }
  }

  /// Changes one member of a variant. `given`: the number of its inputs.
  void expand_member(JsonMember& member, std::int64_t given) {
    if (member.key == "inputs") {
      set_inputs(member.value);
    } else if (member.key == "sequence_from" || member.key == "sequence_below" ||
               member.key == "image_tokens") {
      member.value = sizes_.size(member.value);
    } else if (member.key == "load") {
      member.value = unrolled(member.value, 0);
    } else if (member.key == "forward") {
      member.value = unrolled(member.value, given);
    } else if (member.key == "layers") {
      member.value = layers(member.value);
    } else if (member.key == "bodies") {
      set_code(member.value);
    }
  }

  void set_inputs(JsonValue& inputs) {
    for (JsonValue& input : inputs.as_array() == nullptr ? none_ : *inputs.as_array()) {
      JsonValue::Array* const fields = input.as_array();
      if (fields != nullptr && fields->size() == 3) {
        (*fields)[2] = sizes_.shape((*fields)[2]);
      }
    }
  }

  JsonValue unrolled(JsonValue& code, std::int64_t given) {
    return JsonValue(CodeUnroller(stacks_, sizes_, given).run(code));
  }

  JsonValue layers(const JsonValue& entries) {
    JsonValue::Array result;
    for (const JsonValue& entry : entries.as_array() == nullptr ? none_ : *entries.as_array()) {
      const JsonValue* const each = entry.find("each");
      const JsonValue* const module = entry.find("module");
      const JsonValue* const body = entry.find("body");
      if (each == nullptr && module != nullptr && module->as_string() != nullptr &&
          body != nullptr) {
        result.push_back(layer(*module->as_string(), *body));
        continue;
      }
      const std::optional<std::int64_t> stack = each == nullptr ? std::nullopt : each->as_integer();
      if (!stack || *stack < 0 || *stack >= std::ssize(stacks_)) {
        sizes_.refuse("layers of a stack that is not there");
        return JsonValue();
      }
      const LayerStack& own = stacks_[static_cast<std::size_t>(*stack)];
      const JsonValue::Array& kinds = list(entry, "kinds");
      for (std::size_t index = 0; index < own.kinds.size(); ++index) {
        const auto kind = static_cast<std::size_t>(own.kinds[index]);
        if (kind >= kinds.size()) {
          sizes_.refuse("layers without a body for each kind");
          return JsonValue();
        }
        result.push_back(layer(own.path + "." + std::to_string(index), kinds[kind]));
      }
    }
    return JsonValue(std::move(result));
  }

  JsonValue layer(const std::string& path, const JsonValue& body) {
    if (modules_.empty()) {
      for (const JsonValue& module : entries("modules")) {
        const JsonValue::Array* const fields = module.as_array();
        if (fields != nullptr && !fields->empty() && (*fields)[0].as_string() != nullptr) {
          modules_.emplace(*(*fields)[0].as_string(), std::ssize(modules_));
        }
      }
    }
    const auto found = modules_.find(path);
    if (found == modules_.end()) {
      sizes_.refuse("a layer without a module: " + path);
      return JsonValue();
    }
    return JsonValue(JsonValue::Object{{"module", JsonValue(found->second)}, {"body", body}});
  }

  JsonValue& family_;
  const JsonValue& config_;
  const ConfigValues& values_;
  std::string_view file_;
  ExpansionSizes sizes_;
  std::vector<LayerStack> stacks_;
  std::unordered_map<std::string, std::int64_t> modules_;  ///< Paths, with their index.
  JsonValue::Array none_;
  JsonValue::Object no_members_;
};

/// Whether a family's recording asks for a key of a configuration.
bool is_read(const JsonValue& keys, const std::string& path) {
  for (const char* const part : {"defaults", "fixed", "lists", "aliases"}) {
    const JsonValue* const known = keys.find(part);
    if (known != nullptr && known->find(path) != nullptr) {
      return true;
    }
  }
  return path == "model_type" || path == "architectures" || path.find("rope_") != std::string::npos;
}

void gather_ignored(const JsonValue& keys, const JsonValue& config, const std::string& path,
                    std::vector<std::string>& ignored) {
  for (const JsonMember& one : *config.as_object()) {
    const std::string own = path + one.key;
    if (one.value.as_object() != nullptr && own.find("rope_") == std::string::npos) {
      gather_ignored(keys, one.value, own + ".", ignored);
    } else if (!is_read(keys, own)) {
      std::string pointer = "/" + own;
      std::ranges::replace(pointer, '.', '/');
      ignored.push_back(std::move(pointer));
    }
  }
}

}  // namespace

Result<ExpandedFamily> expand_family(JsonValue family, std::string_view family_file,
                                     const JsonValue& config, std::string_view file) {
  const JsonValue* const keys = family.find("keys");
  if (keys == nullptr) {
    return Error::invalid_input(family_file, "/keys", "nothing", "the recording of a family");
  }
  if (Status status = check_family(*keys, ConfigValues(config, *keys), file); !status) {
    return std::move(status).error();
  }
  const ConfigValues values(config, *keys);
  Result<JsonValue> recording = FamilyExpansion(family, family_file, config, values, file).run();
  if (!recording) {
    return std::move(recording).error();
  }
  ExpandedFamily expanded{.recording = std::move(recording).value(),
                          .defaulted = {values.defaulted().begin(), values.defaulted().end()},
                          .ignored = {}};
  if (config.as_object() != nullptr) {
    gather_ignored(*keys, config, "", expanded.ignored);
  }
  return expanded;
}

}  // namespace headroom::ir
