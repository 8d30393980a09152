#include "model_ir/spec/model_catalogue.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <set>
#include <string>

#include <doctest/doctest.h>

#include "model_ir/base/file.h"
#include "model_ir/json/json_value.h"
#include "model_ir/spec/family.h"
#include "model_ir/spec/hf_config.h"
#include "model_ir/spec/param_count.h"
#include "tests/support/configs.h"
#include "tests/support/random.h"
#include "tests/support/temporary_folder.h"

namespace headroom::ir {
namespace {

std::string catalogue() {
  return test::kConfigs + "/models";
}

}  // namespace

TEST_CASE("model catalogue: every entry reads, names its sources and adds up") {
  const auto listed = list_models(catalogue());
  REQUIRE_MESSAGE(listed, to_text(listed.error()));
  CHECK(listed->size() >= 240);
  std::set<Family> families;
  for (std::size_t at = 0; at < listed->size(); ++at) {
    const ModelEntry& one = (*listed)[at];
    families.insert(one.spec.family);
    if (at % test::kListStride != 0) {
      continue;
    }
    CAPTURE(one.name);
    const auto found = load_entry(catalogue(), one.name);
    REQUIRE_MESSAGE(found, to_text(found.error()));
    const ModelEntry& entry = *found;
    CHECK(entry.spec.family == one.spec.family);
    CHECK(entry.parameters == one.parameters);
    CHECK(entry.spec.layers.size() == one.spec.layers.size());
    CHECK(count_parameters(entry.spec).total() == entry.parameters);
    CHECK(entry.config_source.rfind("https://", 0) == 0);
    CHECK((entry.parameters_source.find("https://") != std::string::npos ||
           entry.parameters_source.find("arXiv:") != std::string::npos));
    CHECK((entry.published_parameters == entry.parameters) == entry.difference.empty());
    CHECK((entry.hf_id.empty() || entry.hf_id.find('/') != std::string::npos));
    CHECK(entry.spec.name == entry.name);
  }
  CHECK(families.size() == kFamilies.size() + 1);  // And those that were recorded.
}

TEST_CASE("model catalogue: titles are those of the entries") {
  const auto entries = list_models(catalogue());
  const auto titles = list_titles(catalogue());
  REQUIRE(entries);
  REQUIRE_MESSAGE(titles, to_text(titles.error()));
  REQUIRE(titles->size() == entries->size());
  for (std::size_t index = 0; index < titles->size(); ++index) {
    const ModelEntry& entry = (*entries)[index];
    CHECK((*titles)[index] ==
          ModelTitle{.name = entry.name, .hf_id = entry.hf_id, .parameters = entry.parameters});
  }
}

TEST_CASE("model catalogue: a file without a title is named") {
  const test::TemporaryFolder folder;
  folder.write("half.json", R"({"name": "half"})");
  const auto titles = list_titles(folder.path());
  REQUIRE_FALSE(titles);
  CHECK(titles.error().file.find("half.json") != std::string::npos);
  CHECK(to_text(titles.error()).find("parameters") != std::string::npos);
}

TEST_CASE("model catalogue: published counts") {
  struct Published {
    const char* name;
    std::int64_t parameters;
  };
  for (const Published& model :
       {Published{"llama-2-7b", 6'738'415'616}, Published{"llama-3.1-8b", 8'030'261'248},
        Published{"llama-3.1-405b", 405'853'388'800}, Published{"mistral-7b-v0.1", 7'241'732'096},
        Published{"mixtral-8x7b", 46'702'792'704}, Published{"qwen2.5-7b", 7'615'616'512},
        Published{"gemma-2-9b", 9'241'705'984}, Published{"gpt-oss-120b", 116'829'156'672},
        Published{"bloom-176b", 176'247'271'424}, Published{"pythia-12b", 11'846'072'320},
        Published{"gpt3-175b", 174'604'259'328},
        // https://huggingface.co/api/models/ID, safetensors.total.
        Published{"qwen3-coder-480b-a35b", 480'154'875'392},
        Published{"qwen3-30b-a3b-2507", 30'532'122'624},
        Published{"deepseek-r1-distill-qwen-1.5b", 1'777'088'000},
        Published{"deepseek-r1-distill-llama-70b", 70'553'706'496},
        Published{"deepseek-coder-v2", 235'741'434'880}, Published{"qwq-32b", 32'763'876'352},
        Published{"yi-1.5-9b", 8'829'407'232}, Published{"falcon3-7b", 7'455'550'464},
        Published{"solar-10.7b", 10'731'524'096}, Published{"qwen1.5-14b", 14'167'290'880},
        Published{"aya-expanse-32b", 32'296'476'672},
        Published{"command-r-plus-08-2024", 103'810'674'688},
        Published{"hermes-2-mixtral-8x7b", 46'702'809'088},
        Published{"minitron-8b-nemo", 8'414'105'600}, Published{"tulu-3-8b", 8'030'326'784},
        Published{"granite-8b-code", 8'054'910'976}, Published{"smollm-1.7b", 1'711'376'384},
        Published{"stablelm-zephyr-3b", 2'795'443'200}, Published{"eurollm-9b", 9'152'319'488},
        // keras-hub, keras_hub/src/models/*/*_presets.py, params.
        Published{"codegemma-7b", 8'537'680'896},
        Published{"magistral-small-24b", 23'572'403'200}}) {
    CAPTURE(model.name);
    CHECK(load_entry(catalogue(), model.name)->parameters == model.parameters);
  }
  CHECK(load_entry(catalogue(), "deepseek-v3")->published_parameters == 671'026'419'200);
  CHECK(load_entry(catalogue(), "flan-t5-xxl")->published_parameters == 11'135'332'352);
}

TEST_CASE(
    "model catalogue: aliases.json holds every alias and every Hugging Face id, and no other") {
  const auto entries = list_models(catalogue());
  REQUIRE(entries);
  std::set<std::pair<std::string, std::string>> expected;
  for (const ModelEntry& entry : *entries) {
    std::string id = entry.hf_id;
    std::transform(id.begin(), id.end(), id.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    if (!id.empty()) {
      expected.emplace(id, entry.name);
    }
    for (const std::string& alias : entry.aliases) {
      expected.emplace(alias, entry.name);
    }
  }
  const std::string path = catalogue() + "/aliases.json";
  const auto document = parse_json(read_file(path).value(), path);
  std::set<std::pair<std::string, std::string>> written;
  for (const JsonMember& member : *document->as_object()) {
    written.emplace(member.key, *member.value.as_string());
  }
  CHECK(written == expected);
}

TEST_CASE("model catalogue: models that wait for their family have a source and an unknown type") {
  std::size_t waiting = 0;
  for (const auto& file : std::filesystem::directory_iterator(catalogue() + "/unanswered")) {
    const std::string path = file.path().string();
    CAPTURE(path);
    const auto document = parse_json(read_file(path).value(), path);
    REQUIRE(document);
    CHECK(*document->find("name")->as_string() == file.path().stem().string());
    CHECK(document->find("hf_id")->as_string()->find('/') != std::string::npos);
    CHECK(document->find("source")->find("config")->as_string()->starts_with("https://"));
    // A family that has become known: move the file to configs/models, with its parameters.
    CHECK_FALSE(parse_hf_config(to_json(*document->find("config")), path));
    ++waiting;
  }
  CHECK(waiting >= 1);
  CHECK_FALSE(load_entry(catalogue(), "llama-4-scout"));
}

TEST_CASE("model catalogue: names, aliases and ids in any case lead to one entry") {
  for (const char* name : {"llama-3.1-8b", "LLAMA-3.1-8B", "meta-llama/Llama-3.1-8B", "llama3.1-8b",
                           "meta-llama/Llama-3.1-8B-Instruct"}) {
    CAPTURE(name);
    CHECK(load_model(catalogue(), name)->name == "llama-3.1-8b");
  }
}

TEST_CASE("model catalogue: an unknown name lists its neighbours") {
  const auto model = load_model(catalogue(), "lama-3.1-8b");
  REQUIRE_FALSE(model);
  CHECK(model.error().code == ErrorCode::kInvalidArgument);
  CHECK(model.error().got == "lama-3.1-8b");
  CHECK(model.error().fix.find("llama-3.1-8b") != std::string::npos);
}

TEST_CASE("model catalogue: no name leads out of the folder") {
  const test::TemporaryFolder folder;
  folder.write("outside.json", "{}");
  folder.write("models/inside.json", "{}");
  for (const char* name : {"../outside", "/etc/passwd", "", ".", "..", "a\nb", "aliases"}) {
    CAPTURE(name);
    const auto model = load_model(folder.path("models"), name);
    REQUIRE_FALSE(model);
    CHECK(model.error().code == ErrorCode::kInvalidArgument);
  }
  CHECK(load_model(folder.path("absent"), "x").error().code == ErrorCode::kEnvironment);
}

TEST_CASE("model catalogue: one broken entry does not stand in the way of another") {
  const test::TemporaryFolder folder;
  const std::string good = read_file(catalogue() + "/gpt2.json").value();
  folder.write("gpt2.json", good);
  folder.write("broken.json", "{");
  folder.write("renamed.json", good);
  CHECK(load_model(folder.path(), "gpt2"));
  CHECK_FALSE(load_model(folder.path(), "broken"));
  const auto renamed = load_model(folder.path(), "renamed");
  REQUIRE_FALSE(renamed);
  CHECK(renamed.error().pointer == "/name");
}

TEST_CASE(
    "model catalogue: an entry without source, with an unknown key or a wrong sum is refused") {
  const std::string good = read_file(catalogue() + "/gpt2.json").value();
  REQUIRE(parse_entry(good, "gpt2.json"));
  struct Edit {
    const char* from;
    const char* to;
    const char* pointer;
  };
  for (const Edit& change :
       {Edit{"\"source\"", "\"sources\"", "/source"},
        Edit{"\"parameters\": 124439808", "\"parameters\": 124439809", "/parameters"},
        Edit{"\"n_head\": 12", "\"n_head\": 12, \"n_heads\": 12", "/config/n_heads"},
        Edit{"\"n_head\": 12", "\"n_head\": 0", "/config/n_head"},
        Edit{"\"parameters\": 124439808", "\"parameters\": 124439808, \"difference\": \"why\"",
             "/difference"}}) {
    CAPTURE(change.to);
    std::string text = good;
    text.replace(text.find(change.from), std::string(change.from).size(), change.to);
    const auto entry = parse_entry(text, "gpt2.json");
    REQUIRE_FALSE(entry);
    CHECK(entry.error().pointer == change.pointer);
  }
}

}  // namespace headroom::ir
