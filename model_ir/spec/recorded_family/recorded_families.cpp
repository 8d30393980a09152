#include "model_ir/spec/recorded_family/recorded_families.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "model_ir/base/file.h"
#include "model_ir/json/plain_json.h"
#include "model_ir/spec/recorded_family/config_values.h"
#include "model_ir/spec/recorded_family/family_expansion.h"
#include "model_ir/spec/recorded_family/family_match.h"
#include "model_ir/spec/recording/recorded_spec.h"

namespace headroom::ir {
namespace {

constexpr int kMostForms = 64;  // Recordings of one family.

/// Whether a `model_type` can be the name of a file.
bool is_plain(std::string_view type) {
  return !type.empty() && std::ranges::all_of(type, [](char one) {
    return (one >= 'a' && one <= 'z') || (one >= 'A' && one <= 'Z') || (one >= '0' && one <= '9') ||
           one == '_' || one == '-';
  });
}

/// The `model_type` of a configuration, if it can be the name of a file; else null.
const std::string* type_of(const JsonValue& config) {
  const JsonValue* const named = config.find("model_type");
  const std::string* const type = named == nullptr ? nullptr : named->as_string();
  return type != nullptr && is_plain(*type) ? type : nullptr;
}

std::string name_with_head(const std::string& type, std::string_view head) {
  return head.empty() ? type : type + "." + std::string(head);
}

std::string path_of(const std::string& folder, const std::string& name, int form) {
  return folder + "/" + name + (form == 1 ? "" : "." + std::to_string(form)) + ".json";
}

/// Leaves out all variants but the first.
void keep_one_variant(JsonValue& family) {
  for (JsonMember& member : *family.as_object()) {
    JsonValue::Array* const variants = member.key == "variants" ? member.value.as_array() : nullptr;
    if (variants != nullptr && variants->size() > 1) {
      variants->resize(1);
    }
  }
}

Result<FamilyModel> read_form(const std::string& path, const JsonValue& config,
                              std::string_view file, FamilyVariants variants) {
  const Result<std::string> text = read_file(path);
  if (!text) {
    return text.error();
  }
  // Most recordings of a type are of other models: their keys say so, and come before their code.
  if (const std::optional<JsonValue> keys = read_plain_member(*text, "keys", {})) {
    if (Status status = check_family(*keys, ConfigValues(config, *keys), file); !status) {
      return std::move(status).error();
    }
  }
  Result<JsonValue> parsed = parse_json(*text, path);
  if (!parsed) {
    return std::move(parsed).error();
  }
  JsonValue family = std::move(parsed).value();
  if (variants == FamilyVariants::kFirst && family.as_object() != nullptr) {
    keep_one_variant(family);
  }
  Result<ExpandedFamily> expanded = expand_family(std::move(family), path, config, file);
  if (!expanded) {
    return std::move(expanded).error();
  }
  Result<ModelSpec> model = read_recorded_model(expanded->recording, path);
  if (!model) {
    return std::move(model).error();
  }
  ExpandedFamily family_keys = std::move(expanded).value();
  return FamilyModel{.model = std::move(model).value(),
                     .defaulted = std::move(family_keys.defaulted),
                     .ignored = std::move(family_keys.ignored)};
}

}  // namespace

Result<std::vector<RecordedFamily>> recorded_families(const std::string& folder) {
  std::error_code fault;
  if (!std::filesystem::exists(folder, fault)) {
    return std::vector<RecordedFamily>();
  }
  std::vector<RecordedFamily> families;
  std::filesystem::directory_iterator each(folder, fault);
  for (; !fault && each != std::filesystem::directory_iterator(); each.increment(fault)) {
    const std::filesystem::path& path = each->path();
    const std::string type = path.stem().string();
    if (path.extension() != ".json" || !is_plain(type)) {
      continue;  // Further forms are counted with the first.
    }
    int forms = 1;
    std::error_code missing;
    while (forms < kMostForms &&
           std::filesystem::exists(path_of(folder, type, forms + 1), missing)) {
      ++forms;
    }
    RecordedFamily& family = families.emplace_back();
    family.type = type;
    family.forms = forms;
    for (const std::string_view head : kRecordedHeads) {
      if (std::filesystem::exists(path_of(folder, name_with_head(type, head), 1), missing)) {
        family.heads.emplace_back(head);
      }
    }
  }
  if (fault) {
    return Error::environment(folder, fault.message(), "a folder that can be read");
  }
  std::ranges::sort(families, {}, &RecordedFamily::type);
  return families;
}

bool is_recorded(const JsonValue& config, const std::string& folder, std::string_view head) {
  const std::string* const type = type_of(config);
  std::error_code fault;
  return type != nullptr &&
         std::filesystem::exists(path_of(folder, name_with_head(*type, head), 1), fault);
}

Result<std::optional<FamilyModel>> model_of_family(const JsonValue& config, std::string_view file,
                                                   const std::string& folder,
                                                   FamilyVariants variants, std::string_view head) {
  const std::string* const type = type_of(config);
  if (type == nullptr) {
    return std::optional<FamilyModel>();
  }
  const std::string name = name_with_head(*type, head);
  std::optional<Error> unlike;
  for (int form = 1; form <= kMostForms; ++form) {
    const std::string path = path_of(folder, name, form);
    std::error_code fault;
    if (!std::filesystem::exists(path, fault)) {
      break;
    }
    Result<FamilyModel> model = read_form(path, config, file, variants);
    if (model) {
      return std::optional<FamilyModel>(std::move(model).value());
    }
    Error error = std::move(model).error();
    if (error.file != file) {
      return error;  // The recording cannot be read: no other one hides that.
    }
    if (!head.empty()) {
      error.fix = "record this model from its own code: headroom import FILE --task " +
                  std::string(head) + " --output model.json (it needs PyTorch and transformers)";
    }
    unlike = unlike ? std::move(*unlike).with_note("recording " + std::to_string(form) +
                                                   " differs, too: " + error.pointer + ": got " +
                                                   error.got + ", expected " + error.wanted)
                    : std::move(error);
  }
  if (unlike) {
    return *unlike;
  }
  return std::optional<FamilyModel>();
}

}  // namespace headroom::ir
