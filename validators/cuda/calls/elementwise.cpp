#include "validators/cuda/arguments.h"
#include "validators/cuda/calls/launch.h"

namespace headroom::cuda {
namespace {

std::int32_t cast(HeadroomDevice* d, HeadroomStream stream, void* to, std::int32_t to_type,
                  const void* from, std::int32_t from_type, std::int64_t count) {
  return launch(d, stream, {to_type, from_type}, grid_of_elements(count),
                CastArguments{.to = to, .from = from, .count = count});
}

std::int32_t add(HeadroomDevice* d, HeadroomStream stream, void* out, const void* a, const void* b,
                 std::int32_t type, std::int64_t count) {
  return launch(d, stream, {type}, grid_of_elements(count),
                AddArguments{.out = out, .a = a, .b = b, .count = count});
}

std::int32_t accumulate(HeadroomDevice* d, HeadroomStream stream, void* to, std::int32_t to_type,
                        const void* from, std::int32_t from_type, std::int64_t count,
                        double factor) {
  return launch(d, stream, {to_type, from_type}, grid_of_elements(count),
                AccumulateArguments{
                    .to = to, .from = from, .count = count, .factor = static_cast<float>(factor)});
}

std::int32_t scale(HeadroomDevice* d, HeadroomStream stream, void* x, std::int32_t type,
                   std::int64_t count, double factor) {
  return launch(d, stream, {type}, grid_of_elements(count),
                ScaleArguments{.x = x, .count = count, .factor = static_cast<float>(factor)});
}

std::int32_t add_bias(HeadroomDevice* d, HeadroomStream stream, void* x, std::int64_t x_row,
                      const void* bias, std::int32_t type, std::int64_t rows,
                      std::int64_t columns) {
  return launch(
      d, stream, {type}, grid_of_matrix(rows, columns),
      AddBiasArguments{.x = x, .x_row = x_row, .bias = bias, .rows = rows, .columns = columns});
}

std::int32_t activation(HeadroomDevice* d, HeadroomStream stream, void* out, const void* x,
                        std::int32_t type, std::int64_t count, std::int32_t function) {
  return launch(d, stream, {type}, grid_of_elements(count),
                ActivationArguments{.out = out, .x = x, .count = count, .function = function});
}

std::int32_t activation_backward(HeadroomDevice* d, HeadroomStream stream, void* dx,
                                 const void* dout, const void* x, std::int32_t type,
                                 std::int64_t count, std::int32_t function) {
  return launch(d, stream, {type}, grid_of_elements(count),
                ActivationBackwardArguments{
                    .dx = dx, .dout = dout, .x = x, .count = count, .function = function});
}

std::int32_t gated(HeadroomDevice* d, HeadroomStream stream, void* out, const void* gate,
                   const void* up, std::int64_t in_row, std::int32_t type, std::int64_t rows,
                   std::int64_t columns, std::int32_t function) {
  return launch(d, stream, {type}, grid_of_matrix(rows, columns),
                GatedArguments{.out = out,
                               .gate = gate,
                               .up = up,
                               .in_row = in_row,
                               .rows = rows,
                               .columns = columns,
                               .function = function});
}

std::int32_t gated_backward(HeadroomDevice* d, HeadroomStream stream, void* dgate, void* dup,
                            const void* dout, const void* gate, const void* up, std::int64_t in_row,
                            std::int32_t type, std::int64_t rows, std::int64_t columns,
                            std::int32_t function) {
  return launch(d, stream, {type}, grid_of_matrix(rows, columns),
                GatedBackwardArguments{.dgate = dgate,
                                       .dup = dup,
                                       .dout = dout,
                                       .gate = gate,
                                       .up = up,
                                       .in_row = in_row,
                                       .rows = rows,
                                       .columns = columns,
                                       .function = function});
}

}  // namespace

void add_elementwise(HeadroomDeviceTable& table) {
  table.cast = cast;
  table.add = add;
  table.accumulate = accumulate;
  table.scale = scale;
  table.add_bias = add_bias;
  table.activation = activation;
  table.activation_backward = activation_backward;
  table.gated = gated;
  table.gated_backward = gated_backward;
}

}  // namespace headroom::cuda
