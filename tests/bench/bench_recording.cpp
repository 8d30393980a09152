// How long `headroom fit` of a model recording takes as a whole process, and where the time goes:
// the recorded Llama of tests/golden/recordings with 32 layers.

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "costmodel/estimate.h"
#include "costmodel/hardware/catalogue.h"
#include "costmodel/memory/timeline.h"
#include "model_ir/base/file.h"
#include "model_ir/json/json_value.h"
#include "model_ir/spec/recording/recorded_spec.h"
#include "tests/bench/measurement.h"
#include "tests/bench/process.h"
#include "tests/support/deep_recording.h"
#include "tests/support/temporary_folder.h"

namespace headroom::bench {
namespace {

const std::string kConfigs = HEADROOM_SOURCE_DIR "/configs";
const std::string kGolden = HEADROOM_SOURCE_DIR "/tests/golden/recordings/llama.json";
constexpr std::int64_t kLayers = 32;
constexpr Bytes kNoLimit{std::int64_t{1} << 50};

std::vector<Question> questions(const std::string& file) {
  const auto fit = [&](std::vector<std::string> more) {
    std::vector<std::string> words{"fit", file, "--seq", "4096"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  return {{"fits: bf16", fit({"--precision", "bf16", "--gpu", "h200", "--micro-batch", "2"})},
          {"fits: checkpointing", fit({"--precision", "bf16", "--gpu", "h200", "--micro-batch", "2",
                                       "--checkpointing", "full"})},
          {"fits: ZeRO-3 on 8", fit({"--precision", "bf16-master", "--gpu", "h200", "--gpus", "8",
                                     "--micro-batch", "2", "--zero", "3"})},
          {"does not fit, with remedies",
           fit({"--precision", "bf16", "--gpu", "a100-40gb", "--micro-batch", "64"})}};
}

/// The parts of a `fit` of one process.
std::vector<Measurement> measure_parts(const std::string& text, int runs) {
  const ir::JsonValue document = ir::parse_json(text, "recording").value();
  const ir::ModelSpec model = ir::read_recorded_model(document, "recording").value();
  const cost::DeviceSpec device = cost::load_device(kConfigs, "h200").value();
  ir::ParallelPlan plan;
  plan.precision = ir::Precision::kBf16;
  plan.workload.micro_batch = 2;
  plan.workload.sequence = 4096;
  const ir::RankProgram program = cost::lower_replayed(model, plan, device).value();
  const auto events = [&] { return cost::lower_replayed(model, plan, device)->events.size(); };
  return {
      measure("JSON", runs,
              [&] {
                return static_cast<std::int64_t>(
                    ir::parse_json(text, "recording")->as_object()->size());
              }),
      measure("reading", runs,
              [&] {
                return static_cast<std::int64_t>(
                    ir::read_recorded_model(document, "recording")->layers.size());
              }),
      measure("lowering, bf16", runs, [&] { return static_cast<std::int64_t>(events()); }),
      measure("replay, bf16", runs, [&] {
        return cost::replay(program, plan.allocator, kNoLimit).phases.back().peak_reserved.value();
      })};
}

int run(const Options& options) {
  const std::string text = test::DeepRecording(read_file(kGolden).value(), kLayers).text();
  const test::TemporaryFolder folder;
  const std::string file = folder.write("recording.json", text);
  std::vector<Measurement> all;
  for (const Question& question : questions(file)) {
    const auto measured = measure_process(HEADROOM_PROGRAM, kConfigs, question, options.runs);
    if (!measured) {
      return 1;
    }
    all.insert(all.end(), measured->begin(), measured->end());
  }
  for (Measurement& part : measure_parts(text, options.runs)) {
    all.push_back(std::move(part));
  }
  print("headroom fit of a recording with 32 layers", all, options);
  return 0;
}

}  // namespace
}  // namespace headroom::bench

int main(int count, char** values) {
  return headroom::bench::run_with_options(count, values, headroom::bench::run);
}
