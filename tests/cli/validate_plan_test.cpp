// A shell script stands in for a Python with PyTorch: it answers what is asked about its packages
// and GPUs, and "trains" by writing a report.
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "model_ir/base/file.h"
#include "tests/support/cli.h"
#include "tests/support/dryrun.h"
#include "tests/support/schema.h"

namespace headroom::cli {
namespace {

using test::Answer;
using test::Document;
using test::DryRunFolder;

constexpr std::string_view kPlan =
    R"({"schema_version": 1, "model": "gpt2", "device": "h100-80gb", "plan": {"schema_version": 1,
        "attention": "sdpa-no-cudnn", "sequence": 512, "steps": 1}})";

/// A folder with a plan and a Python.
class PlanFolder {
 public:
  explicit PlanFolder(std::string_view plan = kPlan) { folder_.write("plan.json", plan); }

  /// Python says that it has `gpus` GPUs; its script writes `report` and ends with `code`.
  void set_python(std::string_view report, int gpus = 1, int code = 0,
                  std::string_view trouble = "") const {
    folder_.write("report.json", report);
    folder_.script("python3",
                   "if [ \"$1\" = -c ]; then\n"
                   "  echo '{\"version\": \"2.11.0+cu130\", \"cuda\": \"13.0\", \"hip\": \"\", "
                   "\"shared\": true, "
                   "\"trouble\": \"" +
                       std::string(trouble) + "\", \"gpus\": " + std::to_string(gpus) +
                       ", \"name\": \"NVIDIA H100 80GB HBM3\"}'\n"
                       "  exit 0\n"
                       "fi\n"
                       "folder=$HEADROOM_DRYRUN_DIR\n"
                       "while [ $# -gt 0 ]; do\n"
                       "  case $1 in --report) folder=$2 ;; *.json) cp \"$1\" '" +
                       folder_.path("seen.json") +
                       "' ;; esac\n"
                       "  shift\n"
                       "done\n"
                       "cp '" +
                       folder_.path("report.json") + "' \"$folder/0-$$.json\"\nexit " +
                       std::to_string(code));
  }
  [[nodiscard]] std::string path(const char* below) const { return folder_.path(below); }
  [[nodiscard]] bool is_clean() const { return folder_.is_clean(); }
  /// `headroom validate PLAN OPTIONS --python PYTHON`.
  [[nodiscard]] Answer run(const std::string& options) const {
    std::vector<std::string> line = {"validate", folder_.path("plan.json"), "--python",
                                     folder_.path("python3")};
    for (const std::string& word : test::words(options)) {
      line.push_back(word);
    }
    return test::headroom_with(line);
  }

 private:
  DryRunFolder folder_;
};

/// A report with these peaks in every phase of a step.
std::string report_with(std::int64_t allocated, std::int64_t reserved, std::string_view more = "") {
  const std::string figures = R"("peak_allocated": )" + std::to_string(allocated) +
                              R"(, "peak_reserved": )" + std::to_string(reserved);
  return R"({"version": 1, "stopped": "end", "versions": {"torch": "2.11.0+cu130",
      "transformers": "5.16.0"}, "device": {"name": "x", "bytes": 85017493504}, "phases": [
      {"name": "load", "step": 0, "peak_allocated": 1, "peak_reserved": 1},
      {"name": "forward", "step": 1, "micro_batch": 1, )" +
         figures + R"(}, {"name": "backward", "step": 1, "micro_batch": 1, )" + figures +
         R"(}], "peak": {"phase": 1, "allocated": )" + std::to_string(allocated) +
         R"(, "reserved": )" + std::to_string(reserved) + R"(, "live": []})" + std::string(more) +
         "}";
}

struct Peaks {
  std::int64_t allocated = 0;
  std::int64_t reserved = 0;
};

/// The predicted peaks of kPlan.
Peaks predicted_peaks_of(const PlanFolder& folder) {
  folder.set_python(report_with(1, 1));
  const Document answer(folder.run("--with dryrun --json").out);
  return {.allocated = answer.integer("predicted/peak_allocated_bytes"),
          .reserved = answer.integer("predicted/peak_reserved_bytes")};
}

}  // namespace

TEST_CASE("validate plan: equal peaks are the same to the byte, others count by the tolerance") {
  const PlanFolder folder;
  const Peaks predicted = predicted_peaks_of(folder);
  folder.set_python(report_with(predicted.allocated, predicted.reserved));
  Answer answer = folder.run("--with dryrun");
  CHECK(answer.code == ExitCode::kYes);
  CHECK(answer.says("gpt2 on 1 x h100-80gb, dry run: the same to the byte"));
  CHECK(answer.says("transformers is 5.16.0; the prediction is for 5.17"));
  CHECK(answer.says("step1.backward"));
  CHECK(folder.is_clean());

  folder.set_python(report_with(predicted.allocated, predicted.reserved * 102 / 100));
  answer = folder.run("--with dryrun");
  CHECK(answer.code == ExitCode::kNo);
  CHECK(answer.says("not within 1.0 %: off by 2.0 %"));
  CHECK(folder.run("--with dryrun --tolerance 3%").code == ExitCode::kYes);
  CHECK(folder.run("--with dryrun --tolerance 0.03").code == ExitCode::kYes);
  CHECK(folder.run("--with dryrun --tolerance 101%").code == ExitCode::kUsage);
}

