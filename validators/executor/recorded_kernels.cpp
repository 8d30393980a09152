// The least cost of each kernel of the device interface: the operands that it must read and the
// results that it must write.

#include "validators/executor/recorded_kernels.h"

#include <utility>

#include "validators/executor/tensor.h"

namespace headroom::exec {
namespace {

using ir::TrafficKind;

ir::DType dtype_of(std::int32_t type) {
  return static_cast<ir::DType>(type);
}

/// Bytes of `count` elements.
std::int64_t bytes_of(std::int32_t type, std::int64_t count) {
  return count * ir::bits_of(dtype_of(type)) / 8;
}

std::int64_t stat_bytes(std::int32_t type, std::int64_t count) {
  return count * ir::bits_of(stat_type(dtype_of(type))) / 8;
}

std::int32_t add(HeadroomDevice* device, std::int32_t stream, const ir::WorkShape& shape) {
  if (Memory* const memory = recorded_memory(device)) {
    memory->add_work(shape, static_cast<std::uint8_t>(stream));
  }
  return 0;
}

std::int32_t traffic(HeadroomDevice* device, std::int32_t stream, std::int64_t bytes,
                     TrafficKind kind = TrafficKind::kElementwise) {
  return bytes > 0 ? add(device, stream, ir::TrafficShape{.bytes = bytes, .kind = kind}) : 0;
}

ir::GemmShape shape_of(const HeadroomGemm& gemm) {
  return {.m = gemm.m,
          .n = gemm.n,
          .k = gemm.k,
          .count = gemm.outer * gemm.inner,
          .dtype = dtype_of(gemm.type),
          .layout = gemm.transpose_b != 0   ? ir::GemmLayout::kTN
                    : gemm.transpose_a != 0 ? ir::GemmLayout::kNT
                                            : ir::GemmLayout::kNN,
          .batch = ir::GemmBatch::kStrided,
          .accumulate = gemm.beta != 0};
}

std::int32_t gemm(HeadroomDevice* d, HeadroomStream stream, const HeadroomGemm* call) {
  return add(d, stream, shape_of(*call));
}

std::int32_t gemm_grouped(HeadroomDevice* d, HeadroomStream stream, const HeadroomGemm* call,
                          const std::int64_t*, std::int64_t groups, std::int32_t rows_inside) {
  ir::GemmShape shape = shape_of(*call);
  std::int64_t& rows = rows_inside != 0 ? shape.k : shape.m;
  rows = ceil_div(rows, groups);
  shape.count = groups;
  shape.batch = ir::GemmBatch::kSeries;
  return add(d, stream, shape);
}

std::int32_t attend(HeadroomDevice* d, HeadroomStream stream, const HeadroomAttention& call,
                    bool backward) {
  return add(d, stream,
             ir::AttentionShape{.batch = call.batch,
                                .heads = call.heads,
                                .kv_heads = call.kv_heads,
                                .queries = call.sequence,
                                .keys = call.sequence,
                                .head_dim = call.head_dim,
                                .value_dim = call.head_dim,
                                .window = call.window,
                                .dtype = dtype_of(call.type),
                                .causal = true,
                                .backward = backward,
                                .kernel = ir::AttentionKernel::kFlash2});
}

std::int32_t attention(HeadroomDevice* d, HeadroomStream stream, const HeadroomAttention* call) {
  return attend(d, stream, *call, false);
}
std::int32_t attention_backward(HeadroomDevice* d, HeadroomStream stream,
                                const HeadroomAttention* call) {
  return attend(d, stream, *call, true);
}

void add_memory_kernels(HeadroomDeviceTable& table) {
  table.copy = [](HeadroomDevice* d, HeadroomStream stream, void*, const void*, std::int64_t bytes,
                  std::int32_t kind) {
    const ir::CopyKind direction = kind == HEADROOM_HOST_TO_DEVICE ? ir::CopyKind::kHostToDevice
                                   : kind == HEADROOM_DEVICE_TO_HOST
                                       ? ir::CopyKind::kDeviceToHost
                                       : ir::CopyKind::kDeviceToDevice;
    return add(d, stream, ir::CopyShape{.kind = direction, .bytes = bytes});
  };
  table.clear = [](HeadroomDevice* d, HeadroomStream stream, void*, std::int64_t bytes) {
    return traffic(d, stream, bytes);
  };
  table.cast = [](HeadroomDevice* d, HeadroomStream stream, void*, std::int32_t to, const void*,
                  std::int32_t from, std::int64_t count) {
    return traffic(d, stream, bytes_of(to, count) + bytes_of(from, count));
  };
  table.add = [](HeadroomDevice* d, HeadroomStream stream, void*, const void*, const void*,
                 std::int32_t type,
                 std::int64_t count) { return traffic(d, stream, 3 * bytes_of(type, count)); };
  table.accumulate = [](HeadroomDevice* d, HeadroomStream stream, void*, std::int32_t to,
                        const void*, std::int32_t from, std::int64_t count, double) {
    return traffic(d, stream, 2 * bytes_of(to, count) + bytes_of(from, count));
  };
  table.scale = [](HeadroomDevice* d, HeadroomStream stream, void*, std::int32_t type,
                   std::int64_t count,
                   double) { return traffic(d, stream, 2 * bytes_of(type, count)); };
  table.add_bias = [](HeadroomDevice* d, HeadroomStream stream, void*, std::int64_t, const void*,
                      std::int32_t type, std::int64_t rows, std::int64_t columns) {
    return traffic(d, stream, 2 * bytes_of(type, rows * columns));
  };
  table.column_sum = [](HeadroomDevice* d, HeadroomStream stream, void*, std::int32_t, const void*,
                        std::int64_t, std::int32_t type, std::int64_t rows, std::int64_t columns,
                        void*) { return traffic(d, stream, bytes_of(type, rows * columns)); };
}

void add_layer_kernels(HeadroomDeviceTable& table) {
  table.activation = [](HeadroomDevice* d, HeadroomStream stream, void*, const void*,
                        std::int32_t type, std::int64_t count,
                        std::int32_t) { return traffic(d, stream, 2 * bytes_of(type, count)); };
  table.activation_backward = [](HeadroomDevice* d, HeadroomStream stream, void*, const void*,
                                 const void*, std::int32_t type, std::int64_t count, std::int32_t) {
    return traffic(d, stream, 3 * bytes_of(type, count));
  };
  table.gated = [](HeadroomDevice* d, HeadroomStream stream, void*, const void*, const void*,
                   std::int64_t, std::int32_t type, std::int64_t rows, std::int64_t columns,
                   std::int32_t) { return traffic(d, stream, 3 * bytes_of(type, rows * columns)); };
  table.gated_backward = [](HeadroomDevice* d, HeadroomStream stream, void*, void*, const void*,
                            const void*, const void*, std::int64_t, std::int32_t type,
                            std::int64_t rows, std::int64_t columns, std::int32_t) {
    return traffic(d, stream, 5 * bytes_of(type, rows * columns));
  };
  table.norm = [](HeadroomDevice* d, HeadroomStream stream, std::int32_t, void*, std::int64_t,
                  void*, void*, const void*, std::int64_t, const void*, const void*,
                  std::int32_t type, std::int64_t rows, std::int64_t columns,
                  double) { return traffic(d, stream, 2 * bytes_of(type, rows * columns)); };
  table.norm_backward = [](HeadroomDevice* d, HeadroomStream stream, std::int32_t, void*, void*,
                           void*, std::int32_t, const void*, std::int64_t, const void*,
                           std::int64_t, const void*, const void*, const void*, std::int32_t type,
                           std::int64_t rows, std::int64_t columns, void*) {
    return traffic(d, stream, 3 * bytes_of(type, rows * columns));
  };
  table.rope = [](HeadroomDevice* d, HeadroomStream stream, void*, std::int64_t, const void*,
                  std::int32_t type, std::int64_t tokens, std::int64_t, std::int64_t heads,
                  std::int64_t, std::int64_t rotated, std::int32_t, std::int32_t) {
    return traffic(d, stream, 2 * bytes_of(type, tokens * heads * rotated));
  };
  table.causal_softmax = [](HeadroomDevice* d, HeadroomStream stream, void*, const void*,
                            std::int32_t type, std::int64_t rows, std::int64_t, std::int64_t keys,
                            std::int64_t,
                            double) { return traffic(d, stream, 2 * bytes_of(type, rows * keys)); };
  table.softmax_backward = [](HeadroomDevice* d, HeadroomStream stream, void*, const void*,
                              const void*, std::int32_t type, std::int64_t rows, std::int64_t keys,
                              double) {
    return traffic(d, stream, 3 * bytes_of(type, rows * keys));
  };
}

void add_end_kernels(HeadroomDeviceTable& table) {
  table.embedding = [](HeadroomDevice* d, HeadroomStream stream, void*, const void*,
                       std::int32_t type, const std::int32_t*, std::int64_t tokens,
                       std::int64_t columns, std::int64_t, std::int64_t) {
    return traffic(d, stream, 2 * bytes_of(type, tokens * columns));
  };
  table.embedding_backward = [](HeadroomDevice* d, HeadroomStream stream, void*, std::int32_t sums,
                                const void*, std::int32_t type, const std::int32_t*,
                                std::int64_t tokens, std::int64_t columns, std::int64_t,
                                std::int64_t) {
    return traffic(d, stream,
                   bytes_of(type, tokens * columns) + 2 * bytes_of(sums, tokens * columns));
  };
  table.add_positions = [](HeadroomDevice* d, HeadroomStream stream, void*, const void*,
                           std::int32_t type, std::int64_t tokens, std::int64_t columns,
                           std::int64_t) {
    return traffic(d, stream, 3 * bytes_of(type, tokens * columns));
  };
  table.add_positions_backward = [](HeadroomDevice* d, HeadroomStream stream, void*, std::int32_t,
                                    const void*, std::int32_t type, std::int64_t tokens,
                                    std::int64_t columns, std::int64_t) {
    return traffic(d, stream, bytes_of(type, tokens * columns));
  };
  table.logit_statistics = [](HeadroomDevice* d, HeadroomStream stream, void*, void*, void*,
                              const void*, std::int32_t type, const std::int32_t*,
                              std::int64_t rows, std::int64_t columns, std::int64_t) {
    return traffic(d, stream, bytes_of(type, rows * columns), TrafficKind::kCrossEntropy);
  };
  table.cross_entropy_backward = [](HeadroomDevice* d, HeadroomStream stream, void*, const void*,
                                    std::int32_t type, const void*, const void*,
                                    const std::int32_t*, std::int64_t rows, std::int64_t columns,
                                    std::int64_t, double) {
    return traffic(d, stream, 2 * bytes_of(type, rows * columns), TrafficKind::kCrossEntropy);
  };
  table.square_sum = [](HeadroomDevice* d, HeadroomStream stream, void*, std::int32_t, const void*,
                        std::int32_t type, std::int64_t count, double,
                        void*) { return traffic(d, stream, bytes_of(type, count)); };
  table.adamw = [](HeadroomDevice* d, HeadroomStream stream, void*, std::int32_t type, void* master,
                   void*, void*, std::int32_t state, const void*, std::int32_t gradient,
                   std::int64_t count, const HeadroomAdamW*) {
    // With a master copy, parameters are only written.
    const std::int64_t weights = master != nullptr
                                     ? 2 * stat_bytes(type, count) + bytes_of(type, count)
                                     : 2 * bytes_of(type, count);
    return traffic(d, stream, weights + 4 * bytes_of(state, count) + bytes_of(gradient, count),
                   TrafficKind::kFusedStep);
  };
  table.adamw_8bit = [](HeadroomDevice* d, HeadroomStream stream, void*, std::int32_t type,
                        void* master, std::uint8_t*, std::uint8_t*, float*, float*, const float*,
                        const float*, const void*, std::int32_t gradient, std::int64_t count,
                        const HeadroomAdamW*) {
    const std::int64_t weights = master != nullptr
                                     ? 2 * stat_bytes(type, count) + bytes_of(type, count)
                                     : 2 * bytes_of(type, count);
    return traffic(d, stream, weights + 4 * count + bytes_of(gradient, count),
                   TrafficKind::kQuantisedStep);
  };
}

void add_expert_kernels(HeadroomDeviceTable& table) {
  table.gather_rows = [](HeadroomDevice* d, HeadroomStream stream, void*, const void*,
                         const std::int32_t*, std::int32_t type, std::int64_t rows,
                         std::int64_t columns) {
    return traffic(d, stream, 2 * bytes_of(type, rows * columns), TrafficKind::kPermutation);
  };
  table.gather_rows_backward = [](HeadroomDevice* d, HeadroomStream stream, void*, const void*,
                                  const std::int32_t*, std::int32_t type, std::int64_t tokens,
                                  std::int64_t top_k, std::int64_t columns) {
    return traffic(d, stream, bytes_of(type, (top_k + 1) * tokens * columns),
                   TrafficKind::kPermutation);
  };
  table.combine_rows = [](HeadroomDevice* d, HeadroomStream stream, void*, const void*, const void*,
                          const std::int32_t*, std::int32_t type, std::int64_t tokens,
                          std::int64_t top_k, std::int64_t columns) {
    return traffic(d, stream, bytes_of(type, (top_k + 1) * tokens * columns),
                   TrafficKind::kPermutation);
  };
  table.combine_rows_backward = [](HeadroomDevice* d, HeadroomStream stream, void*, void*,
                                   const void*, const void*, const void*, const std::int32_t*,
                                   std::int32_t type, std::int64_t tokens, std::int64_t top_k,
                                   std::int64_t columns) {
    return traffic(d, stream, bytes_of(type, (2 * top_k + 1) * tokens * columns),
                   TrafficKind::kPermutation);
  };
}

}  // namespace

void add_recorded_kernels(HeadroomDeviceTable& table) {
  table.gemm = gemm;
  table.gemm_grouped = gemm_grouped;
  table.largest_magnitude = [](HeadroomDevice* d, HeadroomStream stream, void*, std::int32_t,
                               const void*, std::int32_t type, std::int64_t count,
                               void*) { return traffic(d, stream, bytes_of(type, count)); };
  table.quantise = [](HeadroomDevice* d, HeadroomStream stream, std::uint8_t* out,
                      std::uint8_t* transposed, void*, const void*, std::int32_t type,
                      std::int64_t rows, std::int64_t columns, const void*, std::int32_t) {
    const std::int64_t written = (out != nullptr ? 1 : 0) + (transposed != nullptr ? 1 : 0);
    return traffic(d, stream, bytes_of(type, rows * columns) + written * rows * columns);
  };
  table.attention = attention;
  table.attention_backward = attention_backward;
  add_memory_kernels(table);
  add_layer_kernels(table);
  add_end_kernels(table);
  add_expert_kernels(table);
}

}  // namespace headroom::exec
