#include "cli/plan_options.h"

#include <doctest/doctest.h>

#include "cli/allocator_options.h"
#include "model_ir/json/json_writer.h"
#include "runtimes/deepspeed/plan.h"
#include "runtimes/fsdp/options.h"
#include "runtimes/fsdp/plan.h"
#include "runtimes/plan_json.h"
#include "runtimes/torch/ddp_plan.h"
#include "runtimes/torchtitan/options.h"
#include "runtimes/torchtitan/plan.h"
#include "runtimes/torchtune/plan.h"
#include "tests/support/random_plan.h"
#include "tests/support/temporary_folder.h"

namespace headroom::cli {
namespace {

ir::ModelSpec model() {
  ir::ModelSpec spec;
  spec.hidden = 256;
  spec.max_positions = 131'072;
  return spec;
}

Arguments arguments_of(const std::vector<OptionValue>& options) {
  Arguments arguments;
  for (const OptionValue& option : options) {
    arguments.set(option.name, option.value);
  }
  return arguments;
}

ir::ParallelPlan plan_of(const std::vector<OptionValue>& options) {
  return read_plan_options(arguments_of(options), model())->plan;
}

std::string titan_text(const ir::ParallelPlan& plan) {
  return spec_text(ir::torchtitan::options(), plan);
}

Error refusal_of(const std::vector<OptionValue>& options) {
  return read_plan_options(arguments_of(options), model()).error();
}

}  // namespace

TEST_CASE("property: the options of a plan ask for that plan") {
  test::Random random = test::seeded_random(44);
  CAPTURE(random.seed());
  for (int round = 0; round < 400; ++round) {
    ir::ParallelPlan plan = test::random_plan(random);
    if (has_zero(plan)) {  // Bucket sizes and thresholds have no options.
      ir::ZeroPlan zero;
      zero.stage = zero_of(plan).stage;
      zero.decay_groups = zero_of(plan).decay_groups;
      zero.offload_optimizer = zero_of(plan).offload_optimizer;
      zero.offload_param = zero_of(plan).offload_param;
      zero.offload_ratio = zero_of(plan).offload_ratio;
      zero.nvme_path = zero_of(plan).nvme_path;
      zero.hpz_partition_size = zero_of(plan).hpz_partition_size;
      zero.quantized_weights = zero_of(plan).quantized_weights;
      zero.quantized_gradients = zero_of(plan).quantized_gradients;
      edit_zero(plan) = zero;
    }
    std::string typed;
    const std::vector<OptionValue> options = options_of(plan, model());
    for (const OptionValue& option : options) {
      typed += " --" + option.name + " " + option.value;
    }
    CAPTURE(typed);
    const auto again = read_plan_options(arguments_of(options), model());
    REQUIRE(again);
    CHECK(again->plan == plan);
  }
}

TEST_CASE("plan options: --tune means torchtune's code") {
  const ir::ParallelPlan plan =
      plan_of({{"tune", "compiled,optimizer-in-backward"}, {"checkpointing", "full"}});
  CHECK(plan.runtime == "torchtune");
  CHECK(tune_of(plan) == ir::TunePlan{.compiled = true, .optimizer_in_backward = true});
  CHECK(refusal_of({{"tune", "fast"}}).key == "tune");
}

TEST_CASE("plan options: --titan means fully_shard, torchtitan's code and fp32 shards") {
  const ir::ParallelPlan plan =
      plan_of({{"titan", "tp=4,reshard=never,loss-parallel=no,selective"}, {"gpus", "16"}});
  CHECK(plan.runtime == "torchtitan");
  CHECK(plan.precision == ir::Precision::kFp32);
  CHECK(plan.optimizer.form == ir::OptimizerForm::kFused);  // Its own default.
  CHECK(plan_of({{"titan", "tp=2"}, {"gpus", "2"}, {"optimizer", "adamw"}}).optimizer ==
        ir::OptimizerPlan{});
  CHECK(fsdp_of(plan) == ir::FsdpPlan{});
  CHECK(titan_of(plan) == ir::TitanPlan{.loss_parallel = false,
                                        .reshard = ir::TitanReshard::kNever,
                                        .selective_operators = true});
  CHECK(plan.mesh == ir::Mesh{.tensor = 4});
  const std::string text =
      "tp=1,pp=4,schedule=zb-v,pp-batch=2,pp-layers=3,pp-last-less=2,"
      "reshard=default";
  const ir::ParallelPlan staged = plan_of({{"titan", text}, {"gpus", "16"}});
  CHECK(titan_of(staged) == ir::TitanPlan{.schedule = ir::PipelineKind::kZbV,
                                          .pipeline_batch = 2,
                                          .stage_layers = 3,
                                          .last_stage_less = 2});
  CHECK(staged.mesh == ir::Mesh{.pipeline = 4});
  CHECK(titan_text(staged) == text);
  CHECK(ir::parse_plan(ir::to_pretty_json(ir::plan_to_json(staged)), "staged").value() == staged);
  const std::string eight = "tp=1,compiled,float8=rowwise-gw-hp,fp8-all-gather,precompute-scale";
  const ir::ParallelPlan narrow = plan_of({{"titan", eight}, {"gpus", "8"}});
  CHECK(titan_of(narrow).float8 == ir::Float8Recipe::kRowwiseGradientHp);
  CHECK(titan_of(narrow).float8_gather);
  CHECK(titan_of(narrow).float8_precompute);
  CHECK(titan_of(plan_of({{"titan", titan_text(narrow)}})) == titan_of(narrow));
  CHECK(ir::parse_plan(ir::to_pretty_json(ir::plan_to_json(narrow)), "narrow").value() == narrow);
  const ir::ParallelPlan spread = plan_of({{"titan", "tp=2,ep=4,etp=2"}, {"gpus", "16"}});
  CHECK(spread.mesh == ir::Mesh{.tensor = 2, .expert = 4, .expert_tensor = 2});
  CHECK(titan_of(plan_of({{"titan", titan_text(spread)}})) == titan_of(spread));
  const ir::ParallelPlan bounded =
      plan_of({{"titan", "compiled,memory-budget=0.25"}, {"gpus", "8"}});
  CHECK(titan_of(bounded) == ir::TitanPlan{.compiled = true, .memory_budget = 0.25});
  CHECK(titan_text(bounded) == "tp=1,reshard=default,compiled,memory-budget=0.25");
  const ir::ParallelPlan none = plan_of({{"titan", "compiled,memory-budget=-0"}, {"gpus", "8"}});
  CHECK(titan_text(none) == "tp=1,reshard=default,compiled,memory-budget=0");
  CHECK(ir::parse_plan(ir::to_pretty_json(ir::plan_to_json(bounded)), "bounded").value() ==
        bounded);
  const Error outside = refusal_of({{"titan", "compiled,memory-budget=1.5"}});
  CHECK(outside.key == "titan");
  CHECK(outside.got == "memory-budget=1.5");
  CHECK(refusal_of({{"titan", "schedule=zb-h2"}}).key == "titan");
  CHECK(refusal_of({{"titan", "tp=0"}}).key == "titan");
  CHECK(refusal_of({{"titan", "reshard=sometimes"}}).key == "titan");
}

TEST_CASE("plan options: without any, the plan is the usual one") {
  CHECK(plan_of({}) == ir::ParallelPlan{});
  CHECK(options_of(ir::ParallelPlan{}, model()).empty());
}

TEST_CASE("plan options: the usual sequence ends where the positions end") {
  ir::ModelSpec gpt2 = model();
  gpt2.max_positions = 1'024;
  CHECK(read_plan_options(Arguments{}, gpt2)->plan.workload.sequence == 1'024);
  gpt2.max_positions = 0;  // Not said.
  CHECK(read_plan_options(Arguments{}, gpt2)->plan.workload.sequence == 2'048);
}

TEST_CASE("plan options: --zero and --offload mean deepspeed, whose bf16 has an fp32 master") {
  const ir::ParallelPlan zero = plan_of({{"zero", "2"}, {"gpus", "8"}});
  CHECK(zero.runtime == "deepspeed");
  CHECK(zero.precision == ir::Precision::kBf16Master);
  CHECK_FALSE(has_ddp(zero));
  CHECK(zero_of(plan_of({{"offload", "optimizer=cpu"}, {"zero", "2"}})).offload_optimizer ==
        ir::OffloadDevice::kCpu);
  const ir::ParallelPlan split =
      plan_of({{"offload", "optimizer=cpu,optimizer-ratio=0.25"}, {"zero", "3"}});
  CHECK(zero_of(split).offload_ratio == 0.25);
  const Error share = refusal_of({{"offload", "optimizer-ratio=1.5"}, {"zero", "3"}});
  CHECK(share.key == "offload");
  CHECK(share.got == "optimizer-ratio=1.5");
  CHECK(plan_of({{"zero", "3"}, {"precision", "fp16"}}).precision == ir::Precision::kFp16Master);
  CHECK(plan_of({{"zero", "3"}, {"precision", "fp32"}}).precision == ir::Precision::kFp32);
  CHECK(zero_of(plan_of({{"runtime", "deepspeed"}})).stage == 0);
}

TEST_CASE("plan options: --zeropp and --rank") {
  const ir::ParallelPlan plan = plan_of({{"zero", "3"},
                                         {"gpus", "16"},
                                         {"rank", "9"},
                                         {"zeropp", "hpz=4,qwz,qgz,node=4,leaf=experts"}});
  CHECK(plan.rank == 9);
  CHECK(zero_of(plan).hpz_partition_size == 4);
  CHECK(zero_of(plan).quantized_weights);
  CHECK(zero_of(plan).quantized_gradients);
  CHECK(zero_of(plan).node_devices == 4);
  CHECK(zero_of(plan).leaf == ir::ZeroLeaf::kExperts);
  const std::vector<OptionValue> options = options_of(plan, model());
  CHECK(read_plan_options(arguments_of(options), model())->plan == plan);
}

TEST_CASE("plan options: options of two frameworks, or of one that is not meant, are refused") {
  CHECK(to_text(refusal_of({{"zero", "2"}, {"megatron", "tp=2"}})) ==
        "error: zero and --megatron belong to different frameworks\n"
        "  fix: leave out --zero or --megatron");
  CHECK(refusal_of({{"fsdp", "reshard=no"}, {"offload", "param=cpu"}}).fix.find("--fsdp") !=
        std::string::npos);
  CHECK(refusal_of({{"titan", "tp=2"}, {"tune", "compiled"}}).wanted.empty());
  CHECK(refusal_of({{"decay-groups", ""}}).fix == "add --zero, or leave out --decay-groups");
  CHECK(plan_of({{"zeropp", "hpz=2"}}).runtime == "deepspeed");
  CHECK(plan_of({{"fsdp", "reshard=no"}, {"titan", "tp=2"}}).runtime == "torchtitan");
  CHECK(plan_of({{"fsdp", "reshard=no"}, {"tune", "compiled"}}).runtime == "torchtune");
  CHECK(plan_of({{"fsdp", "reshard=no"}, {"runtime", "torchtune"}}).runtime == "torchtune");
}

TEST_CASE("plan options: several GPUs without ZeRO are data parallel") {
  CHECK(has_ddp(plan_of({{"gpus", "4"}})));
  CHECK_FALSE(has_ddp(plan_of({{"gpus", "1"}})));
}

TEST_CASE("plan options: every value is checked and named") {
  const std::vector<OptionValue> wrong = {{"gpus", "0"},
                                          {"zero", "4"},
                                          {"precision", "bf61"},
                                          {"micro-batch", "1.5"},
                                          {"seq", "-3"},
                                          {"accumulation", ""},
                                          {"checkpointing", "al"},
                                          {"optimizer", "adam"},
                                          {"attention", "slow"},
                                          {"loss", "mse"},
                                          {"lora", "r=0"},
                                          {"lora", "rang=3"},
                                          {"lora", "dropout=2"},
                                          {"qlora", "bits=5"},
                                          {"offload", "optimizer=disk"},
                                          {"ddp", "bucket=0"},
                                          {"clip-norm", "nan"},
                                          {"steps", "99"},
                                          {"runtime", "jax"},
                                          {"alloc-conf", "max_split_size_mb:5"},
                                          {"alloc-conf", "expandable:True"}};
  for (const OptionValue& option : wrong) {
    CAPTURE(option.name);
    CAPTURE(option.value);
    const auto request = read_plan_options(arguments_of({option}), model());
    REQUIRE_FALSE(request);
    CHECK(request.error().code == ErrorCode::kInvalidArgument);
    CHECK(request.error().key == option.name);
    CHECK_FALSE(request.error().wanted.empty());
  }
}

TEST_CASE("plan options: FullyShardedDataParallel's own") {
  const ir::ParallelPlan plan =
      plan_of({{"runtime", "fsdp"},
               {"gpus", "8"},
               {"fsdp", "version=1,prefetch=post,forward-prefetch,orig-params=no,replicas=2"}});
  const ir::FsdpPlan& fsdp = fsdp_of(plan);
  CHECK(fsdp.backward_prefetch == ir::FsdpPrefetch::kBackwardPost);
  CHECK(fsdp.forward_prefetch);
  CHECK_FALSE(fsdp.use_orig_params);
  CHECK(
      spec_text(ir::fsdp::options(), plan).find(",orig-params=no,prefetch=post,forward-prefetch") !=
      std::string::npos);
}

TEST_CASE("plan options: adapters") {
  const ir::LoraPlan lora =
      *plan_of({{"lora", "r=8,targets=q_proj+v_proj,dropout=0.05,dora"}}).lora;
  CHECK(lora == ir::LoraPlan{.rank = 8,
                             .dropout = 0.05,
                             .dora = true,
                             .rank_stabilised = false,
                             .targets = {"q_proj", "v_proj"}});
  const ir::ParallelPlan saved = plan_of({{"lora", "r=8,save=embed_tokens+lm_head,rslora"}});
  CHECK(saved.lora->modules_to_save == std::vector<std::string>{"embed_tokens", "lm_head"});
  CHECK(saved.lora->rank_stabilised);
  CHECK(adapter_text(saved) == "r=8,rslora,save=embed_tokens+lm_head");
  const ir::ParallelPlan quantised = plan_of({{"qlora", "r=4,bits=8,prepare=no"}});
  CHECK(quantised.lora->rank == 4);
  CHECK(*quantised.quant == ir::QuantPlan{.bits = 8, .double_quant = true, .prepare_kbit = false});
}

TEST_CASE("plan options: k-bit preparation switches checkpointing on unless told otherwise") {
  CHECK(plan_of({{"qlora", "r=4"}}).recompute == ir::Recompute::kFull);
  CHECK(plan_of({{"qlora", "r=4"}, {"zero", "2"}, {"gpus", "2"}}).recompute ==
        ir::Recompute::kFull);
  CHECK(plan_of({{"qlora", "r=4"}, {"checkpointing", "none"}}).recompute == ir::Recompute::kNone);
  CHECK(plan_of({{"qlora", "r=4,prepare=no"}}).recompute == ir::Recompute::kNone);
  CHECK(plan_of({{"lora", "r=4"}}).recompute == ir::Recompute::kNone);
}

TEST_CASE("plan options: the allocator's settings are PyTorch's own words") {
  const ir::AllocatorSettings settings =
      plan_of({{"alloc-conf", "expandable_segments:True,max_split_size_mb:128"}}).allocator;
  CHECK(settings.expandable_segments);
  CHECK(settings.max_split_size == Bytes{128 * kMiB});
  CHECK(to_text(settings) == "expandable_segments:True,max_split_size_mb:128");
}

TEST_CASE("plan options: a plan file keeps its optimizer, the usual one or not") {
  const test::TemporaryFolder folder;
  for (const std::vector<OptionValue>& options :
       {std::vector<OptionValue>{{"titan", "tp=2"}, {"gpus", "2"}},
        std::vector<OptionValue>{{"zero", "3"}, {"gpus", "2"}, {"offload", "optimizer=cpu"}}}) {
    for (const char* const optimizer : {"adamw", "adamw-fused"}) {
      std::vector<OptionValue> named = options;
      named.push_back({"optimizer", optimizer});
      const ir::ParallelPlan plan = plan_of(named);
      const std::string file =
          folder.write("plan.json", ir::to_pretty_json(ir::plan_to_json(plan)));
      CHECK(plan_of({{"plan", file}}) == plan);
    }
  }
}

TEST_CASE("plan options: options go over the plan file, and over a DeepSpeed file") {
  const test::TemporaryFolder folder;
  const std::string plan =
      folder.write("plan.json", R"({"schema_version": 1, "micro_batch": 6, "sequence": 512})");
  const ir::ParallelPlan both = plan_of({{"plan", plan}, {"micro-batch", "2"}});
  CHECK(both.workload.micro_batch == 2);
  CHECK(both.workload.sequence == 512);
  const std::string config = folder.write(
      "ds.json", R"({"train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": true},
                     "zero_optimization": {"stage": 3, "reduce_bucket_size": "auto"}})");
  const ir::ParallelPlan zero = plan_of({{"deepspeed", config}, {"micro-batch", "4"}});
  CHECK(zero.workload.micro_batch == 4);
  CHECK(zero_of(zero).stage == 3);
  CHECK(zero_of(zero).reduce_bucket_size == 65'536);  // 256^2
  CHECK(zero.precision == ir::Precision::kBf16Master);
  CHECK(zero_of(plan_of({{"deepspeed", config}, {"zero", "2"}})).stage == 2);
  CHECK(refusal_of({{"deepspeed", config}, {"runtime", "transformers"}}).key == "runtime");
}

TEST_CASE("plan options: an offloaded optimizer is DeepSpeed's own unless one is named") {
  CHECK(plan_of({{"zero", "2"}, {"offload", "optimizer=cpu"}}).optimizer.form ==
        ir::OptimizerForm::kFused);
  CHECK(plan_of({{"zero", "2"}, {"offload", "optimizer=cpu"}, {"optimizer", "adamw"}})
            .optimizer.form == ir::OptimizerForm::kForeach);
}

}  // namespace headroom::cli