TEST_CASE("validate plan: --json has both sides, every phase and the versions") {
  const PlanFolder folder;
  folder.set_python(report_with(5'000'000'000, 6'000'000'000));
  const Answer answer = folder.run("--with dryrun --json");
  CHECK(answer.code == ExitCode::kNo);
  const Document document(answer.out);
  CHECK(document.text("answer") == "differs");
  CHECK(document.integer("measured/peak_reserved_bytes") == 6'000'000'000);
  CHECK(document.text("versions/1/assumed") == "5.17");
  CHECK(document.text("phases/1/phase") == "step1.forward");
  const ir::JsonValue schema = test::read_schema("validation.schema.json");
  for (const std::string& fault : test::SchemaCheck::faults(schema, document.at(""))) {
    FAIL_CHECK(fault);
  }
  // This is the case that the script was given.
  const Document seen(read_file(folder.path("seen.json")).value());
  CHECK(seen.text("model/class") == "AutoModelForCausalLM");
  CHECK(seen.integer("plan/sequence") == 512);
}

TEST_CASE("validate plan: a program that fails is not measured, out of memory is a verdict") {
  const PlanFolder folder;
  folder.set_python(
      report_with(1, 1, R"(, "exception": {"type": "ValueError", "message": "no such layer"})"), 1,
      1);
  Answer answer = folder.run("--with dryrun");
  CHECK(answer.code == ExitCode::kBadInput);
  CHECK(answer.says("not measured: ValueError: no such layer"));
  const std::string oom = R"(, "oom": {"requested": 2147483648, "free": 0, "allocated": 9,
      "reserved": 9, "phase": "forward", "step": 1})";
  folder.set_python(test::replaced(report_with(1, 1, oom), R"("end")", R"("exception")"), 1, 1);
  answer = folder.run("--with dryrun");
  CHECK(answer.code == ExitCode::kNo);
  CHECK(answer.says("only one of them says that it fits"));
  answer = folder.run("--with dryrun --budget 1GiB");
  CHECK(answer.code == ExitCode::kYes);
  CHECK(answer.says("both say that it does not fit"));
}

TEST_CASE("validate plan: on the GPUs of this machine") {
  const PlanFolder folder;
  const Peaks predicted = predicted_peaks_of(folder);
  folder.set_python(report_with(predicted.allocated, predicted.reserved,
                                R"(, "step_seconds": 0.25, "outside_bytes": 500000000)"));
  const Answer answer = folder.run("--with torch --json");
  CHECK(answer.code == ExitCode::kYes);
  const Document document(answer.out);
  CHECK(document.number("measured/step_seconds") == doctest::Approx(0.25));
  CHECK(document.number("predicted/step_seconds") > 0);
  CHECK(document.integer("measured/margin_bytes") ==
        85'017'493'504 - 500'000'000 - predicted.reserved);
  CHECK(document.text("measured_on") == "NVIDIA H100 80GB HBM3");
  CHECK(folder.is_clean());
}

TEST_CASE("validate plan: without a GPU, a sentence says what is missing") {
  const PlanFolder folder;
  folder.set_python("{}", 0, 0, "PyTorch 2.11.0 finds no GPU: Found no NVIDIA driver");
  const Answer answer = folder.run("--with torch");
  CHECK(answer.code == ExitCode::kEnvironment);
  CHECK(answer.complains("Found no NVIDIA driver"));
  CHECK(answer.complains("--with dryrun needs no GPU"));
}

TEST_CASE("validate plan: --script writes a file and runs nothing") {
  const PlanFolder folder;
  const std::string script = folder.path("train.py");
  const Answer answer = folder.run("--with torch --script " + script);  // There is no python3.
  CHECK(answer.code == ExitCode::kYes);
  CHECK(answer.says("python " + script));
  CHECK(read_file(script).value().find("\"sequence\": 512") != std::string::npos);
}

TEST_CASE("validate plan: what cannot be asked is refused before anything runs") {
  const PlanFolder folder(R"({"schema_version": 1, "model": "gpt2", "device": "h100-80gb",
      "plan": {"schema_version": 1, "loss": "chunked"}})");
  Answer answer = folder.run("--with dryrun");
  CHECK(answer.code == ExitCode::kBadInput);
  CHECK(answer.complains("/plan/loss: got chunked"));
  answer = folder.run("--with real");
  CHECK(answer.code == ExitCode::kUsage);
  CHECK(answer.complains("dryrun or torch"));
  CHECK(test::headroom("validate --with dryrun").code == ExitCode::kUsage);
  const PlanFolder nameless(R"({"schema_version": 1, "plan": {"schema_version": 1}})");
  answer = nameless.run("--with dryrun --gpu h100-80gb");
  CHECK(answer.code == ExitCode::kBadInput);
  CHECK(answer.complains("/model"));
  const PlanFolder without_gpu(R"({"schema_version": 1, "model": "gpt2",
      "plan": {"schema_version": 1}})");
  CHECK(without_gpu.run("--with dryrun").code == ExitCode::kUsage);
  CHECK(test::headroom("validate plan.json other.json").complains("--with dryrun"));
}

}  // namespace headroom::cli
