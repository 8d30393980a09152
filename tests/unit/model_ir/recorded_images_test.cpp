// Recordings of batches with images. tests/golden/recordings/qwen2_5_vl_images.json was recorded
// with PyTorch 2.11.0 and transformers 5.17.0 by headroom import --images 2x560x560
// --micro-batches 1,2 (Qwen2.5-VL: two layers of H 128, two of the tower, of which one attends
// within 25 windows of each image).

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "costmodel/estimate.h"
#include "model_ir/base/file.h"
#include "model_ir/json/json_reader.h"
#include "model_ir/spec/hf_config.h"
#include "model_ir/spec/images.h"
#include "model_ir/spec/recording/recorded_spec.h"
#include "model_ir/spec/recording/recording.h"
#include "runtimes/plan_check.h"
#include "tests/support/refusal.h"
#include "tests/support/small_llama.h"

namespace headroom::ir {
namespace {

constexpr Images kRecorded{.count = 2, .height = 560, .width = 560};

std::string images_text() {
  return read_file(HEADROOM_SOURCE_DIR "/tests/golden/recordings/qwen2_5_vl_images.json").value();
}

Result<ModelSpec> read_images_model(const std::string& text) {
  const Result<JsonValue> document = parse_json(text, "images.json");
  return document ? read_recorded_model(*document, "images.json")
                  : Result<ModelSpec>(document.error());
}

ParallelPlan plan_of(std::int64_t micro_batch, std::int64_t sequence) {
  ParallelPlan plan;
  plan.precision = Precision::kBf16;
  plan.workload.micro_batch = micro_batch;
  plan.workload.sequence = sequence;
  plan.workload.images = kRecorded;
  return plan;
}

/// The recording with parameters that are not trained: those whose names begin with `prefix`.
std::string without_training_of(std::string_view prefix, std::string text) {
  const std::string name = "[\"" + std::string(prefix);
  const std::string dims = "\", [";
  int found = 0;
  for (std::size_t at = text.find(name); at < text.find("\"buffers\": [");
       at = text.find(name, at + 1)) {
    const std::size_t behind = text.find('"', at + 2);
    if (text.compare(behind, dims.size(), dims) == 0) {  // Modules have a class there.
      text.insert(text.find(']', behind) + 1, R"(, {"trainable": false})");
      ++found;
    }
  }
  REQUIRE(found > 0);
  return text;
}

/// What PyTorch's allocator counted: load, then forward, backward, optimizer and zero_grad of two
/// steps.
struct Measured {
  std::array<std::int64_t, 9> allocated;  ///< Bytes at the end of each phase.
  std::array<std::int64_t, 9> peak;
};

void check_bytes(const ModelSpec& model, const ParallelPlan& asked, const Measured& measured) {
  const ParallelPlan plan = test::on_accounting_device(asked);
  const auto program = lower(model, plan, Rank{0}, DeviceTraits{});
  REQUIRE(program);
  const auto phases = cost::replay(program.value(), plan.allocator, Bytes{600'000'000'000}).phases;
  REQUIRE(phases.size() == measured.allocated.size());
  for (std::size_t i = 0; i < phases.size(); ++i) {
    CAPTURE(to_text(phases[i].name));
    CHECK(phases[i].allocated_after.value() == measured.allocated.at(i));
    CHECK(phases[i].peak_allocated.value() == measured.peak.at(i));
  }
}

}  // namespace

TEST_CASE("images: the text has a number, a height and a width") {
  CHECK(parse_images("2x1024x768") == Images{.count = 2, .height = 1024, .width = 768});
  CHECK(text_of({.count = 1, .height = 336, .width = 448}) == "1x336x448");
  for (const std::string_view wrong :
       {"", "2", "2x1024", "2x1024x", "x1024x768", "0x64x64", "02x64x64", "2x64x064", "2x64x64x3",
        "2 x64x64", "-2x64x64", "+2x64x64", "2x64x16385", "10000x64x64", "2X64X64"}) {
    CAPTURE(wrong);
    CHECK_FALSE(parse_images(wrong));
  }
}

TEST_CASE("recorded images: a training step has the bytes of the real PyTorch") {
  // Recorded in dry runs of the same model and batches (tests/real/drivers).
  const ModelSpec model = read_images_model(images_text()).value();
  SUBCASE("one sequence") {
    check_bytes(model, plan_of(1, 896),
                {.allocated = {1'641'472, 95'098'368, 71'438'848, 74'717'696, 73'078'272,
                               131'931'648, 74'717'696, 74'717'696, 73'078'272},
                 .peak = {1'641'472, 100'603'392, 127'301'632, 76'357'120, 74'717'696, 137'436'672,
                          139'264'000, 76'357'120, 74'717'696}});
  }
  SUBCASE("two sequences, whose windows are more than 64") {
    check_bytes(model, plan_of(2, 1031),
                {.allocated = {1'641'472, 157'662'720, 71'438'848, 74'717'696, 73'078'272,
                               194'496'000, 74'717'696, 74'717'696, 73'078'272},
                 .peak = {1'641'472, 170'568'704, 187'987'456, 76'357'120, 74'717'696, 207'401'984,
                          211'371'008, 76'357'120, 74'717'696}});
  }
  SUBCASE("adapters in the language model alone") {
    ParallelPlan plan = plan_of(1, 896);
    plan.lora = LoraPlan{.rank = 8, .targets = {"q_proj", "v_proj"}};
    check_bytes(model, plan,
                {.allocated = {1'670'144, 63'093'248, 69'856'768, 69'914'112, 69'885'440,
                               96'705'024, 69'914'112, 69'914'112, 69'885'440},
                 .peak = {1'671'168, 68'827'648, 95'260'160, 69'942'784, 69'914'112, 102'439'424,
                          104'037'376, 69'942'784, 69'914'112}});
  }
  SUBCASE("adapters in the tower, too") {
    ParallelPlan plan = plan_of(1, 896);
    plan.lora = LoraPlan{.rank = 8, .targets = {}};
    check_bytes(model, plan,
                {.allocated = {1'862'656, 97'072'128, 70'241'792, 70'684'160, 70'462'976,
                               131'068'928, 70'684'160, 70'684'160, 70'462'976},
                 .peak = {1'864'704, 102'806'528, 129'239'040, 70'905'344, 70'684'160, 136'803'328,
                          138'401'280, 70'905'344, 70'684'160}});
  }
  SUBCASE("a tower that is not trained") {
    check_bytes(read_images_model(without_training_of("model.visual.", images_text())).value(),
                plan_of(1, 896),
                {.allocated = {1'641'472, 64'789'504, 70'919'168, 73'158'656, 72'038'912,
                               100'583'424, 73'158'656, 73'158'656, 72'038'912},
                 .peak = {1'641'472, 70'294'528, 96'992'768, 74'278'400, 73'158'656, 106'088'448,
                          107'915'776, 74'278'400, 73'158'656}});
  }
  SUBCASE("adapters and recomputed layers: embeddings of tokens and patches need gradients") {
    ParallelPlan plan = plan_of(1, 896);
    plan.lora = LoraPlan{.rank = 8, .targets = {}};
    plan.recompute = Recompute::kFull;
    check_bytes(model, plan,
                {.allocated = {1'862'656, 61'458'944, 71'290'368, 71'732'736, 71'511'552,
                               96'504'320, 71'732'736, 71'732'736, 71'511'552},
                 .peak = {1'864'704, 69'257'728, 105'328'640, 71'953'920, 71'732'736, 104'303'616,
                          105'771'008, 71'953'920, 71'732'736}});
  }
  SUBCASE("recomputed layers") {
    ParallelPlan plan = plan_of(1, 896);
    plan.recompute = Recompute::kFull;
    check_bytes(model, plan,
                {.allocated = {1'641'472, 68'123'136, 72'487'424, 75'766'272, 74'126'848,
                               106'004'992, 75'766'272, 75'766'272, 74'126'848},
                 .peak = {1'641'472, 73'628'160, 109'648'384, 77'405'696, 75'766'272, 111'510'016,
                          113'937'408, 77'405'696, 75'766'272}});
  }
}

TEST_CASE("recorded images: other images, and none, are refused with what was recorded") {
  const ModelSpec model = read_images_model(images_text()).value();
  ParallelPlan plan = plan_of(1, 896);
  plan.workload.images = Images{.count = 1, .height = 560, .width = 560};
  const auto other = lower(model, plan, Rank{0}, DeviceTraits{});
  REQUIRE_FALSE(other);
  CHECK(other.error().key == "images");
  CHECK(other.error().got == "1x560x560");
  CHECK(other.error().wanted.find("2x560x560") != std::string::npos);
  CHECK(other.error().fix.find("headroom import FOLDER/config.json --images 1x560x560") !=
        std::string::npos);
  plan.workload.images.reset();
  const auto none = lower(model, plan, Rank{0}, DeviceTraits{});
  REQUIRE_FALSE(none);
  CHECK(none.error().fix == "add --images 2x560x560");
}

TEST_CASE("recorded images: micro-batches and lengths that were not recorded are refused") {
  const ModelSpec model = read_images_model(images_text()).value();
  CHECK(test::refused_by_lowering(model, plan_of(4, 896)) == "micro-batch");
  // Two images of 400 tokens, and three tokens of text.
  CHECK(test::refused_by_lowering(model, plan_of(1, 802)) == "seq");
  CHECK(test::refused_by_lowering(model, plan_of(1, 803)).empty());
}

TEST_CASE("recorded images: models that are known for text alone are refused by check_plan") {
  const Status status = check_plan(test::small_llama(), plan_of(1, 896));
  REQUIRE_FALSE(status);
  CHECK(status.error().key == "images");
  CHECK(status.error().fix.find("--images 2x560x560") != std::string::npos);
}

TEST_CASE("recorded images: images of a variant that are none are named with their place") {
  std::string text = images_text();
  const std::string_view written = R"("images": "2x560x560")";
  const std::size_t at = text.find(written);
  REQUIRE(at != std::string::npos);
  const Result<ModelSpec> read =
      read_images_model(text.replace(at, written.size(), R"("images": "2 of 560x560")"));
  REQUIRE_FALSE(read);
  CHECK(read.error().pointer == "/variants/0/images");
}

TEST_CASE("recorded images: what is not counted is said") {
  const std::vector<std::string> notes =
      recording_notes(read_images_model(images_text()).value(), true);
  REQUIRE(notes.size() == 1);
  CHECK(notes.front().find("cuDNN's workspace") != std::string::npos);
}

}  // namespace headroom::ir
