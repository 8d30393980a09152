#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "costmodel/hardware/hardware_spec.h"
#include "model_ir/base/units.h"
#include "validators/dryrun/interpreter.h"
#include "validators/dryrun/launcher.h"
#include "validators/dryrun/profile.h"
#include "validators/dryrun/report.h"
#include "validators/dryrun/verdict.h"

namespace headroom::check {
namespace {

constexpr std::string_view kShortReport =
    R"({"version": 1, "phases": [{"name": "load", "peak_allocated": 10, "peak_reserved": 20}],
        "peak": {"phase": 0, "allocated": 10, "reserved": 20}, "stopped": "end"})";

DryRunReport short_report() {
  return parse_report(kShortReport, "r.json").value();
}

DryRunDevice device_of(std::int64_t total, std::int64_t outside) {
  DryRunDevice device;
  device.total = Bytes{total};
  device.outside = Bytes{outside};
  return device;
}

std::string value_of(const std::vector<std::string>& environment, const std::string& name) {
  std::string value = "(unset)";
  for (const std::string& line : environment) {
    value = line.starts_with(name + "=") ? line.substr(name.size() + 1) : value;
  }
  return value;
}

}  // namespace

TEST_CASE("dry run report: the shortest one is read, unknown keys are left out") {
  const DryRunReport report = short_report();
  CHECK(report.phases.size() == 1);
  CHECK(report.peak.allocated == Bytes{10});
  CHECK_FALSE(report.rank);
  CHECK_FALSE(report.oom);
  std::string text(kShortReport);
  text.insert(1, R"("later": {"x": [1]}, )");
  CHECK(parse_report(text, "r.json"));
}

TEST_CASE("dry run report: numbers that Python writes and JSON does not have are read") {
  std::string text(kShortReport);
  text.insert(1, R"("program": {"config": {"time_step_limit": [0.0, Infinity]}}, )");
  CHECK(parse_report(text, "r.json"));
}

TEST_CASE("dry run report: a process that allocated nothing has no peak") {
  const auto report = parse_report(R"({"version": 1, "stopped": "end"})", "r.json");
  REQUIRE(report);
  CHECK(report->phases.empty());
  CHECK(report->peak.allocated == Bytes{0});
}

TEST_CASE("dry run report: wrong values are refused with their place") {
  const auto message = [](std::string_view from, std::string_view to) {
    std::string text(kShortReport);
    text.replace(text.find(from), from.size(), to);
    const auto report = parse_report(text, "r.json");
    return report ? std::string("read") : to_text(report.error());
  };
  CHECK(message("\"peak_allocated\": 10", "\"peak_allocated\": -1").find("/phases/0/peak_alloc") !=
        std::string::npos);
  CHECK(
      message("\"peak_allocated\": 10", "\"peak_allocated\": 1e18").find("/phases/0/peak_alloc") !=
      std::string::npos);
  CHECK(message("\"allocated\": 10", "\"allocated\": \"10\"").find("/peak/allocated") !=
        std::string::npos);
  CHECK(message("\"phase\": 0", "\"phase\": 1").find("/peak/phase") != std::string::npos);
  CHECK(message("\"end\"", "\"tired\"").find("/stopped") != std::string::npos);
  CHECK(message("\"version\": 1", "\"version\": 7").find("/version") != std::string::npos);
}

TEST_CASE(
    "dry run verdict: a program that came to its end fits, with little to spare it is tight") {
  DryRunEnd end;
  const DryRunReport report = short_report();
  // 20 bytes of 100 - 10 are reserved: 70 are left, more than 5 % of 100.
  DryRunJudgement judged = judge_dry_run(device_of(100, 10), end, report);
  CHECK(judged.verdict == DryRunVerdict::kFits);
  CHECK(judged.margin == Bytes{70});
  judged = judge_dry_run(device_of(34, 10), end, report);
  CHECK(judged.margin == Bytes{4});
  CHECK(judged.verdict == DryRunVerdict::kFits);  // 5 % of 34 are 1.7.
  judged = judge_dry_run(device_of(31, 10), end, report);
  CHECK(judged.verdict == DryRunVerdict::kTight);
  end.exit_code = 1;
  CHECK(judge_dry_run(device_of(100, 10), end, report).verdict == DryRunVerdict::kUnknown);
}

