#include <algorithm>
#include <cmath>

#include "validators/cuda/arguments.h"
#include "validators/cuda/calls/launch.h"

namespace headroom::cuda {
namespace {

AdamWNumbers numbers_of(const HeadroomAdamW& values) {
  const auto step = static_cast<double>(values.step);
  return {.learning_rate = static_cast<float>(values.learning_rate),
          .beta1 = static_cast<float>(values.beta1),
          .beta2 = static_cast<float>(values.beta2),
          .epsilon = static_cast<float>(values.epsilon),
          .kept = static_cast<float>(1 - values.learning_rate * values.weight_decay),
          .first_correction = static_cast<float>(1 - std::pow(values.beta1, step)),
          .second_correction = static_cast<float>(1 - std::pow(values.beta2, step)),
          .gradient_factor = static_cast<const float*>(values.gradient_factor)};
}

std::int32_t square_sum(HeadroomDevice* d, HeadroomStream stream, void* sum, std::int32_t stat_type,
                        const void* x, std::int32_t type, std::int64_t count, double factor,
                        void* partial) {
  if (stat_type != HEADROOM_FP32) {
    return fail(d, "CUDA has statistics in fp32 alone");
  }
  Grid grid = grid_of_elements(count);
  grid.x = std::min<std::int64_t>(grid.x, HEADROOM_PARTIAL_SUMS);
  auto* const sums = static_cast<float*>(partial);
  const std::int32_t code =
      launch(d, stream, {type}, grid, SquareSumArguments{.partial = sums, .x = x, .count = count});
  return code != 0 ? code
                   : launch(d, stream, {}, Grid{.x = count > 0 ? 1 : 0, .threads = 1024},
                            FinishSquareSumArguments{.sum = static_cast<float*>(sum),
                                                     .partial = sums,
                                                     .count = grid.x,
                                                     .factor = static_cast<float>(factor)});
}

std::int32_t gradient_factor(HeadroomDevice* d, HeadroomStream stream, void* factor,
                             const void* square_sum, std::int32_t stat_type, double max_norm,
                             double inverse_scale) {
  if (stat_type != HEADROOM_FP32) {
    return fail(d, "CUDA has statistics in fp32 alone");
  }
  return launch(d, stream, {}, Grid{.x = 1, .threads = 32},
                GradientFactorArguments{.factor = static_cast<float*>(factor),
                                        .square_sum = static_cast<const float*>(square_sum),
                                        .max_norm = static_cast<float>(max_norm),
                                        .inverse_scale = static_cast<float>(inverse_scale)});
}

std::int32_t adamw(HeadroomDevice* d, HeadroomStream stream, void* parameters,
                   std::int32_t parameter_type, void* master, void* first_moment,
                   void* second_moment, std::int32_t state_type, const void* gradients,
                   std::int32_t gradient_type, std::int64_t count, const HeadroomAdamW* values) {
  return launch(d, stream, {state_type, parameter_type, gradient_type}, grid_of_elements(count),
                AdamWArguments{.parameters = parameters,
                               .master = static_cast<float*>(master),
                               .first_moment = first_moment,
                               .second_moment = second_moment,
                               .gradients = gradients,
                               .count = count,
                               .numbers = numbers_of(*values)});
}

std::int32_t adamw_8bit(HeadroomDevice* d, HeadroomStream stream, void* parameters,
                        std::int32_t parameter_type, void* master, std::uint8_t* first_moment,
                        std::uint8_t* second_moment, float* first_scale, float* second_scale,
                        const float* signed_code, const float* unsigned_code, const void* gradients,
                        std::int32_t gradient_type, std::int64_t count,
                        const HeadroomAdamW* values) {
  const std::int64_t blocks = (count + HEADROOM_STATE_BLOCK - 1) / HEADROOM_STATE_BLOCK;
  return launch(d, stream, {parameter_type, gradient_type},
                Grid{.x = blocks, .threads = HEADROOM_STATE_BLOCK},
                AdamW8BitArguments{.parameters = parameters,
                                   .master = static_cast<float*>(master),
                                   .first_moment = first_moment,
                                   .second_moment = second_moment,
                                   .first_scale = first_scale,
                                   .second_scale = second_scale,
                                   .signed_code = signed_code,
                                   .unsigned_code = unsigned_code,
                                   .gradients = gradients,
                                   .count = count,
                                   .numbers = numbers_of(*values)});
}

}  // namespace

void add_optimizer(HeadroomDeviceTable& table) {
  table.square_sum = square_sum;
  table.gradient_factor = gradient_factor;
  table.adamw = adamw;
  table.adamw_8bit = adamw_8bit;
}

}  // namespace headroom::cuda
