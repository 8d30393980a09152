// Recorded programs and logs of nvidia-smi with damage: whatever they say, they are read or refused
// with a message, and what is read can be replayed and shown. A failure prints its seed.
#include <cstdint>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "costmodel/estimate.h"
#include "costmodel/memory/export.h"
#include "tests/fuzz/mutate.h"
#include "tests/support/random.h"
#include "tests/support/recorded_program.h"
#include "validators/dryrun/recorded_program.h"
#include "validators/dryrun/recorded_replay.h"
#include "validators/snapshot/gpu_log.h"

namespace headroom::check {
namespace {

void check_program(const std::string& text) {
  const Result<RecordedProgram> read = parse_recorded_program(text, "p.json");
  if (!read) {
    CHECK_FALSE(to_text(read.error()).empty());
    return;
  }
  const cost::StepEstimate estimate =
      cost::judge(read->history.program, standin_settings(), Bytes{80 * kGiB}, {});
  CHECK(estimate.timeline.phases.size() == read->phases.size());
  (void)replay_differences(*read, estimate.timeline);
  CHECK_FALSE(cost::timeline_csv(estimate.program, standin_settings(), Bytes{80 * kGiB}).empty());
  CHECK(to_json(parse_recorded_program(to_json(*read), "p.json").value()) == to_json(*read));
}

void check_log(const std::string& text) {
  const Result<GpuLog> log = read_gpu_log(text, "smi.log");
  if (!log) {
    CHECK_FALSE(to_text(log.error()).empty());
    return;
  }
  for (const MemoryUse& use : log->gpus) {
    CHECK(trend_of(use).peak.used >= trend_of(use).last);
  }
}

}  // namespace

TEST_CASE("broken input: recorded programs") {
  const std::uint64_t cases = test::kSanitized ? 300 : 6'000;
  for (std::uint64_t number = 0; number < cases; ++number) {
    test::Random random = test::seeded_random(number);
    CAPTURE(random.seed());
    const std::string example(test::kProgram);
    const std::string text = random.chance(1, 4) ? test::mutated_bytes(example, random)
                                                 : test::mutated_json(example, random);
    CAPTURE(text.substr(0, 2'000));
    check_program(text);
  }
}

TEST_CASE("broken input: logs of nvidia-smi") {
  const std::vector<std::string> examples = {
      "timestamp, index, name, memory.used [MiB], memory.total [MiB]\n"
      "2026/05/01 12:00:00.000, 0, NVIDIA H100 80GB HBM3, 1000 MiB, 81559 MiB\n"
      "2026/05/01 12:30:00.000, 0, NVIDIA H100 80GB HBM3, 3000 MiB, 81559 MiB\n",
      "| NVIDIA-SMI 550.54.15    Driver Version: 550.54.15   CUDA Version: 12.4 |\n"
      "|   0  NVIDIA H100 80GB HBM3    On  |   00000000:04:00.0 Off |        0 |\n"
      "| N/A   33C    P0     71W /  700W |   12345MiB /  81559MiB |  0%  Default |\n"
      "| Processes: |\n|    0   N/A  N/A      1234      C   python     12340MiB |\n",
      "# gpu     fb   bar1   ccpm\n# Idx     MB     MB     MB\n    0    100      2      0\n",
      "#Time gpu pid type fb ccpm command\n 12:00:00 0 1234 C 12340 0 python\n"};
  const std::uint64_t cases = test::kSanitized ? 300 : 6'000;
  for (std::uint64_t number = 0; number < cases; ++number) {
    test::Random random = test::seeded_random(number);
    CAPTURE(random.seed());
    check_log(test::mutated_bytes(random.pick(examples), random));
  }
}

}  // namespace headroom::check