TEST_CASE("dry run verdict: what other libraries took of the device counts") {
  DryRunReport report = short_report();
  report.peak.device = Bytes{50};
  CHECK(judge_dry_run(device_of(100, 10), {}, report).margin == Bytes{50});
}

TEST_CASE("dry run verdict: emptying the cache makes it tight") {
  DryRunReport report = short_report();
  report.phases.front().retries = 2;
  const DryRunJudgement judged = judge_dry_run(device_of(1'000, 10), {}, report);
  CHECK(judged.verdict == DryRunVerdict::kTight);
  CHECK(judged.retries == 2);
}

TEST_CASE("dry run verdict: the process that ran out of memory decides") {
  std::vector<DryRunReport> reports = {short_report(), short_report(), short_report()};
  reports[1].peak.reserved = Bytes{30};
  CHECK(binding_report(reports) == 1);
  reports[2].oom.emplace();
  CHECK(binding_report(reports) == 2);
}

TEST_CASE("dry run environment: what stood in it stays behind ours, old variables go") {
  DryRunRequest request;
  request.device.product = "NVIDIA X";
  const std::vector<std::string> own = {"LD_PRELOAD=/x/liba.so",
                                        "PYTHONPATH=/mine:/yours",
                                        "CUDA_VISIBLE_DEVICES=",
                                        "HEADROOM_DRYRUN_WORLD=8",
                                        "HOME=/root",
                                        "HEADROOM_DRYRUN_SNAPSHOT=/s",
                                        "TORCH_CUDNN_SDPA_PREFERRED=1",
                                        "ODD"};
  const std::vector<std::string> made = dry_run_environment(
      request, {.libraries = {"/l/a.so", "/l/b.so"}, .python = "/p"}, "/r", own);
  CHECK(value_of(made, "LD_PRELOAD") == "/l/a.so:/l/b.so:/x/liba.so");
  CHECK(value_of(made, "PYTHONPATH") == "/p:/mine:/yours");
  CHECK(value_of(made, "HEADROOM_DRYRUN_DIR") == "/r");
  CHECK(value_of(made, "HOME") == "/root");
  CHECK(value_of(made, "TORCH_CUDNN_SDPA_PREFERRED") == "0");
  for (const char* gone :
       {"CUDA_VISIBLE_DEVICES", "HEADROOM_DRYRUN_WORLD", "HEADROOM_DRYRUN_SNAPSHOT"}) {
    CAPTURE(gone);
    CHECK(value_of(made, gone) == "(unset)");
  }
  CHECK(std::ranges::count(made, "ODD") == 1);
}

TEST_CASE("dry run: the interpreter is found by its name, other commands have none") {
  CHECK(interpreter_of({"python", "x.py"}) == "python");
  CHECK(interpreter_of({"/opt/v/bin/python3.11"}) == "/opt/v/bin/python3.11");
  CHECK_FALSE(interpreter_of({"python-config"}));
  CHECK_FALSE(interpreter_of({"/bin/sh", "-c", "python"}));
  CHECK_FALSE(interpreter_of({"no-such-command"}));
  CHECK_FALSE(interpreter_of({}));
}

TEST_CASE("dry run profile: a GPU without CUDA is refused, a budget stands for the total") {
  cost::DeviceSpec device;
  device.name = "x";
  device.vendor = "nvidia";
  device.total = Bytes{80 * kGiB};
  device.traits = {.compute_major = 8, .compute_minor = 6, .multiprocessors = 84};
  const DryRunDevice whole = profile_of(device, Bytes{0}, {}).value();
  CHECK(whole.total == device.total);
  CHECK(whole.capability == 86);
  CHECK_FALSE(whole.budget);
  const DryRunDevice part = profile_of(device, Bytes{kGiB * 10}, {.ranks = 2}).value();
  CHECK(part.total == Bytes{kGiB * 10});
  CHECK(part.budget);
  CHECK(part.outside > whole.outside);  // The communicator.
  device.vendor = "amd";
  CHECK_FALSE(profile_of(device, Bytes{0}, {}));
}

}  // namespace headroom::check
