// Questions that people asked in forums and recipes that were published, with what happened to
// them.
#include <doctest/doctest.h>

#include <cstddef>
#include <set>
#include <string>
#include <string_view>

#include "model_ir/base/file.h"
#include "model_ir/json/json_value.h"
#include "tests/support/cli.h"
#include "tests/support/random.h"

namespace headroom {
namespace {

using test::Answer;
using test::Document;

constexpr std::string_view kHostOut = "host out of memory";

const ir::JsonValue::Array& questions() {
  static const Document file(
      read_file(test::source_file("tests/scenarios/questions.json")).value());
  return file.array("questions");
}

/// A field of a question; empty if the question does not have it.
std::string field(const ir::JsonValue& question, std::string_view name) {
  const ir::JsonValue* found = question.find(name);
  return found == nullptr ? std::string() : *found->as_string();
}

bool is_of_host(const ir::JsonValue& question) {
  return question.find("host") != nullptr;
}

std::string command_of(const ir::JsonValue& question) {
  const std::string memory = field(question, "host_memory");
  const std::string host = !memory.empty() ? " --host-memory " + memory : "";
  return field(question, "command") + host;
}

/// Whether the answer leaves open if the run fits: the chance is below the level of the intervals,
/// or the host's is tight.
bool is_uncertain(const Document& answer) {
  const ir::JsonValue* host = answer.find("host/verdict");
  return answer.number("confidence/fits_probability") < answer.number("confidence/level") ||
         (host != nullptr && *host->as_string() == "tight");
}

/// Whether a verdict agrees with what happened. "tight" agrees with a run that worked, and with one
/// that failed if the answer is uncertain. A failure of the host has to be the host's in the
/// answer.
bool agrees(const Document& answer, std::string_view outcome) {
  const std::string verdict = answer.text("verdict");
  if (outcome == "fits") {
    return verdict != "does not fit";
  }
  const ir::JsonValue* host = answer.find("host/verdict");
  if (outcome == kHostOut && host != nullptr && *host->as_string() == "fits") {
    return false;
  }
  return verdict == "does not fit" || (verdict == "tight" && is_uncertain(answer));
}

/// Asks a question and compares the answer with the outcome.
void check_question(const ir::JsonValue& question) {
  const std::string command = command_of(question);
  CAPTURE(field(question, "id"));
  CAPTURE(field(question, "question"));
  CAPTURE(field(question, "source"));
  CAPTURE(field(question, "outcome"));
  CAPTURE(command);
  const std::string refused = field(question, "refused");
  if (!refused.empty()) {
    // A question that is answered one day has to lose this field.
    const Answer answer = test::headroom(command);
    CHECK(answer.code == cli::ExitCode::kUsage);
    CHECK(answer.complains(refused));
    return;
  }
  const Document answer = test::json_of(command);
  CAPTURE(answer.text("verdict"));
  // So does a question whose verdict is known to differ, once it agrees.
  CHECK(agrees(answer, field(question, "outcome")) == field(question, "differs").empty());
}

/// Asks all questions of a list, those of the host or those of the device.
void check_list(std::string_view list, bool of_host) {
  std::size_t listed = 0;
  for (const ir::JsonValue& question : questions()) {
    if (field(question, "list") == list && is_of_host(question) == of_host &&
        listed++ % test::kListStride == 0) {
      check_question(question);
    }
  }
  CHECK(listed > 0);
}

}  // namespace

TEST_CASE("questions: the file states what was asked, what happened and where it is written") {
  std::set<std::string> ids;
  for (const ir::JsonValue& question : questions()) {
    const std::string id = field(question, "id");
    CAPTURE(id);
    CHECK(ids.insert(id).second);
    CHECK(field(question, "question").back() == '.');
    CHECK(field(question, "assumed").back() == '.');
    CHECK(field(question, "source").substr(0, 8) == "https://");
    const std::string outcome = field(question, "outcome");
    const bool on_device = outcome == "fits" || outcome == "device out of memory";
    CHECK((on_device || (outcome == kHostOut && is_of_host(question))));
    CHECK(is_of_host(question) == !field(question, "host_memory").empty());
    const std::string command = field(question, "command") + " ";
    const std::string gpus = std::to_string(question.find("gpus")->as_integer().value());
    CHECK(command.find("fit " + field(question, "model") + " ") == 0);
    CHECK(command.find(" --gpu " + field(question, "gpu") + " ") != std::string::npos);
    CHECK((gpus == "1" || command.find(" --gpus " + gpus + " ") != std::string::npos));
  }
  CHECK(ids.size() >= 40);
}

TEST_CASE("questions: forum threads about the GPU get the verdict that the run met") {
  check_list("forum", false);
}

TEST_CASE("questions: published recipes for the GPU get the verdict that the run met") {
  check_list("recipe", false);
}

TEST_CASE("questions: runs that take host memory get the verdict that they met") {
  check_list("forum", true);
  check_list("recipe", true);
}

}  // namespace headroom
