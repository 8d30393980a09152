#include "validators/cuda/arguments.h"
#include "validators/cuda/calls/launch.h"

namespace headroom::cuda {
namespace {

std::int32_t route(HeadroomDevice* d, HeadroomStream stream, void* probabilities, void* weights,
                   std::int32_t* experts, const void* logits, std::int32_t type,
                   std::int64_t tokens, std::int64_t expert_count, std::int64_t top_k,
                   std::int32_t normalise) {
  return launch(d, stream, {type},
                Grid{.x = tokens,
                     .threads = 32,
                     .shared_bytes = static_cast<std::size_t>(expert_count) * sizeof(float)},
                RouteArguments{.probabilities = static_cast<float*>(probabilities),
                               .weights = static_cast<float*>(weights),
                               .experts = experts,
                               .logits = logits,
                               .expert_count = expert_count,
                               .top_k = top_k,
                               .normalise = normalise});
}

std::int32_t route_backward(HeadroomDevice* d, HeadroomStream stream, void* dlogits,
                            std::int32_t type, const void* dweights, const void* probabilities,
                            const std::int32_t* experts, std::int64_t tokens,
                            std::int64_t expert_count, std::int64_t top_k, std::int32_t normalise) {
  return launch(d, stream, {type}, Grid{.x = tokens, .threads = 32},
                RouteBackwardArguments{.dlogits = dlogits,
                                       .dweights = static_cast<const float*>(dweights),
                                       .probabilities = static_cast<const float*>(probabilities),
                                       .experts = experts,
                                       .expert_count = expert_count,
                                       .top_k = top_k,
                                       .normalise = normalise});
}

std::int32_t sort_by_expert(HeadroomDevice* d, HeadroomStream stream, std::int32_t* position,
                            std::int32_t* source, std::int64_t* offsets,
                            const std::int32_t* experts, std::int64_t tokens,
                            std::int64_t expert_count, std::int64_t top_k) {
  const std::int64_t choices = tokens * top_k;
  const Grid grid{.x = expert_count, .threads = 256};
  std::int32_t code =
      launch(d, stream, {}, grid,
             ExpertCountsArguments{.offsets = offsets, .experts = experts, .choices = choices});
  if (code == 0) {
    code = launch(d, stream, {}, Grid{.x = 1, .threads = 32},
                  ExpertOffsetsArguments{.offsets = offsets, .expert_count = expert_count});
  }
  return code != 0 ? code
                   : launch(d, stream, {}, grid,
                            ExpertPositionsArguments{.position = position,
                                                     .source = source,
                                                     .offsets = offsets,
                                                     .experts = experts,
                                                     .choices = choices,
                                                     .top_k = top_k});
}

std::int32_t gather_rows(HeadroomDevice* d, HeadroomStream stream, void* out, const void* x,
                         const std::int32_t* source, std::int32_t type, std::int64_t rows,
                         std::int64_t columns) {
  return launch(
      d, stream, {type}, grid_of_rows(rows, columns),
      GatherRowsArguments{.out = out, .x = x, .source = source, .rows = rows, .columns = columns});
}

std::int32_t gather_rows_backward(HeadroomDevice* d, HeadroomStream stream, void* dx,
                                  const void* dout, const std::int32_t* position, std::int32_t type,
                                  std::int64_t tokens, std::int64_t top_k, std::int64_t columns) {
  return launch(d, stream, {type}, grid_of_rows(tokens, columns),
                GatherRowsBackwardArguments{.dx = dx,
                                            .dout = dout,
                                            .position = position,
                                            .tokens = tokens,
                                            .top_k = top_k,
                                            .columns = columns});
}

std::int32_t combine_rows(HeadroomDevice* d, HeadroomStream stream, void* out, const void* x,
                          const void* weights, const std::int32_t* position, std::int32_t type,
                          std::int64_t tokens, std::int64_t top_k, std::int64_t columns) {
  return launch(d, stream, {type}, grid_of_rows(tokens, columns),
                CombineRowsArguments{.out = out,
                                     .x = x,
                                     .weights = static_cast<const float*>(weights),
                                     .position = position,
                                     .tokens = tokens,
                                     .top_k = top_k,
                                     .columns = columns});
}

std::int32_t combine_rows_backward(HeadroomDevice* d, HeadroomStream stream, void* dx,
                                   void* dweights, const void* dout, const void* x,
                                   const void* weights, const std::int32_t* position,
                                   std::int32_t type, std::int64_t tokens, std::int64_t top_k,
                                   std::int64_t columns) {
  return launch(d, stream, {type}, grid_of_rows(tokens * top_k, columns),
                CombineRowsBackwardArguments{.dx = dx,
                                             .dweights = static_cast<float*>(dweights),
                                             .dout = dout,
                                             .x = x,
                                             .weights = static_cast<const float*>(weights),
                                             .position = position,
                                             .top_k = top_k,
                                             .columns = columns});
}

}  // namespace

void add_experts(HeadroomDeviceTable& table) {
  table.route = route;
  table.route_backward = route_backward;
  table.sort_by_expert = sort_by_expert;
  table.gather_rows = gather_rows;
  table.gather_rows_backward = gather_rows_backward;
  table.combine_rows = combine_rows;
  table.combine_rows_backward = combine_rows_backward;
}

}  // namespace headroom::cuda
