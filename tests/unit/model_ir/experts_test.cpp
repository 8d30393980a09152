// Mixtures of experts to the byte. What a training step holds was recorded with
// torch.cuda.memory_stats() of PyTorch 2.11.0 running transformers 5.17.0 on models of the
// dimensions below; nothing in the program was fitted to them.

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <doctest/doctest.h>

#include "model_ir/spec/task.h"
#include "runtimes/torch/functions_grouped.h"
#include "tests/support/first_step.h"
#include "tests/support/small_llama.h"

namespace headroom::ir {
namespace {

using test::first_step;
using test::FirstStep;
using test::plan_with;
using torch::Eager;
using torch::Tensor;

constexpr DeviceTraits kAmpere{.compute_major = 8, .compute_minor = 0, .multiprocessors = 108};
constexpr DeviceTraits kBlackwell{.compute_major = 10, .compute_minor = 0, .multiprocessors = 148};

std::string with_sizes(const std::string& rest) {
  return R"({"hidden_size": 256, "num_hidden_layers": 2, "num_attention_heads": 8,
             "vocab_size": 1000, )" +
         rest + "}";
}

const std::string kMixtral = with_sizes(R"("model_type": "mixtral", "intermediate_size": 512,
    "num_key_value_heads": 2, "num_local_experts": 8, "num_experts_per_tok": 2)");
/// The first layer is dense.
const std::string kQwen3 = with_sizes(R"("model_type": "qwen3_moe", "intermediate_size": 512,
    "moe_intermediate_size": 128, "num_key_value_heads": 2, "head_dim": 32, "num_experts": 16,
    "num_experts_per_tok": 8, "norm_topk_prob": true, "mlp_only_layers": [0])");
const std::string kQwen2 = with_sizes(R"("model_type": "qwen2_moe", "intermediate_size": 512,
    "moe_intermediate_size": 128, "shared_expert_intermediate_size": 384,
    "num_key_value_heads": 8, "num_experts": 16, "num_experts_per_tok": 4)");
const std::string kGptOss = with_sizes(R"("model_type": "gpt_oss", "intermediate_size": 256,
    "num_key_value_heads": 2, "head_dim": 32, "num_local_experts": 8, "num_experts_per_tok": 4,
    "sliding_window": 128)");

/// The same configuration with one more key.
std::string with_key(std::string config, const std::string& key) {
  config.pop_back();
  return config + ", " + key + "}";
}

const ParallelPlan kBf16 = plan_with(Precision::kBf16);
const ParallelPlan kAutocast = plan_with(Precision::kAutocastBf16);
const ParallelPlan kEager = plan_with(Precision::kBf16, AttentionKind::kEager);
const ParallelPlan kFull = plan_with(Precision::kBf16, AttentionKind::kSdpa, Recompute::kFull);

}  // namespace

TEST_CASE("experts: Mixtral's routing weights stay fp32 and widen what they multiply") {
  CHECK(first_step(kMixtral, kBf16) == FirstStep{56162552, 92217344, 81742336});
  CHECK(first_step(kMixtral, kEager) == FirstStep{74325704, 119438336, 82444800});
}

TEST_CASE("experts: under autocast the grouped products stay in the weights' fp32") {
  CHECK(first_step(kMixtral, kAutocast) == FirstStep{72429304, 111851008, 95949824});
  CHECK(first_step(kQwen3, kAutocast) == FirstStep{73503736, 118976000, 78355456});
}

TEST_CASE("experts: the grouped kernel needs a workspace on Hopper and Blackwell, not on Ampere") {
  CHECK(first_step(kMixtral, kBf16, kAmpere) == FirstStep{31127800, 42147840, 31672832});
  CHECK(first_step(kMixtral, kBf16, kBlackwell) == FirstStep{31127800, 42552832, 31672832});
}

TEST_CASE("experts: Qwen3-MoE casts its routing weights back, dense layers in between") {
  CHECK(first_step(kQwen3, kBf16) == FirstStep{58600952, 96690688, 72733184});
  CHECK(first_step(kQwen3, kEager) == FirstStep{76764104, 115639296, 72733184});
}

TEST_CASE("experts: Qwen2-MoE gates a shared expert") {
  CHECK(first_step(kQwen2, kBf16) == FirstStep{60081592, 94807552, 77724160});
  CHECK(first_step(kQwen2, kAutocast) == FirstStep{77316024, 116748800, 88372224});
}

TEST_CASE("experts: gpt-oss has biases, clamped interleaved gates and attention sinks") {
  CHECK(first_step(kGptOss, kEager) == FirstStep{75371880, 110327296, 77313024});
  ParallelPlan autocast = kAutocast;
  autocast.attention = AttentionKind::kEager;
  CHECK(first_step(kGptOss, autocast) == FirstStep{111453032, 150487040, 84472832});
}

