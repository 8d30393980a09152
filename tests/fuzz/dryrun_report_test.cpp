// Reports of dry runs as a broken process might write them: whatever they say, they are read or
// refused with a message, and what is read can be shown. A failure prints its seed and the report.
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "cli/report/dryrun_answer.h"
#include "cli/terminal.h"
#include "model_ir/json/json_value.h"
#include "tests/fuzz/mutate.h"
#include "tests/support/dryrun.h"
#include "tests/support/random.h"
#include "validators/dryrun/verdict.h"

namespace headroom::cli {
namespace {

check::DryRunDevice small_device() {
  check::DryRunDevice device;
  device.name = "h100-80gb";
  device.total = Bytes{80 * kGiB};
  device.outside = Bytes{kGiB};
  return device;
}

void check_report(const std::string& text) {
  Result<check::DryRunReport> report = check::parse_report(text, "report.json");
  if (!report) {
    CHECK_FALSE(to_text(report.error()).empty());
    return;
  }
  DryRunAnswer answer;
  answer.request.command = {"python", "train.py"};
  answer.request.device = small_device();
  answer.end.reports = {*report, std::move(report).value()};
  answer.binding = check::binding_report(answer.end.reports);
  answer.judged = check::judge_dry_run(answer.request.device, answer.end, answer.report());
  CHECK_FALSE(dryrun_text(answer, plain_terminal(ColorChoice::kNever)).empty());
  const std::string document = dryrun_json(answer);
  CHECK(ir::parse_json(document, "answer").has_value());
}

}  // namespace

TEST_CASE("broken input: reports of dry runs") {
  const std::vector<std::string> examples = {std::string(test::kDryReport),
                                             std::string(test::kDryOomReport)};
  const std::uint64_t cases = test::kSanitized ? 300 : 6'000;
  for (std::uint64_t number = 0; number < cases; ++number) {
    test::Random random = test::seeded_random(number);
    CAPTURE(random.seed());
    const std::string& example = random.pick(examples);
    const std::string text = random.chance(1, 4) ? test::mutated_bytes(example, random)
                                                 : test::mutated_json(example, random);
    CAPTURE(text.substr(0, 2'000));
    check_report(text);
  }
}

}  // namespace headroom::cli
