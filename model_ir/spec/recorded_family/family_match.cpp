#include "model_ir/spec/recorded_family/family_match.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

namespace headroom::ir {
namespace {

/// Rotary embeddings whose frequencies are made once, while the model is built: their code is one.
constexpr std::array<std::string_view, 6> kRopeTypes = {"default", "linear",       "llama3",
                                                        "yarn",    "proportional", "mrope"};

constexpr std::size_t kShown = 80;  // Characters of a list in a message.

std::string pointer_of(std::string_view path) {
  std::string pointer = "/" + std::string(path);
  std::ranges::replace(pointer, '.', '/');
  return pointer;
}

bool is_plain_rope(const JsonValue& value) {
  const std::string* const text = value.as_string();
  return text != nullptr && std::ranges::find(kRopeTypes, *text) != kRopeTypes.end();
}

bool is_like(std::string_view path, const JsonValue& got, const JsonValue& wanted) {
  if (path.ends_with("rope_type")) {
    if (is_plain_rope(got) && is_plain_rope(wanted)) {
      return true;
    }
  }
  const std::optional<double> mine = got.as_number();
  const std::optional<double> theirs = wanted.as_number();
  if (mine && theirs) {
    return *mine == *theirs;
  }
  return to_json(got) == to_json(wanted);
}

/// An entry of "written": a value in a config.json that transformers turns into the recorded ones
/// of the keys that it makes.
struct Written {
  std::string_view key;
  const JsonValue* value = nullptr;
  const JsonValue::Array* makes = nullptr;
  bool alone = false;  ///< The key stands for those that it makes: a file has it or them.

