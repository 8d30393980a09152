#include "runtimes/plan_file.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "model_ir/json/json_reader.h"
#include "model_ir/json/json_writer.h"
#include "runtimes/plan_json.h"

namespace headroom::ir {
namespace {

constexpr std::int64_t kPlanFileVersion = 1;
constexpr std::string_view kInDocument = "plan_file";
constexpr std::string_view kNode = "node";

/// The keys that only a plan file has, and no plan.
constexpr std::array<std::string_view, 6> kFileKeys = {"model", "device",      kNode,
                                                       "plan",  "assumptions", "search"};

PlanFile file_with(const ParallelPlan& plan) {
  return {.model = "", .device = "", .assumptions = {}, .search = {}, .plan = plan};
}

bool has_file_key(const std::vector<std::string>& keys) {
  return std::ranges::any_of(kFileKeys, [&keys](std::string_view key) {
    return std::ranges::find(keys, key) != keys.end();
  });
}

bool has_key(const std::vector<std::string>& keys, std::string_view key) {
  return std::ranges::find(keys, key) != keys.end();
}

std::vector<Assumption> read_texts(const JsonObject& object) {
  std::vector<Assumption> texts;
  for (const std::string& option : object.keys()) {
    texts.push_back({.option = option, .value = object.text(option)});
  }
  return texts;
}

std::vector<Assumption> read_assumptions(const JsonObject& root) {
  std::vector<Assumption> assumptions;
  if (const std::optional<std::string> node = root.optional_text(kNode)) {
    assumptions.push_back({.option = std::string(kNode), .value = *node});
  }
  if (const std::optional<JsonObject> others = root.optional_object("assumptions")) {
    const std::vector<Assumption> texts = read_texts(*others);
    assumptions.insert(assumptions.end(), texts.begin(), texts.end());
  }
  return assumptions;
}

/// What is wrong with a document that has nothing of a plan at all; nothing if it may be one.
std::optional<Error> refuse_foreign(const JsonObject& root, std::string_view file) {
  const std::vector<std::string> keys = root.keys();
  constexpr std::string_view kWanted =
      "a plan file, the --json document of a verb, or a plan "
      "(configs/schema/plan_file.schema.json)";
  constexpr std::string_view kFix = "headroom plan MODEL --gpu NAME --output FILE writes one";
  if (has_key(keys, "error")) {
    return Error::invalid_input(file, "/error", "the message of a command that failed", kWanted,
                                "repair that command first");
  }
  if (has_key(keys, "model_type")) {
    return Error::invalid_input(file, "/model_type", "the configuration of a model", kWanted,
                                "name it as MODEL, without --plan");
  }
  const JsonValue usual = plan_to_json({});
  const bool known = std::ranges::any_of(keys, [&](const std::string& key) {
    return usual.find(key) != nullptr || key == "model_code" || key == kInDocument;
  });
  if (known || has_file_key(keys)) {
    return std::nullopt;
  }
  std::string got = keys.empty() ? "an empty object" : "an object with the keys ";
  constexpr std::size_t kMostKeys = 4;
  for (std::size_t at = 0; at < std::min(keys.size(), kMostKeys); ++at) {
    got += (at == 0 ? "" : ", ") + keys[at];
  }
  return Error::invalid_input(file, "", got, kWanted, kFix);
}

PlanFile read_file_object(const JsonObject& root, const ParallelPlan& base) {
  PlanFile file = file_with(base);
  root.accept("$schema");
  // Read only to check it.
  static_cast<void>(root.integer("schema_version", {kPlanFileVersion, kPlanFileVersion}));
  file.model = root.text_or("model", "");
  file.device = root.text_or("device", "");
  file.assumptions = read_assumptions(root);
  if (const std::optional<JsonObject> search = root.optional_object("search")) {
    file.search = read_texts(*search);
  }
  if (const std::optional<JsonObject> plan = root.optional_object("plan")) {
    file.plan = read_plan_object(*plan, base);
  } else if (!root.any_faults()) {
    root.refuse("plan", "an object, the plan", "write the file with headroom plan --output FILE");
  }
  return file;
}

/// A verb's document holds much that is not read here.
PlanFile read_document(const JsonObject& root, const ParallelPlan& base) {
  for (const std::string& key : root.keys()) {
    root.accept(key);
  }
  if (root.is_null(kInDocument)) {
    root.refuse(kInDocument, "an object: a verb that found a plan writes one",
                "no plan was found; the document says what would fit under \"would_fit\"");
    return file_with(base);
  }
  return read_file_object(root.object(kInDocument), base);
}

}  // namespace

JsonValue plan_file_to_json(const PlanFile& file) {
  const auto text = [](const std::string& value) {
    return value.empty() ? JsonValue{} : JsonValue{value};
  };
  JsonFields fields;
  fields.add("schema_version", kPlanFileVersion);
  fields.add("model", text(file.model));
  fields.add("device", text(file.device));
  const auto node = std::ranges::find(file.assumptions, kNode, &Assumption::option);
  fields.add(kNode, node == file.assumptions.end() ? JsonValue{} : JsonValue{node->value});
  JsonFields others;
  for (const Assumption& assumption : file.assumptions) {
    if (assumption.option != kNode) {
      others.add(assumption.option, assumption.value);
    }
  }
  fields.add("assumptions", std::move(others));
  JsonFields search;
  for (const Assumption& option : file.search.value_or(std::vector<Assumption>{})) {
    search.add(option.option, option.value);
  }
  fields.add("search", file.search ? std::move(search).finish() : JsonValue{});
  fields.add("plan", plan_to_json(file.plan));
  return std::move(fields).finish();
}

Result<PlanText> PlanText::parse(std::string_view text, std::string_view file) {
  Result<JsonValue> root = JsonReader::parse_root(text, file);
  return root ? Result<PlanText>(PlanText(std::move(root).value(), file))
              : Result<PlanText>(std::move(root).error());
}

PlanText::PlanText(JsonValue document, std::string_view file)
    : document_(std::make_shared<const JsonValue>(std::move(document))), file_(file) {}

Result<PlanFile> PlanText::read(const ParallelPlan& base) const {
  const std::string_view file = file_;
  const JsonReader reader = JsonReader::from_root(document_, file);
  const JsonObject root = reader.root();
  const std::vector<std::string> keys = root.keys();
  PlanFile found = file_with(base);
  if (std::optional<Error> foreign = refuse_foreign(root, file)) {
    return *std::move(foreign);
  }
  if (has_key(keys, kInDocument)) {
    found = read_document(root, base);
  } else if (has_file_key(keys)) {
    found = read_file_object(root, base);
  } else {
    found.plan = read_plan_object(root, base);
  }
  if (Status status = reader.finish_refusing_unknown_keys(); !status) {
    return std::move(status).error();
  }
  return found;
}

Result<PlanFile> parse_plan_file(std::string_view text, std::string_view file,
                                 const ParallelPlan& base) {
  const Result<PlanText> parsed = PlanText::parse(text, file);
  return parsed ? parsed->read(base) : Result<PlanFile>(parsed.error());
}

Result<PlanFile> read_plan_file(const std::string& path, const ParallelPlan& base) {
  const Result<std::string> text = read_file(path == "-" ? "/dev/stdin" : path);
  return text ? parse_plan_file(*text, path, base) : Result<PlanFile>(text.error());
}

bool is_plan_file(std::string_view text) {
  const Result<JsonValue> document = parse_json(text, "");
  if (!document || document->as_object() == nullptr) {
    return false;
  }
  const auto has = [&document](std::string_view key) { return document->find(key) != nullptr; };
  // Every configuration of a model that can be read says its model_type.
  return has(kInDocument) ||
         (has("plan") && (has("schema_version") || has("model") || has("device"))) ||
         (has("schema_version") && has("runtime") && !has("model_type"));
}

}  // namespace headroom::ir