TEST_CASE("experts: checkpointed layers route again in backward") {
  CHECK(first_step(kMixtral, kFull) == FirstStep{37850440, 88814592, 81381888});
  CHECK(first_step(kQwen2, kFull) == FirstStep{38899016, 89528320, 78772736});
  ParallelPlan gpt_oss = kFull;
  gpt_oss.attention = AttentionKind::kEager;
  CHECK(first_step(kGptOss, gpt_oss) == FirstStep{39907016, 97383424, 77218304});
}

TEST_CASE(
    "experts: LoRA folds its factors into copies of all experts, or adapts linear layers alone") {
  // peft 0.21.2. Qwen2-MoE's experts are left alone, its shared expert and that gate are not.
  ParallelPlan plan = kBf16;
  plan.lora =
      LoraPlan{.rank = 4, .dropout = 0, .dora = false, .rank_stabilised = false, .targets = {}};
  CHECK(first_step(kMixtral, plan) == FirstStep{71097240, 106746880, 68023296});
  CHECK(first_step(kQwen2, plan) == FirstStep{62383192, 96613888, 68293632});
}

TEST_CASE("experts: dropout in front of adapters on experts is refused, as PEFT refuses it") {
  const auto lowered = [](const std::string& config, std::vector<std::string> targets) {
    ParallelPlan plan = kBf16;
    plan.lora = LoraPlan{.rank = 4,
                         .dropout = 0.1,
                         .dora = false,
                         .rank_stabilised = false,
                         .targets = std::move(targets)};
    return lower(parse_hf_config(config, "test").value(), plan, Rank{0}, DeviceTraits{});
  };
  const auto refused = lowered(kMixtral, {});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().key == "lora");
  CHECK(lowered(kMixtral, {"q_proj", "v_proj"}));
  CHECK(lowered(kQwen2, {}));
}

TEST_CASE("experts: the auxiliary loss keeps logits and probabilities of every router") {
  const std::string mixtral = with_key(kMixtral, R"("output_router_logits": true)");
  CHECK(first_step(mixtral, kBf16) == FirstStep{56181784, 92236800, 81742336});
  // The fp32 mask and rows weighed with it; the mask itself came with the batch.
  ParallelPlan padded = kBf16;
  padded.workload.padded_batch = true;
  CHECK(first_step(mixtral, padded) == FirstStep{57842700, 93893632, 81742336});
  // A recomputed layer's logits are not recorded again; the dense first layer has none.
  const std::string qwen = with_key(kQwen3, R"("output_router_logits": true)");
  CHECK(first_step(qwen, kFull) == FirstStep{37869704, 90432000, 72733184});
}

TEST_CASE("experts: noise on the routers' input is kept, in training alone") {
  const std::string noisy = with_key(kMixtral, R"("router_jitter_noise": 0.1)");
  CHECK(first_step(noisy, kBf16) == FirstStep{56776952, 92831744, 81742336});
}

TEST_CASE("experts: the auxiliary loss beside what is not modelled with it is refused by name") {
  const auto lowered = [](const ParallelPlan& plan, Task task) {
    ModelSpec model =
        parse_hf_config(with_key(kMixtral, R"("output_router_logits": true)"), "test").value();
    CHECK((task == Task::kLanguage || set_task(model, task, 2)));
    return lower(model, plan, Rank{0}, DeviceTraits{});
  };
  ParallelPlan chunked = kBf16;
  chunked.loss = LossKind::kChunked;
  ParallelPlan generating = kBf16;
  generating.workload.generation = GenerationPlan{};
  for (const auto& refused :
       {lowered(chunked, Task::kLanguage), lowered(generating, Task::kLanguage),
        lowered(kBf16, Task::kSequenceClassification)}) {
    REQUIRE_FALSE(refused);
    CHECK(refused.error().got.find("output_router_logits") == 0);
  }
  CHECK(lowered(kBf16, Task::kLanguage));
}

TEST_CASE("radix sort: temporary storage follows tiles, passes and compute capability") {
  // Sizes that torch.sort and index_put_ asked for on PyTorch 2.11.0.
  const DeviceTraits hopper{};
  CHECK(torch::radix_sort_bytes(2304, 64, hopper) == 1);
  CHECK(torch::radix_sort_bytes(2305, 6, hopper) == 3583);
  CHECK(torch::radix_sort_bytes(4400, 8, hopper) == 3583);
  CHECK(torch::radix_sort_bytes(4400, 9, hopper) == 76287);
  CHECK(torch::radix_sort_bytes(4400, 17, hopper) == 78335);
  CHECK(torch::radix_sort_bytes(4400, 64, hopper) == 88575);
  CHECK(torch::radix_sort_bytes(1'000'000, 64, hopper) == 16'240'127);
  CHECK(torch::radix_sort_bytes(1'000'000, 64, kAmpere) == 16'284'159);
}