  [[nodiscard]] bool makes_key(std::string_view other) const {
    return std::ranges::any_of(*makes, [other](const JsonValue& each) {
      return each.as_string() != nullptr && *each.as_string() == other;
    });
  }
  [[nodiscard]] bool is_given(const ConfigValues& values) const {
    const JsonValue* const given = values.given(key);
    return given != nullptr && is_like(key, *given, *value);
  }
};

std::vector<Written> read_written(const JsonValue& keys) {
  std::vector<Written> result;
  const JsonValue* const written = keys.find("written");
  if (written == nullptr || written->as_object() == nullptr) {
    return result;
  }
  for (const JsonMember& one : *written->as_object()) {
    const JsonValue* const makes = one.value.find("makes");
    const JsonValue* const alone = one.value.find("alone");
    const Written read{.key = one.key,
                       .value = one.value.find("value"),
                       .makes = makes == nullptr ? nullptr : makes->as_array(),
                       .alone = alone != nullptr && alone->as_bool().value_or(false)};
    if (read.value != nullptr && read.makes != nullptr) {
      result.push_back(read);
    }
  }
  return result;
}

/// Whether transformers makes the recorded value of a key of what the file says: of the key itself,
/// or of all the keys that stand for it where the file does not have it.
bool is_written_so(const std::vector<Written>& written, const ConfigValues& values,
                   std::string_view key) {
  bool stands = false;
  for (const Written& one : written) {
    if (!one.makes_key(key)) {
      continue;
    }
    if (one.key == key) {
      return one.is_given(values);
    }
    if (!one.is_given(values)) {
      return false;
    }
    stands = true;
  }
  const JsonValue* const own = values.given(key);
  return stands && (own == nullptr || own->is_null());
}

/// A key that stands for others has the recorded value, or is absent.
Status check_written(const std::vector<Written>& written, const ConfigValues& values,
                     std::string_view file) {
  for (const Written& one : written) {
    const JsonValue* const given = values.given(one.key);
    if (one.alone && given != nullptr && !given->is_null() && !one.is_given(values)) {
      return unlike_family(file, one.key, to_json(*given).substr(0, kShown),
                           to_json(*one.value).substr(0, kShown));
    }
  }
  return ok();
}

/// Whether a key decides only with which numbers weights begin. Some code asks for one that its
/// configuration does not declare.
bool is_initialiser(std::string_view path) {
  constexpr std::array<std::string_view, 3> kNames = {"initializer_range", "initializer_factor",
                                                      "init_std"};
  const std::string_view last = path.substr(path.rfind('.') + 1);
  return std::ranges::find(kNames, last) != kNames.end();
}

/// The older name of rope_type, which some files have besides it.
bool is_old_name(std::string_view path) {
  return path.ends_with("rope_parameters.type");
}

/// Whether a file says of a nested part that it ties nothing, where the recorded one does not say:
/// the key of the whole model decides (modeling_utils.py, tie_weights).
bool is_untied_part(std::string_view path, const JsonValue& got) {
  return path.ends_with(".tie_word_embeddings") && got.as_bool() == false;
}

Status check_fixed(const std::vector<Written>& written, const JsonValue::Object& fixed,
                   const ConfigValues& values, std::string_view file) {
  for (const JsonMember& one : fixed) {
    if (is_written_so(written, values, one.key) || is_initialiser(one.key) ||
        is_old_name(one.key)) {
      continue;
    }
    // Without a default that is known, an absent key may mean another value.
    const JsonValue value = values.at(one.key).value_or(JsonValue());
    const bool is_said = one.value.is_null() && is_untied_part(one.key, value);
    if (!is_said && !is_like(one.key, value, one.value)) {
      return unlike_family(file, one.key, value.is_null() ? "nothing" : to_json(value),
                           to_json(one.value));
    }
  }
  return ok();
}

Status check_lists(const std::vector<Written>& written, const JsonValue::Object& lists,
                   const ConfigValues& values, std::string_view file) {
  for (const JsonMember& one : lists) {
    if (is_written_so(written, values, one.key)) {
      continue;
    }
    const JsonValue value = values.at(one.key).value_or(JsonValue());
    if (value.is_null()) {
      continue;
    }
    const JsonValue::Array* const got = value.as_array();
    if (got == nullptr) {
      return unlike_family(file, one.key, to_json(value), "a list");
    }
    if (one.value.find("made") != nullptr) {  // No other list than the usual one was seen.
      const std::optional<JsonValue> usual = values.made_by_default(one.key);
      if (!got->empty() && (!usual || to_json(*usual) != to_json(value))) {
        return unlike_family(file, one.key, to_json(value).substr(0, kShown),
                             "the list that transformers makes when the key is absent");
      }
      continue;
    }
    if (const JsonValue* each = one.value.find("each")) {
      const JsonValue* const key = each->find("key");  // Every layer has the value of a key.
      const std::optional<JsonValue> same = key != nullptr && key->as_string() != nullptr
                                                ? values.at(*key->as_string())
                                                : std::nullopt;
      each = same ? &*same : each;
      for (const JsonValue& layer : *got) {
        if (to_json(layer) != to_json(*each)) {
          return unlike_family(file, one.key, to_json(layer), to_json(*each) + " for every layer");
        }
      }
    } else if (to_json(value) != to_json(one.value)) {
      return unlike_family(file, one.key, to_json(value).substr(0, kShown),
                           to_json(one.value).substr(0, kShown));
    }
  }
  return ok();
}

/// Keys that the code of transformers reads although its configurations do not declare them: where
/// the recording does not know one, a config.json that has it must say what its absence means.
Status check_undeclared(const JsonValue& keys, const ConfigValues& values, std::string_view file) {
  const auto knows = [&keys](const std::string& key) {
    return std::ranges::any_of(std::array{"defaults", "fixed"}, [&](const char* part) {
      const JsonValue* const known = keys.find(part);
      return known != nullptr && known->find(key) != nullptr;
    });
  };
  for (const char* const part : {"", "text_config."}) {
    const std::string owner(part);
    const std::string key = owner + "head_dim";
    const JsonValue* const given = values.given(key);
    if (given == nullptr || given->is_null() || knows(key)) {
      continue;
    }
    const std::optional<std::int64_t> hidden = values.number(owner + "hidden_size");
    const std::optional<std::int64_t> heads = values.number(owner + "num_attention_heads");
    const std::optional<std::int64_t> width = given->as_integer();
    if (hidden && heads && *heads > 0 && width != *hidden / *heads) {
      return unlike_family(file, key, to_json(*given), std::to_string(*hidden / *heads));
    }
  }
  return ok();
}

/// A token goes to at least one expert, and to no more than there are.
Status check_routing(const ConfigValues& values, std::string_view file) {
  constexpr std::array kChosen = {"num_experts_per_tok", "top_k_experts", "moe_topk", "moe_k"};
  constexpr std::array kExperts = {"num_local_experts", "num_experts", "n_routed_experts",
                                   "moe_num_experts"};
  for (const char* const part : {"", "text_config."}) {
    for (const char* const chosen : kChosen) {
      const std::string key = std::string(part) + chosen;
      const JsonValue* const given = values.given(key);
      const std::optional<std::int64_t> count = given ? given->as_integer() : std::nullopt;
      if (!count) {
        continue;
      }
      for (const char* const experts : kExperts) {
        const std::optional<std::int64_t> all = values.number(std::string(part) + experts);
        if (*count < 1 || (all && *count > *all)) {
          return Error::invalid_input(file, pointer_of(key), std::to_string(*count),
                                      "a number of experts of each token, at least 1 and at most "
                                      "all " +
                                          (all ? std::to_string(*all) : std::string()));
        }
      }
    }
  }
  return ok();
}

Status check_relation(const JsonValue::Array& relation, const ConfigValues& values,
                      std::string_view file) {
  const std::string* const key = relation.size() == 3 ? relation[0].as_string() : nullptr;
  const std::string* const sign = key == nullptr ? nullptr : relation[1].as_string();
  if (sign == nullptr) {
    return Error::invalid_input(file, "", "a relation of another form", "[key, sign, key]");
  }
  const std::string* const other = relation[2].as_string();
  const std::optional<std::int64_t> mine = values.number(*key);
  const std::optional<std::int64_t> theirs =
      other != nullptr ? values.number(*other) : relation[2].as_integer();
  if (mine && theirs && (*mine == *theirs) != (*sign == "==")) {
    const std::string than = other != nullptr ? *other : std::to_string(*theirs);
    return unlike_family(file, *key, std::to_string(*mine),
                         (*sign == "==" ? "the value of " : "another value than ") + than);
  }
  return ok();
}

}  // namespace

Error unlike_family(std::string_view file, std::string_view path, std::string_view got,
                    std::string_view wanted) {
  return Error::invalid_input(
      file, pointer_of(path), got, std::string(wanted) + ", as in the recordings of this family",
      "record this model from its own code: headroom import FILE --output model.json (it needs "
      "PyTorch and transformers)");
}

Status check_family(const JsonValue& keys, const ConfigValues& values, std::string_view file) {
  const std::vector<Written> written = read_written(keys);
  if (Status status = check_written(written, values, file); !status) {
    return status;
  }
  const JsonValue* const fixed = keys.find("fixed");
  if (fixed != nullptr && fixed->as_object() != nullptr) {
    if (Status status = check_fixed(written, *fixed->as_object(), values, file); !status) {
      return status;
    }
  }
  const JsonValue* const lists = keys.find("lists");
  if (lists != nullptr && lists->as_object() != nullptr) {
    if (Status status = check_lists(written, *lists->as_object(), values, file); !status) {
      return status;
    }
  }
  if (Status status = check_undeclared(keys, values, file); !status) {
    return status;
  }
  if (Status status = check_routing(values, file); !status) {
    return status;
  }
  const JsonValue* const where = keys.find("where");
  if (where != nullptr && where->as_array() != nullptr) {
    for (const JsonValue& relation : *where->as_array()) {
      if (relation.as_array() == nullptr) {
        continue;
      }
      if (Status status = check_relation(*relation.as_array(), values, file); !status) {
        return status;
      }
    }
  }
  return ok();
}

}  // namespace headroom::ir
