#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <utility>

#include "model_ir/spec/model_catalogue.h"
#include "tests/gpu/executor/memory_checks.h"
#include "tests/gpu/executor/parts.h"
#include "tests/support/backends/checked_backend.h"
#include "tests/support/configs.h"
#include "tests/support/executor_types.h"
#include "tests/support/random.h"
#include "validators/executor/device.h"

namespace headroom::test {
namespace {

exec::Types random_types(Random& random) {
  using ir::DType;
  return random.pick<exec::Types>({with_masters(DType::kBf16),
                                   {.parameter = DType::kBf16,
                                    .compute = DType::kBf16,
                                    .gradient = DType::kFp32,
                                    .state = DType::kFp32,
                                    .master = true},
                                   {.compute = DType::kBf16},
                                   with_small_states(DType::kBf16)});
}

/// One shadow rank of a job that trains a model of real size.
exec::Execution real_execution(const ir::ModelSpec& model, Random& random) {
  exec::Execution execution;
  execution.model = model;
  execution.types = random_types(random);
  execution.division.tensor = random.pick<int>({1, 1, 2, 4, 8});
  execution.division.data = random.pick<int>({8, 16, 64, 256});
  execution.division.pipeline = random.pick<int>({1, 1, 1, 2, 4});
  execution.division.rank = static_cast<int>(random.between(0, execution.division.world() - 1));
  execution.units.zero_stage = random.pick<int>({1, 2, 3, 3, 3});
  execution.units.states_on_host = random.chance(1, 5);
  execution.units.parameters_on_host = execution.units.zero_stage == 3 && random.chance(1, 8);
  execution.activations_on_host = random.chance(1, 8);
  execution.micro_batch = random.pick<std::int64_t>({1, 1, 2, 4});
  execution.sequence = random.pick<std::int64_t>({2048, 4096, 8192});
  execution.accumulation = random.pick<std::int64_t>({1, 2, 4});
  execution.chunked_loss = random.chance(1, 2);
  execution.layers.resize(model.layers.size());
  const bool all = random.chance(1, 2);
  for (ir::RecomputedParts& layer : execution.layers) {
    layer.layer = all || random.chance(1, 4);
    layer.attention = random.chance(1, 4);
  }
  execution.clip_norm = 1;
  execution.workspace = Bytes{32 * kMiB};
  execution.types.fp8_products = !model.moe && random.chance(1, 4);
  return execution;
}

}  // namespace

void run_plans(const HeadroomDeviceTable& plugin, int count, Outcome& outcome) {
  constexpr std::array<const char*, 6> kModels = {"llama-3.1-8b", "llama-3-70b", "llama-3.1-405b",
                                                  "mixtral-8x7b", "qwen2.5-14b", "mistral-7b-v0.3"};
  // A test that was built elsewhere finds the catalogue where the environment says.
  const char* const named = std::getenv("HEADROOM_CONFIG_DIR");
  const std::string configs = named != nullptr && *named != '\0' ? named : kConfigs;
  std::vector<ir::ModelSpec> models;
  for (const char* const name : kModels) {
    if (Result<ir::ModelSpec> model = ir::load_model(configs + "/models", name)) {
      models.push_back(std::move(model).value());
    }
  }
  outcome.expect(models.size() >= 3, "the catalogue has the models");
  Random random(405);
  int ran = 0;
  int failed = 0;
  const HeadroomDeviceTable& device = checked_backend(plugin);
  for (int tried = 0; ran < count && tried < 20 * count; ++tried) {
    const exec::Execution execution = real_execution(random.pick(models), random);
    if (!exec::check_execution(execution)) {
      continue;
    }
    const Result<std::unique_ptr<exec::Device>> opened =
        exec::Device::open(device, 0, execution.workspace);
    if (!opened) {
      outcome.expect(false, to_text(opened.error()));
      return;
    }
    const Bytes capacity{(*opened)->info().free_bytes};
    const std::string name = "plan " + std::to_string(ran) + " (" + execution.model.name + ")";
    const Result<exec::RankRun> run = exec::run_rank(execution, device, 0, capacity);
    outcome.expect(run.has_value(), name + ": " + (run ? "" : to_text(run.error())));
    if (run) {
      expect_prediction(execution, *run, capacity, name, outcome);
      failed += run->out_of_memory ? 1 : 0;
    }
    ++ran;
  }
  std::printf(
      "plans: %d ran, %d of them out of memory; %lld kernels, %lld copies, %lld ranges of "
      "memory\n",
      ran, failed, static_cast<long long>(checked_calls().kernels),
      static_cast<long long>(checked_calls().copies),
      static_cast<long long>(checked_calls().pointers));
  outcome.expect(ran == count, "as many plans as wanted");
}

}  // namespace headroom::test
