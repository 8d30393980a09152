#pragma once

#include <vector>

#include "tests/executor/executions.h"
#include "tests/support/executor_types.h"
#include "tests/support/random.h"

namespace headroom::test {

/// Element types that CUDA runs.
inline exec::Types random_cuda_types(Random& random) {
  using ir::DType;
  return random.pick<exec::Types>({{},
                                   {},
                                   with_masters(DType::kBf16),
                                   with_masters(DType::kFp16),
                                   {.compute = DType::kBf16},
                                   with_small_states(DType::kFp32),
                                   {.state = DType::kUInt8}});
}

/// A small execution with every operator, in one of CUDA's element types. Not every one of them can
/// be run (`check_execution`).
inline exec::Execution random_cuda_execution(Random& random) {
  const auto layers = static_cast<std::size_t>(random.between(1, 3));
  ir::ModelSpec model = random.chance(1, 3) ? tiny_gpt2(layers) : tiny_model(layers);
  if (random.chance(1, 3)) {
    model = with_experts(model, random.chance(1, 2));
    model.mlp_bias = false;
  }
  if (random.chance(1, 2)) {  // Heads that fit the tiles of tensor cores.
    model.head_dim = random.pick<std::int64_t>({8, 24, 64, 72});
    model.hidden = model.heads * model.head_dim;
    model.embedding_dim = model.hidden;
  }
  model.vocabulary = random.between(30, 600);
  exec::Execution execution = tiny_execution(model);
  execution.types = random_cuda_types(random);
  execution.micro_batch = random.between(1, 3);
  execution.sequence = random.between(1, 16);
  execution.accumulation = random.between(1, 2);
  execution.steps = 2;
  execution.flash = random.chance(2, 3);
  execution.chunked_loss = random.chance(1, 2);
  for (ir::RecomputedParts& layer : execution.layers) {
    layer = {
        .layer = random.chance(1, 3), .attention = random.chance(1, 2), .mlp = random.chance(1, 3)};
  }
  execution.division.tensor = random.pick<int>({1, 1, 2});
  execution.division.data = random.pick<int>({1, 1, 2, 3});
  execution.division.rank = static_cast<int>(random.between(0, execution.division.world() - 1));
  execution.units = {.zero_stage = static_cast<int>(random.between(0, 3)),
                     .parameters_on_host = random.chance(1, 4),
                     .states_on_host = random.chance(1, 4)};
  execution.units.parameters_on_host &=
      execution.units.zero_stage == 3 || execution.division.data == 1;
  execution.activations_on_host = random.chance(1, 3);
  if (random.chance(1, 2)) {
    execution.clip_norm = 1;
  }
  execution.workspace = Bytes{random.between(0, 2) * 1'500'000};
  if (!execution.model.moe && random.chance(1, 5)) {
    // Products in 8 bits need widths that are multiples of 16.
    ir::ModelSpec& sizes = execution.model;
    sizes.head_dim = 8;
    sizes.hidden = sizes.heads * sizes.head_dim;
    sizes.embedding_dim = sizes.hidden;
    sizes.ffn = 48;
    execution.micro_batch = 1;
    execution.sequence = 16;
    execution.division.tensor = 1;
    execution.division.rank = 0;
    execution.types = with_masters(ir::DType::kBf16);
    execution.types.fp8_products = true;
  }
  return execution;
}

}  // namespace headroom::test
