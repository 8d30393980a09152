// Checks of cross entropy, experts and the optimizer.
#include <cstdint>

#include "tests/support/backends/call_check.h"

namespace headroom::test {
namespace {

using Table = HeadroomDeviceTable;

std::int64_t blocks_of(std::int64_t count) {
  return (count + HEADROOM_STATE_BLOCK - 1) / HEADROOM_STATE_BLOCK;
}

std::int32_t logit_statistics(HeadroomDevice* d, HeadroomStream stream, void* row_max,
                              void* row_sum, void* row_target, const void* logits,
                              std::int32_t type, const std::int32_t* labels, std::int64_t rows,
                              std::int64_t columns, std::int64_t first) {
  return CallCheck(d, "logit_statistics", stream)
      .kernel()
      .uses(row_max, rows, stat_of(type))
      .uses(row_sum, rows, stat_of(type))
      .uses(row_target, rows, stat_of(type))
      .uses(logits, rows * columns, type)
      .uses(labels, rows, HEADROOM_INT32)
      .run(&Table::logit_statistics, stream, row_max, row_sum, row_target, logits, type, labels,
           rows, columns, first);
}

std::int32_t rescale_sums(HeadroomDevice* d, HeadroomStream stream, void* row_sum,
                          const void* row_max, const void* whole_max, std::int32_t stat_type,
                          std::int64_t rows) {
  return CallCheck(d, "rescale_sums", stream)
      .kernel()
      .uses(row_sum, rows, stat_type)
      .uses(row_max, rows, stat_type)
      .uses(whole_max, rows, stat_type)
      .run(&Table::rescale_sums, stream, row_sum, row_max, whole_max, stat_type, rows);
}

std::int32_t cross_entropy_loss(HeadroomDevice* d, HeadroomStream stream, void* loss,
                                const void* row_max, const void* row_sum, const void* row_target,
                                std::int32_t stat_type, const std::int32_t* labels,
                                std::int64_t rows, double factor) {
  return CallCheck(d, "cross_entropy_loss", stream)
      .kernel()
      .uses(loss, 1, stat_type)
      .uses(row_max, rows, stat_type)
      .uses(row_sum, rows, stat_type)
      .uses(row_target, rows, stat_type)
      .uses(labels, rows, HEADROOM_INT32)
      .run(&Table::cross_entropy_loss, stream, loss, row_max, row_sum, row_target, stat_type,
           labels, rows, factor);
}

std::int32_t cross_entropy_backward(HeadroomDevice* d, HeadroomStream stream, void* dlogits,
                                    const void* logits, std::int32_t type, const void* row_max,
                                    const void* row_sum, const std::int32_t* labels,
                                    std::int64_t rows, std::int64_t columns, std::int64_t first,
                                    double factor) {
  return CallCheck(d, "cross_entropy_backward", stream)
      .kernel()
      .uses(dlogits, rows * columns, type)
      .uses(logits, rows * columns, type)
      .uses(row_max, rows, stat_of(type))
      .uses(row_sum, rows, stat_of(type))
      .uses(labels, rows, HEADROOM_INT32)
      .run(&Table::cross_entropy_backward, stream, dlogits, logits, type, row_max, row_sum, labels,
           rows, columns, first, factor);
}

std::int32_t route(HeadroomDevice* d, HeadroomStream stream, void* probabilities, void* weights,
                   std::int32_t* experts, const void* logits, std::int32_t type,
                   std::int64_t tokens, std::int64_t expert_count, std::int64_t top_k,
                   std::int32_t normalise) {
  return CallCheck(d, "route", stream)
      .kernel()
      .uses(probabilities, tokens * expert_count, stat_of(type))
      .uses(weights, tokens * top_k, stat_of(type))
      .uses(experts, tokens * top_k, HEADROOM_INT32)
      .uses(logits, tokens * expert_count, type)
      .run(&Table::route, stream, probabilities, weights, experts, logits, type, tokens,
           expert_count, top_k, normalise);
}

std::int32_t route_backward(HeadroomDevice* d, HeadroomStream stream, void* dlogits,
                            std::int32_t type, const void* dweights, const void* probabilities,
                            const std::int32_t* experts, std::int64_t tokens,
                            std::int64_t expert_count, std::int64_t top_k, std::int32_t normalise) {
  return CallCheck(d, "route_backward", stream)
      .kernel()
      .uses(dlogits, tokens * expert_count, type)
      .uses(dweights, tokens * top_k, stat_of(type))
      .uses(probabilities, tokens * expert_count, stat_of(type))
      .uses(experts, tokens * top_k, HEADROOM_INT32)
      .run(&Table::route_backward, stream, dlogits, type, dweights, probabilities, experts, tokens,
           expert_count, top_k, normalise);
}

std::int32_t sort_by_expert(HeadroomDevice* d, HeadroomStream stream, std::int32_t* position,
                            std::int32_t* source, std::int64_t* offsets,
                            const std::int32_t* experts, std::int64_t tokens,
                            std::int64_t expert_count, std::int64_t top_k) {
  return CallCheck(d, "sort_by_expert", stream)
      .kernel()
      .uses(position, tokens * top_k, HEADROOM_INT32)
      .uses(source, tokens * top_k, HEADROOM_INT32)
      .uses(offsets, expert_count + 1, HEADROOM_INT64)
      .uses(experts, tokens * top_k, HEADROOM_INT32)
      .run(&Table::sort_by_expert, stream, position, source, offsets, experts, tokens, expert_count,
           top_k);
}

std::int32_t gather_rows(HeadroomDevice* d, HeadroomStream stream, void* out, const void* x,
                         const std::int32_t* source, std::int32_t type, std::int64_t rows,
                         std::int64_t columns) {
  return CallCheck(d, "gather_rows", stream)
      .kernel()
      .uses(out, rows * columns, type)
      .uses(x, rows > 0 ? columns : 0, type)
      .uses(source, rows, HEADROOM_INT32)
      .run(&Table::gather_rows, stream, out, x, source, type, rows, columns);
}

std::int32_t gather_rows_backward(HeadroomDevice* d, HeadroomStream stream, void* dx,
                                  const void* dout, const std::int32_t* position, std::int32_t type,
                                  std::int64_t tokens, std::int64_t top_k, std::int64_t columns) {
  return CallCheck(d, "gather_rows_backward", stream)
      .kernel()
      .uses(dx, tokens * columns, type)
      .uses(dout, tokens * top_k * columns, type)
      .uses(position, tokens * top_k, HEADROOM_INT32)
      .run(&Table::gather_rows_backward, stream, dx, dout, position, type, tokens, top_k, columns);
}

std::int32_t combine_rows(HeadroomDevice* d, HeadroomStream stream, void* out, const void* x,
                          const void* weights, const std::int32_t* position, std::int32_t type,
                          std::int64_t tokens, std::int64_t top_k, std::int64_t columns) {
  return CallCheck(d, "combine_rows", stream)
      .kernel()
      .uses(out, tokens * columns, type)
      .uses(x, tokens * top_k * columns, type)
      .uses(weights, tokens * top_k, stat_of(type))
      .uses(position, tokens * top_k, HEADROOM_INT32)
      .run(&Table::combine_rows, stream, out, x, weights, position, type, tokens, top_k, columns);
}

std::int32_t combine_rows_backward(HeadroomDevice* d, HeadroomStream stream, void* dx,
                                   void* dweights, const void* dout, const void* x,
                                   const void* weights, const std::int32_t* position,
                                   std::int32_t type, std::int64_t tokens, std::int64_t top_k,
                                   std::int64_t columns) {
  return CallCheck(d, "combine_rows_backward", stream)
      .kernel()
      .uses(dx, tokens * top_k * columns, type)
      .uses(dweights, tokens * top_k, stat_of(type))
      .uses(dout, tokens * columns, type)
      .uses(x, tokens * top_k * columns, type)
      .uses(weights, tokens * top_k, stat_of(type))
      .uses(position, tokens * top_k, HEADROOM_INT32)
      .run(&Table::combine_rows_backward, stream, dx, dweights, dout, x, weights, position, type,
           tokens, top_k, columns);
}

std::int32_t square_sum(HeadroomDevice* d, HeadroomStream stream, void* sum, std::int32_t stat_type,
                        const void* x, std::int32_t type, std::int64_t count, double factor,
                        void* partial) {
  return CallCheck(d, "square_sum", stream)
      .kernel()
      .uses(sum, 1, stat_type)
      .uses(x, count, type)
      .uses(partial, HEADROOM_PARTIAL_SUMS, stat_type)
      .run(&Table::square_sum, stream, sum, stat_type, x, type, count, factor, partial);
}

std::int32_t largest_magnitude(HeadroomDevice* d, HeadroomStream stream, void* largest,
                               std::int32_t stat_type, const void* x, std::int32_t type,
                               std::int64_t count, void* partial) {
  return CallCheck(d, "largest_magnitude", stream)
      .kernel()
      .uses(largest, 1, stat_type)
      .uses(x, count, type)
      .uses(partial, HEADROOM_PARTIAL_SUMS, stat_type)
      .run(&Table::largest_magnitude, stream, largest, stat_type, x, type, count, partial);
}

std::int32_t quantise(HeadroomDevice* d, HeadroomStream stream, std::uint8_t* out,
                      std::uint8_t* transposed, void* scale, const void* x, std::int32_t type,
                      std::int64_t rows, std::int64_t columns, const void* largest,
                      std::int32_t format) {
  return CallCheck(d, "quantise", stream)
      .kernel()
      .may_use(out, rows * columns, HEADROOM_UINT8)
      .may_use(transposed, rows * columns, HEADROOM_UINT8)
      .uses(scale, 1, stat_of(type))
      .uses(x, rows * columns, type)
      .uses(largest, 1, stat_of(type))
      .run(&Table::quantise, stream, out, transposed, scale, x, type, rows, columns, largest,
           format);
}

std::int32_t gradient_factor(HeadroomDevice* d, HeadroomStream stream, void* factor,
                             const void* square_sum, std::int32_t stat_type, double max_norm,
                             double inverse_scale) {
  return CallCheck(d, "gradient_factor", stream)
      .kernel()
      .uses(factor, 1, stat_type)
      .uses(square_sum, 1, stat_type)
      .run(&Table::gradient_factor, stream, factor, square_sum, stat_type, max_norm, inverse_scale);
}

std::int32_t adamw(HeadroomDevice* d, HeadroomStream stream, void* parameters,
                   std::int32_t parameter_type, void* master, void* first_moment,
                   void* second_moment, std::int32_t state_type, const void* gradients,
                   std::int32_t gradient_type, std::int64_t count, const HeadroomAdamW* values) {
  return CallCheck(d, "adamw", stream)
      .kernel()
      .may_use(parameters, count, parameter_type)
      .may_use(master, count, stat_of(parameter_type))
      .uses(first_moment, count, state_type)
      .uses(second_moment, count, state_type)
      .uses(gradients, count, gradient_type)
      .uses(values->gradient_factor, 1, stat_of(parameter_type))
      .run(&Table::adamw, stream, parameters, parameter_type, master, first_moment, second_moment,
           state_type, gradients, gradient_type, count, values);
}

std::int32_t adamw_8bit(HeadroomDevice* d, HeadroomStream stream, void* parameters,
                        std::int32_t parameter_type, void* master, std::uint8_t* first_moment,
                        std::uint8_t* second_moment, float* first_scale, float* second_scale,
                        const float* signed_code, const float* unsigned_code, const void* gradients,
                        std::int32_t gradient_type, std::int64_t count,
                        const HeadroomAdamW* values) {
  return CallCheck(d, "adamw_8bit", stream)
      .kernel()
      .may_use(parameters, count, parameter_type)
      .may_use(master, count, stat_of(parameter_type))
      .uses(first_moment, count, HEADROOM_UINT8)
      .uses(second_moment, count, HEADROOM_UINT8)
      .uses(first_scale, blocks_of(count), HEADROOM_FP32)
      .uses(second_scale, blocks_of(count), HEADROOM_FP32)
      .uses(signed_code, 256, HEADROOM_FP32)
      .uses(unsigned_code, 256, HEADROOM_FP32)
      .uses(gradients, count, gradient_type)
      .uses(values->gradient_factor, 1, stat_of(parameter_type))
      .run(&Table::adamw_8bit, stream, parameters, parameter_type, master, first_moment,
           second_moment, first_scale, second_scale, signed_code, unsigned_code, gradients,
           gradient_type, count, values);
}

}  // namespace

void check_training_kernels(HeadroomDeviceTable& table) {
  table.logit_statistics = logit_statistics;
  table.rescale_sums = rescale_sums;
  table.cross_entropy_loss = cross_entropy_loss;
  table.cross_entropy_backward = cross_entropy_backward;
  table.route = route;
  table.route_backward = route_backward;
  table.sort_by_expert = sort_by_expert;
  table.gather_rows = gather_rows;
  table.gather_rows_backward = gather_rows_backward;
  table.combine_rows = combine_rows;
  table.combine_rows_backward = combine_rows_backward;
  table.square_sum = square_sum;
  table.largest_magnitude = largest_magnitude;
  table.quantise = quantise;
  table.gradient_factor = gradient_factor;
  table.adamw = adamw;
  table.adamw_8bit = adamw_8bit;
}

}  // namespace headroom::test