namespace {

/// Bytes that one grouped product of 4400 rows allocates, in order.
std::string grouped_events(std::int64_t experts, DType dtype, const DeviceTraits& device) {
  Eager eager{device};
  const Tensor rows = eager.empty({4400, 1024}, dtype, TensorRole::kInput);
  const Tensor weight = eager.empty({experts, 768, 1024}, dtype, TensorRole::kInput);
  const Tensor offsets = eager.empty({experts}, DType::kInt32, TensorRole::kInput);
  const std::size_t begin = eager.program().events.size();
  const Tensor product =
      torch::grouped_mm(eager, rows, weight, offsets, torch::GroupedWeight::kOutIn);
  std::string text;
  for (std::size_t i = begin; i < eager.program().events.size(); ++i) {
    const Event& event = eager.program().events[i];
    text += event.kind == EventKind::kAllocate ? "+" + std::to_string(event.bytes) + " " : "- ";
  }
  return text;
}

}  // namespace

TEST_CASE("grouped_mm: arguments per expert and a workspace per multiprocessor") {
  // Recorded from torch.nn.functional.grouped_mm of PyTorch 2.11.0.
  const DeviceTraits hopper{};
  CHECK(grouped_events(6, DType::kBf16, hopper) == "+6758400 +360 +67584 - - ");
  CHECK(grouped_events(128, DType::kBf16, hopper) == "+6758400 +7680 +67584 - - ");
  CHECK(grouped_events(6, DType::kBf16, kBlackwell) == "+6758400 +360 +871424 - - ");
  CHECK(grouped_events(60, DType::kBf16, kBlackwell) == "+6758400 +3600 +795648 - - ");
  CHECK(grouped_events(6, DType::kBf16, kAmpere) == "+6758400 ");
  CHECK(grouped_events(6, DType::kFp32, hopper) == "+13516800 ");
}

TEST_CASE("experts: fewer routed tokens than experts allocate as any other routing") {
  // Three tokens choose 12 of 32 experts at most. Recorded as the other releases' phases are.
  const ModelSpec spec =
      parse_hf_config(R"({"model_type": "qwen3_moe", "hidden_size": 1024, "num_hidden_layers": 2,
          "num_attention_heads": 16, "num_key_value_heads": 4, "vocab_size": 50000,
          "intermediate_size": 2816, "moe_intermediate_size": 384, "num_experts": 32,
          "num_experts_per_tok": 4, "head_dim": 64, "tie_word_embeddings": true,
          "norm_topk_prob": true, "max_position_embeddings": 4096})",
                      "small")
          .value();
  ParallelPlan plan = kBf16;
  plan.workload.micro_batch = 1;
  plan.workload.sequence = 3;
  plan.workload.steps = 2;
  test::check_phases(spec, plan,
                     {{"step1.forward", 298'932'736, 299'832'832},
                      {"step1.backward", 595'878'912, 801'401'344},
                      {"step1.optimizer", 1'124'647'936, 1'389'032'448},
                      {"step2.backward", 1'124'647'936, 1'330'170'368}});
}

TEST_CASE("experts: an expert without rows has no product, but zeros for a gradient") {
  const ModelSpec spec = parse_hf_config(kMixtral, "small").value();
  for (const DeviceTraits& device : {DeviceTraits{}, kAmpere}) {
    CAPTURE(device.compute_major);
    const bool one_kernel = device.compute_major == 9;
    ParallelPlan plan = kBf16;
    plan.workload.micro_batch = 1;
    plan.workload.sequence = 2;
    const RankProgram program = lower(spec, plan, Rank{0}, device).value();
    bool gradients = false;
    for (const WorkShape& shape : program.work.shapes) {
      const auto* product = std::get_if<GemmShape>(&shape);
      if (product == nullptr) {
        continue;
      }
      CHECK(product->m * product->n * product->k * product->count > 0);
      const bool grouped = product->batch != GemmBatch::kStrided;
      if (grouped && product->layout == GemmLayout::kNT) {
        // Four choices: four of eight experts have a row. One kernel writes all gradients.
        gradients = true;
        CHECK(product->k == 1);
        CHECK(product->count == (one_kernel ? 8 : 4));
      } else if (grouped) {
        CHECK(product->m == 1);
        CHECK(product->count == 4);
      }
    }
    CHECK(gradients);
  }
}

}  // namespace headroom::ir
