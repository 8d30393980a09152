// Loops over tokens that hand on what all their turns made.
// tests/golden/recordings/falcon_mamba.json was recorded with PyTorch 2.11.0 and
// transformers 5.17.0 by headroom import (two layers, H 64).

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include <doctest/doctest.h>

#include "costmodel/estimate.h"
#include "model_ir/base/file.h"
#include "model_ir/json/json_reader.h"
#include "model_ir/spec/hf_config.h"
#include "model_ir/spec/recording/recorded_spec.h"
#include "model_ir/spec/recording/recording.h"
#include "runtimes/plan_check.h"
#include "tests/support/refusal.h"
#include "tests/support/small_llama.h"

namespace headroom::ir {
namespace {

std::string mamba_text() {
  return read_file(HEADROOM_SOURCE_DIR "/tests/golden/recordings/falcon_mamba.json").value();
}

Result<ModelSpec> read_mamba(const std::string& text) {
  const Result<JsonValue> document = parse_json(text, "mamba.json");
  return document ? read_recorded_model(*document, "mamba.json")
                  : Result<ModelSpec>(document.error());
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("recorded lists: a scan over 256 tokens leaves the bytes of the real PyTorch") {
  const ModelSpec model = read_mamba(mamba_text()).value();
  ParallelPlan plan;
  plan.precision = Precision::kBf16;
  plan.workload.micro_batch = 2;
  plan.workload.sequence = 256;
  plan = test::on_accounting_device(plan);
  const auto program = lower(model, plan, Rank{0}, DeviceTraits{});
  REQUIRE(program);
  const auto phases = cost::replay(program.value(), plan.allocator, Bytes{600'000'000'000}).phases;
  // Recorded by the real PyTorch on a device that only accounts memory: load, then two steps of
  // forward, backward, optimizer and zero_grad.
  constexpr std::array kAllocated = {151'040,    45'947'392, 67'407'872, 67'703'808, 67'555'840,
                                     79'797'760, 67'703'808, 67'703'808, 67'555'840};
  REQUIRE(phases.size() == kAllocated.size());
  for (std::size_t i = 0; i < phases.size(); ++i) {
    CAPTURE(i);
    CHECK(phases[i].allocated_after.value() == kAllocated[i]);
  }
  CHECK(phases[1].peak_allocated.value() == 46'735'360);
  CHECK(phases[5].peak_allocated.value() == 80'585'728);
}

TEST_CASE("recorded lists: packages that the code asked for and did not find are kept") {
  const ModelSpec model = read_mamba(mamba_text()).value();
  CHECK(model.recording->missing == std::vector<std::string>{"causal_conv1d", "mamba_ssm"});
  const std::vector<std::string> notes = recording_notes(model, false);
  CHECK(std::ranges::any_of(notes, [](const std::string& note) {
    return note.find("kernels of causal_conv1d, mamba_ssm installed") != std::string::npos;
  }));
  CHECK(recording_notes(ModelSpec(), false).empty());
}

TEST_CASE("recorded lists: only what joins tensors takes a list") {
  const std::string text = mamba_text();
  const std::string_view stack = R"("stack", [89, 99])";
  for (const std::string_view other :
       {R"("neg", [89, 99])", R"("add", [89, 99])", R"("stack", [null, 89, 99])",
        R"("stack", [89, "p:mixer.D"])"}) {
    CAPTURE(other);
    const Result<ModelSpec> read = read_mamba(replaced(text, stack, other));
    REQUIRE_FALSE(read);
    CHECK(read.error().wanted.find("cat and stack") != std::string::npos);
  }
  for (const std::string_view count : {"3", "-1", "null", "true", "4294967296"}) {
    CAPTURE(count);
    const Result<ModelSpec> more =
        read_mamba(replaced(text, R"("lists": 1)", R"("lists": )" + std::string(count)));
    REQUIRE_FALSE(more);
    CHECK(more.error().pointer.ends_with("/3/lists"));
  }
}

TEST_CASE("recorded lists: entries may be tensors that nobody made") {
  // The list of a turn's last argument, which the caller leaves out.
  std::string text = mamba_text();
  text = replaced(text, R"(87, 70, 75, 82], {"arguments": 4)",
                  R"(87, 70, 75, null], {"arguments": 4)");
  text = replaced(text, R"("outputs": [17, 13])", R"("outputs": [17, 3])");
  const Result<ModelSpec> model = read_mamba(text);
  REQUIRE(model);
  ParallelPlan plan;
  plan.precision = Precision::kBf16;
  plan.workload.micro_batch = 2;
  plan.workload.sequence = 256;
  CHECK(lower(*model, test::on_accounting_device(plan), Rank{0}, DeviceTraits{}));
}

TEST_CASE("recorded lists: sequences whose code was not recorded are refused by their length") {
  const ModelSpec model = read_mamba(mamba_text()).value();
  ParallelPlan plan;
  plan.precision = Precision::kBf16;
  plan.attention = AttentionKind::kEager;
  plan.workload.micro_batch = 2;
  plan.workload.sequence = 16;
  CHECK(test::refused_by_lowering(model, plan) == "seq");
}

}  // namespace headroom::ir
