#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "costmodel/hardware/catalogue.h"
#include "costmodel/time/machine.h"
#include "model_ir/base/file.h"
#include "model_ir/json/json_value.h"
#include "tests/support/configs.h"
#include "tests/support/random.h"
#include "validators/measured/measure.h"
#include "validators/measured/runtime_tools.h"
#include "validators/measured/summary.h"

namespace headroom::check {
namespace {

const std::string kRows = std::string(HEADROOM_SOURCE_DIR) + "/tests/measured/";
/// Not beside the rows: every JSON file of that folder is one of measured rows.
const std::string kTolerances =
    std::string(HEADROOM_SOURCE_DIR) + "/tests/golden/measured/tolerances.json";

/// Leaves a case out under sanitizers, where it takes long: other cases run the same code, and the
/// release build counts how many rows are right.
const doctest::skip kReleaseOnly(test::kSanitized);

/// Counts of work are scored for study; memory and verdicts are what the project promises.
bool is_promised(Metric metric) {
  return metric != Metric::kGemmFlops && metric != Metric::kKernels;
}

/// "ladder transformers none peak_allocated"
std::string key_of(const SummaryLine& line) {
  return line.source + " " + line.runtime + " " + line.parallel + " " +
         std::string(name_of(line.metric));
}

bool is_allocated(Metric metric) {
  return metric == Metric::kPeakAllocated || metric == Metric::kAllocatedAfter;
}

bool is_reserved(Metric metric) {
  return metric == Metric::kPeakReserved || metric == Metric::kReservedAfter;
}

std::vector<SummaryLine> summary_of(const std::string& source) {
  const DeviceFinder no_device = [](const std::string& name) -> Result<cost::DeviceSpec> {
    return Error::invalid_argument("gpu", name, "no device: these rows had it to themselves");
  };
  const int threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  const auto scoring =
      score_files({kRows + source + ".jsonl.gz"}, runtime_tools(no_device), {}, threads);
  REQUIRE(scoring);
  std::vector<SummaryLine> lines = summarise(scoring->scores);
  std::erase_if(lines, [](const SummaryLine& line) { return !is_promised(line.metric); });
  return lines;
}

ir::JsonValue::Object read_tolerances() {
  const auto text = read_file(kTolerances);
  REQUIRE(text);
  const auto document = ir::parse_json(*text, "tolerances.json");
  REQUIRE(document);
  REQUIRE(document->as_object() != nullptr);
  return *document->as_object();
}

/// A tolerance only shrinks, unless more is compared than before.
bool is_tighter(const SummaryLine& line, const ir::JsonValue* old) {
  if (old == nullptr) {
    return true;
  }
  const auto n = static_cast<std::int64_t>(line.n);
  return n > *old->find("n")->as_integer() ||
         (n == *old->find("n")->as_integer() &&
          line.exact_share >= *old->find("exact_share")->as_number() &&
          line.worst <= *old->find("worst")->as_number());
}

/// HEADROOM_UPDATE_GOLDEN=1: takes over what has become better, for a review and a commit.
void tighten(const std::vector<SummaryLine>& lines) {
  ir::JsonValue::Object all = read_tolerances();
  for (const SummaryLine& line : lines) {
    if (!is_tighter(line, ir::JsonValue{all}.find(key_of(line)))) {
      continue;
    }
    std::erase_if(all, [&line](const ir::JsonMember& one) { return one.key == key_of(line); });
    all.push_back({key_of(line), ir::JsonValue{ir::JsonValue::Object{
                                     {"n", ir::JsonValue{static_cast<std::int64_t>(line.n)}},
                                     {"exact_share", ir::JsonValue{line.exact_share}},
                                     {"worst", ir::JsonValue{line.worst}}}}});
  }
  std::sort(all.begin(), all.end(),
            [](const ir::JsonMember& a, const ir::JsonMember& b) { return a.key < b.key; });
  std::string text = "{";
  for (const ir::JsonMember& member : all) {
    text += (text.size() == 1 ? "\n" : ",\n") + ir::to_json(ir::JsonValue{member.key}) + ": " +
            ir::to_json(member.value);
  }
  REQUIRE(write_file_atomically(kTolerances, text + "\n}\n"));
}

/// Every line of tolerances.json still holds: as many comparisons, as many exact, no worse worst.
/// Returns the lines of what was compared.
std::vector<SummaryLine> check_source(const std::string& source) {
  const std::vector<SummaryLine> lines = summary_of(source);
  if (std::getenv("HEADROOM_UPDATE_GOLDEN") != nullptr) {
    tighten(lines);
  }
  constexpr double kRounding = 1e-9;  // Of the shortest text of a double.
  int checked = 0;
  for (const ir::JsonMember& tolerance : read_tolerances()) {
    if (!tolerance.key.starts_with(source + " ")) {
      continue;
    }
    CAPTURE(tolerance.key);
    const auto line = std::find_if(lines.begin(), lines.end(), [&tolerance](const auto& one) {
      return key_of(one) == tolerance.key;
    });
    REQUIRE(line != lines.end());
    CHECK(static_cast<std::int64_t>(line->n) >= *tolerance.value.find("n")->as_integer());
    CHECK(line->exact_share >= *tolerance.value.find("exact_share")->as_number() - kRounding);
    CHECK(line->worst <= *tolerance.value.find("worst")->as_number() + kRounding);
    ++checked;
  }
  CHECK(checked > 0);
  return lines;
}

/// Every comparison of memory and collectives is exact.
void check_exact(const std::string& source) {
  const std::vector<SummaryLine> lines = summary_of(source);
  CHECK_FALSE(lines.empty());
  for (const SummaryLine& line : lines) {
    CAPTURE(key_of(line));
    CHECK(line.exact_share == 1);
  }
}

/// Every comparison is exact but for reserved memory, which may be off by a segment: less than the
/// share `segment` of what was measured.
void check_but_segments(const std::string& source, double segment) {
  const std::vector<SummaryLine> lines = summary_of(source);
  CHECK_FALSE(lines.empty());
  for (const SummaryLine& line : lines) {
    CAPTURE(key_of(line));
    const bool reserved = is_reserved(line.metric);
    CHECK((line.exact_share == 1 || (reserved && line.worst < segment)));
  }
}

Result<cost::DeviceSpec> find_device(const std::string& name) {
  return cost::load_device(test::kConfigs, name);
}

}  // namespace

TEST_CASE("measured: ladder, one factor at a time") {
  check_source("ladder");
}

TEST_CASE("measured: random combinations of models and options" * kReleaseOnly) {
  check_source("random");
}

TEST_CASE("measured: combinations drawn after the mechanisms were modelled") {
  check_source("unseen");
}

TEST_CASE("measured: a second draw after modelling: each verdict right, 99 % of bytes exact" *
          kReleaseOnly) {
  for (const SummaryLine& line : summary_of("unseen2")) {
    CAPTURE(key_of(line));
    const bool bytes = line.metric == Metric::kPeakAllocated ||
                       line.metric == Metric::kAllocatedAfter ||
                       line.metric == Metric::kPeakReserved;
    CHECK((!bytes || line.exact_share > 0.985));
    CHECK((line.metric != Metric::kFits || line.exact_share == 1));
    CHECK((line.metric != Metric::kRetries || line.exact_share == 1));
  }
}

TEST_CASE("measured: a third draw: transformers and FSDP exact but for few reserved bytes" *
          kReleaseOnly) {
  const std::vector<SummaryLine> lines = check_source("unseen3");
  CHECK_FALSE(lines.empty());
  for (const SummaryLine& line : lines) {
    CAPTURE(key_of(line));
    const bool reserved = is_reserved(line.metric);
    const bool whole = line.runtime == "transformers" || line.runtime == "fsdp";
    CHECK((!whole || line.exact_share == 1 || (reserved && line.worst < 0.0001)));
  }
}

TEST_CASE("measured: flash-attn, at most seven scores of a metric inexact, by 0.03 % at most") {
  const std::vector<SummaryLine> lines = summary_of("flash_attention");
  CHECK_FALSE(lines.empty());
  for (const SummaryLine& line : lines) {
    CAPTURE(key_of(line));
    CHECK((1 - line.exact_share) * static_cast<double>(line.n) < 7.5);
    CHECK(line.worst < 0.0003);
  }
}

TEST_CASE("measured: an H100, bytes within its kernels' choice of blocks, verdicts and retries") {
  const std::vector<SummaryLine> lines = summary_of("gpu_h100");
  CHECK_FALSE(lines.empty());
  for (const SummaryLine& line : lines) {
    CAPTURE(key_of(line));
    if (line.metric == Metric::kStepTime) {
      continue;  // Half of them are paced by a slow host.
    }
    const bool verdict = line.metric == Metric::kFits || line.metric == Metric::kRetries;
    // One run of Liger's loss, whose pieces the allocator placed otherwise.
    const bool reserved = is_reserved(line.metric);
    CHECK((line.exact_share == 1 || (!verdict && line.worst < (reserved ? 0.012 : 0.0015))));
    CHECK((line.n < 1000 || line.exact_share > 0.975));
  }
}

TEST_CASE("measured: an H200, bytes, and times from the rates of its kernels") {
  const std::vector<SummaryLine> lines = summary_of("gpu_h200");
  CHECK_FALSE(lines.empty());
  for (const SummaryLine& line : lines) {
    CAPTURE(key_of(line));
    if (line.metric == Metric::kStepTime) {
      CHECK((line.runtime != "transformers" || line.median < 0.06));
    } else if (line.metric == Metric::kPeakAllocated && line.parallel == "zero3") {
      CHECK(line.exact_share >= 0.88);  // One phase waits for Python's collector.
    } else if (line.metric == Metric::kPeakAllocated || line.metric == Metric::kFits) {
      CHECK(line.exact_share >= (line.metric == Metric::kFits ? 1 : 0.99));
      CHECK(line.worst < 0.0002);
    } else if (line.metric != Metric::kAllocatedAfter) {  // One waits for Python's collector.
      CHECK(line.worst < 0.0002);
    }
  }
}

TEST_CASE("measured: other compute capabilities") {
  check_source("device");
}

TEST_CASE("measured: bitsandbytes") {
  check_source("qlora");
}

TEST_CASE("measured: T5 with sdpa, modules to save, earlier releases, FSDP1 and ZeRO 3") {
  const std::vector<SummaryLine> lines = summary_of("issue4_options");
  CHECK_FALSE(lines.empty());
  for (const SummaryLine& line : lines) {
    CAPTURE(key_of(line));
    // A segment of 2 MiB that the measuring program had left; merges of neighbouring blocks.
    const bool reserved = is_reserved(line.metric);
    CHECK(line.exact_share >= (reserved ? 0.975 : 1));
  }
}

TEST_CASE("measured: earlier releases of transformers, 25 families") {
  const std::vector<SummaryLine> lines = summary_of("releases");
  CHECK_FALSE(lines.empty());
  for (const SummaryLine& line : lines) {
    CAPTURE(key_of(line));
    // Three rows whose blocks of up to 2 MiB were chosen otherwise.
    CHECK(line.exact_share > 0.99);
    CHECK(line.worst < 0.002);
  }
}

TEST_CASE("measured: routers' losses, T5's modules to save, quantised T5 and BERT, Liger") {
  const std::vector<SummaryLine> lines = summary_of("transformers_options");
  CHECK_FALSE(lines.empty());
  for (const SummaryLine& line : lines) {
    CAPTURE(key_of(line));
    // Two rows of Gemma 3: rotary tables of one kind of layer.
    const bool peaks = line.metric == Metric::kPeakAllocated ||
                       line.metric == Metric::kPeakReserved ||
                       line.metric == Metric::kReservedAfter;
    CHECK(line.exact_share >= (peaks ? 0.99 : 1));
  }
}

TEST_CASE("measured: runs that resume, all exact") {
  check_exact("resume");
}

TEST_CASE("measured: runs that resume with bitsandbytes' optimizers and transformers' Adafactor") {
  check_exact("resume_optimizers");
}

TEST_CASE("measured: DeepSpeed's and torchtitan's runs that resume") {
  check_exact("resume_deepspeed");
  check_exact("resume_torchtitan");
}

TEST_CASE("measured: DDP with its first broadcast, all exact but one segment of 2 MiB") {
  check_but_segments("ddp_start", 2e-4);
}

TEST_CASE("measured: the first layers checkpointed, all exact") {
  check_exact("first_layers");
}

TEST_CASE("measured: families that are recorded, all exact") {
  check_exact("families");
}

TEST_CASE("measured: families that are recorded, with 4-bit and int8 weights") {
  const std::vector<SummaryLine> lines = summary_of("family_qlora");
  CHECK_FALSE(lines.empty());
  for (const SummaryLine& line : lines) {
    CAPTURE(key_of(line));
    const bool reserved = is_reserved(line.metric);
    const bool allocated = is_allocated(line.metric);
    // Three runs of Qwen3-VL keep other blocks (0.04 %), and one of Fuyu reserves 256 MiB less than
    // predicted.
    CHECK((line.exact_share == 1 || (reserved && line.exact_share > 0.97 && line.worst < 0.013) ||
           (allocated && line.exact_share > 0.94 && line.worst < 5e-4)));
  }
}

TEST_CASE("measured: evaluation of families that are recorded") {
  for (const SummaryLine& line : summary_of("family_eval")) {
    CAPTURE(key_of(line));
    const bool bytes = is_allocated(line.metric) || is_reserved(line.metric);
    // Six families differ, in training as well but for the peak of Gemma 4.
    CHECK((!bytes || (line.exact_share > 0.91 && line.worst < 0.01)));
    CHECK((line.metric != Metric::kFits || line.exact_share == 1));
  }
}

TEST_CASE(
    "measured: heads and configurations that people train, encoder-decoders, copied modules") {
  for (const SummaryLine& line : check_source("heads")) {
    CAPTURE(key_of(line));
    const bool allocated = is_allocated(line.metric);
    const bool reserved = is_reserved(line.metric);
    CHECK((!allocated || (line.exact_share > 0.89 && line.worst < 0.01)));
    // Images: 0.17 % off without cuDNN. LFM2 with checkpointing: 8 %, other blocks were chosen.
    CHECK((!reserved || (line.exact_share > 0.91 && line.worst < 0.09)));
    CHECK((line.metric != Metric::kFits || line.exact_share == 1));
  }
}

TEST_CASE("measured: recordings in other precisions and sizes, with padding, 4-bit layers") {
  for (const auto* one :
       {"precision", "padded", "qlora_types", "autocast", "published_sizes", "recorded_liger"}) {
    check_source(one);
  }
}

TEST_CASE("measured: DeepSpeed") {
  check_source("deepspeed");
}

TEST_CASE("measured: DeepSpeed, stages 0 to 2, drawn after the mechanisms were modelled") {
  check_exact("unseen_deepspeed");
}

TEST_CASE("measured: DeepSpeed, stage 3, drawn after the mechanisms were modelled") {
  check_source("unseen_zero3");
}

TEST_CASE("measured: DeepSpeed, stage 3, a share of the optimizer on the host") {
  check_exact("deepspeed_ratio");
}

TEST_CASE("measured: generation from shards") {
  check_exact("fsdp_generation");
}

TEST_CASE("measured: DeepSpeed, stage 3 of encoders and encoder-decoders") {
  check_exact("zero3_encoders");
}

TEST_CASE("measured: Megatron-Core") {
  check_source("megatron");
}

TEST_CASE("measured: Megatron-Core, drawn after the mechanisms were modelled") {
  check_source("unseen_megatron");
}

TEST_CASE("measured: Megatron-Core's pipelines laid out by hand, all exact but kernels") {
  const std::vector<SummaryLine> lines = summary_of("megatron_layout");
  CHECK_FALSE(lines.empty());
  for (const SummaryLine& line : lines) {
    CAPTURE(key_of(line));
    CHECK((line.exact_share == 1 || line.metric == Metric::kKernels));
  }
}

TEST_CASE("measured: gpt-oss in Megatron-Core, peaks within 0.12 %, FLOPs and collectives exact") {
  const std::vector<SummaryLine> lines = summary_of("megatron_gptoss");
  CHECK_FALSE(lines.empty());
  for (const SummaryLine& line : lines) {
    CAPTURE(key_of(line));
    const bool of_memory = is_allocated(line.metric) || is_reserved(line.metric);
    CHECK((line.exact_share == 1 || of_memory || line.metric == Metric::kKernels));
    CHECK((!of_memory || line.worst < 1.2e-3));
  }
}

TEST_CASE("measured: Megatron-Core, one mechanism each") {
  check_source("megatron_options");
}

TEST_CASE("measured: Megatron-Core's weights held in 8 bits, collectives exact") {
  check_source("megatron_fp8_param");
  for (const SummaryLine& line : summary_of("megatron_fp8_param")) {
    CAPTURE(key_of(line));
    const bool collective =
        line.metric == Metric::kCollectiveBytes || line.metric == Metric::kCollectiveCalls;
    CHECK((!(collective || line.metric == Metric::kGemmFlops || line.metric == Metric::kFits) ||
           line.exact_share == 1));
  }
}

TEST_CASE("measured: Megatron-Core on B200 GPUs, SimuMax's published runs, peaks within 0.12 %") {
  for (const SummaryLine& line : summary_of("simumax_b200")) {
    CAPTURE(key_of(line));
    const bool peak = line.metric == Metric::kPeakAllocated;
    CHECK((!peak || line.worst < 0.0012));
    CHECK((line.metric != Metric::kPeakReserved || line.worst < 0.04));
    CHECK((line.metric != Metric::kFits || line.exact_share == 1));
  }
}

TEST_CASE("measured: torchtitan, all of it exact but segments of 2 MiB") {
  constexpr double kOfManyGib = 1e-4;
  constexpr double kOfHalfAGib = 5e-3;  // Small models.
  constexpr double kOfBudgets = 0.017;  // Qwen3 with as many heads of keys.
  constexpr std::array<std::pair<const char*, double>, 7> kSources = {
      {{"torchtitan", kOfManyGib},
       {"torchtitan_options", kOfManyGib},
       {"unseen_torchtitan", kOfManyGib},
       {"torchtitan_pipelines", kOfManyGib},
       {"torchtitan_experts", kOfHalfAGib},
       {"torchtitan_budget", kOfBudgets},
       {"torchtitan_ddp", kOfHalfAGib}}};
  for (const auto& [source, segment] : kSources) {
    check_but_segments(source, segment);
  }
}

TEST_CASE("measured: torchtitan's blocks with 8-bit products, what is allocated exact") {
  check_but_segments("torchtitan_float8", 1e-3);
}

TEST_CASE("measured: Megatron-Core's modules, the second step") {
  const DeviceFinder no_device = [](const std::string& name) -> Result<cost::DeviceSpec> {
    return Error::invalid_argument("gpu", name, "no device: these rows had it to themselves");
  };
  const auto scoring =
      score_files({kRows + "megatron_modules.jsonl.gz"}, runtime_tools(no_device), {}, 1);
  REQUIRE(scoring);
  CHECK(std::ranges::all_of(scoring->skipped,
                            [](const Skipped& one) { return one.metric.has_value(); }));
  std::size_t compared = 0;
  for (const Score& score : scoring->scores) {
    CAPTURE(score.id);
    CAPTURE(score.phase);
    const bool allocated =
        score.metric == Metric::kPeakAllocated || score.metric == Metric::kAllocatedAfter;
    // The first step compiled with a cold cache; of rings and groups blocks land elsewhere for it.
    if (allocated && score.phase.starts_with("step2")) {
      CHECK(std::abs(score.error) < 0.0035);
      ++compared;
    }
    CHECK((score.metric != Metric::kFits || score.error == 0));
  }
  CHECK(compared == 97 * 4);
}

TEST_CASE("measured: Megatron-LM's golden values of a GiB and more") {
  const int threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  const auto scoring =
      score_files({kRows + "megatron_golden.json"}, runtime_tools(find_device), {}, threads);
  REQUIRE(scoring);
  std::vector<double> errors;
  std::vector<double> of_experts;  // Whose tokens are not stated.
  for (const Score& score : scoring->scores) {
    (score.id.starts_with("mlm-moe") ? of_experts : errors).push_back(std::abs(score.error));
  }
  CHECK(of_experts.size() >= 60);
  std::ranges::sort(of_experts);
  CHECK(of_experts[of_experts.size() / 2] < 0.017);
  CHECK(of_experts[of_experts.size() - 2] < 0.06);  // One container's optimizer had one instance.
  CHECK(errors.size() >= 198);
  std::ranges::sort(errors);
  CHECK(errors[errors.size() / 2] < 0.001);
  CHECK(errors[errors.size() * 9 / 10] < 0.004);
  // Two rows that compiled with a cold cache, and one of a container whose cuBLAS workspaces were
  // larger.
  CHECK(std::ranges::count_if(errors, [](double error) { return error > 0.014; }) <= 3);
}

TEST_CASE("measured: LitGPT's published runs, within 2 % and each verdict right") {
  const auto scoring = score_files({kRows + "litgpt.json"}, runtime_tools(find_device), {}, 1);
  REQUIRE(scoring);
  CHECK(scoring->scores.size() == 103);
  for (const SummaryLine& line : summarise(scoring->scores)) {
    CAPTURE(key_of(line));
    CHECK(line.worst < 0.02);
    CHECK(line.median < 0.002);
  }
}

TEST_CASE("measured: published fine-tuning of torchtune, 5 % median, 12 % worst") {
  const auto scoring =
      score_files({kRows + "torchtune.json.gz"}, runtime_tools(find_device), {}, 1);
  REQUIRE(scoring);
  std::vector<double> peaks;
  for (const Score& score : scoring->scores) {
    CAPTURE(score.id);
    CHECK(std::abs(score.error) < 0.12);
    if (score.metric == Metric::kPeakActive) {
      peaks.push_back(std::abs(score.error));
    }
  }
  REQUIRE(peaks.size() == 10);
  std::ranges::sort(peaks);
  CHECK(peaks[5] < 0.05);
}

TEST_CASE("measured: published fine-tuning of Qwen that ran is never said not to fit" *
          kReleaseOnly) {
  const auto scoring =
      score_files({kRows + "qwen1_readme.json.gz"}, runtime_tools(find_device), {}, 1);
  REQUIRE(scoring);
  CHECK(scoring->scores.size() >= 36);
  for (const Score& score : scoring->scores) {
    CAPTURE(score.id);
    CHECK((score.metric != Metric::kFits || score.error == 0));
  }
}

TEST_CASE("measured: Megatron-LM's published step times, tables of 2020 to 2022") {
  const MachineFinder find_machine = [](const cost::DeviceSpec& device) {
    return cost::load_machine(test::kConfigs, device);
  };
  const auto scoring =
      score_files({kRows + "megatron_steps.json"}, runtime_tools(find_device, find_machine), {}, 1);
  REQUIRE(scoring);
  CHECK(scoring->skipped.empty());
  std::vector<double> errors;
  for (const Score& score : scoring->scores) {
    CAPTURE(score.id);
    CHECK(std::abs(score.error) < 0.2);
    errors.push_back(std::abs(score.error));
  }
  REQUIRE(errors.size() == 27);  // 13 step times, 14 rates.
  std::nth_element(errors.begin(), errors.begin() + 13, errors.end());
  CHECK(errors[13] < 0.09);
}

TEST_CASE("measured: Muon and Liger's kernels") {
  check_exact("kernels");
}

TEST_CASE("measured: FSDP's options, allocations") {
  for (const SummaryLine& line : summary_of("fsdp_options")) {
    CAPTURE(key_of(line));
    const bool allocation = line.metric == Metric::kAllocatedAfter ||
                            line.metric == Metric::kPeakAllocated || line.metric == Metric::kFits ||
                            line.metric == Metric::kRetries;
    CHECK((!allocation || line.exact_share == 1));
    CHECK((line.metric != Metric::kPeakReserved || line.exact_share > 0.95));
  }
}

TEST_CASE("measured: generation, within tensors between two forwards") {
  for (const SummaryLine& line : summary_of("generation")) {
    CAPTURE(key_of(line));
    CHECK(line.worst < 0.011);
  }
}

TEST_CASE("measured: DeepSpeed, one mechanism each") {
  const std::vector<SummaryLine> lines = summary_of("deepspeed_options");
  CHECK_FALSE(lines.empty());
  for (const SummaryLine& line : lines) {
    CAPTURE(key_of(line));
    // Where ZeRO++ gathers in groups smaller than the world, the accounting device counted the
    // world.
    const bool collective = line.parallel == "zero3" && (line.metric == Metric::kCollectiveBytes ||
                                                         line.metric == Metric::kCollectiveCalls);
    CHECK(line.exact_share >= (collective ? 0.88 : 1));
  }
}

}  // namespace headroom::check
