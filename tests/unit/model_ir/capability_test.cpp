// What frameworks refuse, or do otherwise, by compute capability.

#include "runtimes/interface/capability.h"

#include <doctest/doctest.h>
#include <set>
#include <variant>

#include "runtimes/megatron/plan.h"
#include "runtimes/registry.h"
#include "runtimes/torchtitan/plan.h"
#include "tests/support/small_llama.h"

namespace headroom::ir {
namespace {

constexpr DeviceTraits kSm61{.compute_major = 6, .compute_minor = 1};
constexpr DeviceTraits kSm70{.compute_major = 7, .compute_minor = 0};
constexpr DeviceTraits kSm75{.compute_major = 7, .compute_minor = 5};
constexpr DeviceTraits kSm80{.compute_major = 8, .compute_minor = 0};
constexpr DeviceTraits kSm89{.compute_major = 8, .compute_minor = 9};
constexpr DeviceTraits kNoCuda{.compute_major = 0, .compute_minor = 0};

Status check_on(const ParallelPlan& plan, const DeviceTraits& device) {
  return runtime_of(plan).check_device(plan, device);
}

}  // namespace

TEST_CASE("capability: LLM.int8 needs Turing, NF4 and 8-bit states Pascal") {
  ParallelPlan plan;
  plan.lora = LoraPlan{};
  plan.quant = QuantPlan{.bits = 8};
  const Status refused = check_on(plan, kSm70);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().key == "qlora");
  CHECK(refused.error().wanted.find("Turing") != std::string::npos);
  CHECK(check_on(plan, kSm75));
  plan.quant->bits = 4;
  CHECK(check_on(plan, kSm70));
  plan.quant.reset();
  plan.optimizer.form = OptimizerForm::kPagedEightBit;
  CHECK(check_on(plan, kSm61));
  CHECK(check_on(plan, kNoCuda));  // Another vendor's: nothing is known.
}

TEST_CASE("capability: Liger's kernels need what Triton needs") {
  ParallelPlan plan;
  plan.loss = LossKind::kFusedLinear;
  CHECK_FALSE(check_on(plan, kSm61));
  CHECK(check_on(plan, kSm70));
}

TEST_CASE("capability: Transformer Engine refuses bf16 and fused attention below 8.0") {
  ParallelPlan plan;
  plan.runtime = "megatron";
  plan.precision = Precision::kBf16Master;
  edit_megatron(plan) = MegatronPlan{};
  CHECK(check_on(plan, kSm80));
  CHECK(check_on(plan, kSm75).error().key == "precision");
  plan.precision = Precision::kFp16Master;
  CHECK(check_on(plan, kSm75).error().key == "megatron");
  edit_megatron(plan).attention = MegatronAttention::kFlash;
  CHECK_FALSE(check_on(plan, kSm75));
  edit_megatron(plan).attention = MegatronAttention::kUnfused;
  CHECK(check_on(plan, kSm75));
  plan.precision = Precision::kBf16Master;
  CHECK_FALSE(check_on(plan, kSm75));
  edit_megatron(plan).transformer_engine = false;  // Its own modules ask for none.
  CHECK(check_on(plan, kSm75));
}

TEST_CASE("capability: torchtitan's float8 needs 8.9") {
  ParallelPlan plan;
  plan.runtime = "torchtitan";
  edit_titan(plan) = TitanPlan{};
  edit_titan(plan).float8 = Float8Recipe::kTensorwise;
  CHECK_FALSE(check_on(plan, kSm80));
  CHECK(check_on(plan, kSm89));
}

TEST_CASE("capability: AMD's versions are not NVIDIA's, and float8 needs MI300") {
  constexpr DeviceTraits kMi250{.compute_major = 9, .compute_minor = 0, .rocm = true};
  constexpr DeviceTraits kMi300{.compute_major = 9, .compute_minor = 4, .rocm = true};
  ParallelPlan plan;
  plan.runtime = "torchtitan";
  edit_titan(plan) = TitanPlan{};
  edit_titan(plan).float8 = Float8Recipe::kTensorwise;
  const Status refused = check_on(plan, kMi250);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().wanted.find("ROCm MI300+") != std::string::npos);
  CHECK(check_on(plan, kMi300));
  ParallelPlan quantised;
  quantised.quant = QuantPlan{.bits = 8};  // bitsandbytes supports AMD GPUs.
  CHECK(check_on(quantised, kMi250));
  ParallelPlan megatron;
  megatron.runtime = "megatron";
  edit_megatron(megatron) = MegatronPlan{};
  CHECK(runtime_of(megatron).device_notes(megatron, kMi250).size() == 1);
  CHECK(runtime_of(megatron).device_notes(megatron, kSm80).empty());
}

TEST_CASE("capability: bf16 below 8.0 is emulated by PyTorch, which is said") {
  ParallelPlan plan;
  plan.precision = Precision::kAutocastBf16;
  CHECK(runtime_of(plan).device_notes(plan, kSm75).size() == 1);
  CHECK(runtime_of(plan).device_notes(plan, kSm80).empty());
  plan.precision = Precision::kAutocastFp16;
  CHECK(runtime_of(plan).device_notes(plan, kSm75).empty());
}

TEST_CASE("capability: AdamW on fp16 weights alone usually diverges, which is said") {
  ParallelPlan plan;
  plan.precision = Precision::kFp16;
  CHECK(runtime_of(plan).device_notes(plan, kSm80).size() == 1);
  plan.lora = LoraPlan{};  // Adapters are fp32.
  CHECK(runtime_of(plan).device_notes(plan, kSm80).empty());
}

TEST_CASE("capability: attention on 7.5 stores scores in bf16, and not in fp16") {
  const ModelSpec model =
      parse_hf_config(R"({"model_type": "llama", "hidden_size": 512, "intermediate_size": 512,
          "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 8,
          "vocab_size": 100, "max_position_embeddings": 4096})",
                      "small")
          .value();
  const auto peak = [&](Precision precision) {
    ParallelPlan plan;
    plan.precision = precision;
    plan.workload.sequence = 1024;
    const RankProgram program = lower(model, plan, Rank{0}, kSm75).value();
    return cost::replay(program, plan.allocator, Bytes{64 * kGiB}).phases.at(1).peak_allocated;
  };
  // Eight heads have 16 MiB of scores in a layer.
  CHECK(peak(Precision::kBf16) > peak(Precision::kFp16) + Bytes{16 * kMiB});
  // Matrix products take the time of fp32 where no tensor core has their type.
  const auto products = [&](Precision precision, const DeviceTraits& device) {
    ParallelPlan plan;
    plan.precision = precision;
    std::set<DType> types;
    const RankProgram program = lower(model, plan, Rank{0}, device).value();
    for (const WorkShape& shape : program.work.shapes) {
      if (const auto* const product = std::get_if<GemmShape>(&shape)) {
        types.insert(product->dtype);
      }
    }
    return types;
  };
  CHECK_FALSE(products(Precision::kBf16, kSm75).contains(DType::kBf16));
  CHECK(products(Precision::kFp16, kSm75).contains(DType::kFp16));
  CHECK(products(Precision::kBf16, kSm80).contains(DType::kBf16));
}

}  // namespace headroom::ir
