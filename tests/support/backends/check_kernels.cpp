// Checks of making data, elementwise kernels, norms and attention.
#include <cstdint>

#include "tests/support/backends/call_check.h"

namespace headroom::test {
namespace {

using Table = HeadroomDeviceTable;

std::int32_t fill(HeadroomDevice* d, HeadroomStream stream, void* out, std::int32_t type,
                  std::int64_t count, double value) {
  return CallCheck(d, "fill", stream)
      .kernel()
      .uses(out, count, type)
      .run(&Table::fill, stream, out, type, count, value);
}

std::int32_t random_normal(HeadroomDevice* d, HeadroomStream stream, void* out, std::int32_t type,
                           std::int64_t begin, std::int64_t count, std::int64_t columns,
                           std::int64_t row_offset, std::int64_t column_offset,
                           std::int64_t whole_columns, std::uint64_t seed, double mean,
                           double deviation) {
  return CallCheck(d, "random_normal", stream)
      .kernel()
      .uses(out, count, type)
      .run(&Table::random_normal, stream, out, type, begin, count, columns, row_offset,
           column_offset, whole_columns, seed, mean, deviation);
}

std::int32_t random_tokens(HeadroomDevice* d, HeadroomStream stream, std::int32_t* out,
                           std::int64_t begin, std::int64_t count, std::int64_t limit,
                           std::uint64_t seed) {
  return CallCheck(d, "random_tokens", stream)
      .kernel()
      .uses(out, count, HEADROOM_INT32)
      .run(&Table::random_tokens, stream, out, begin, count, limit, seed);
}

std::int32_t cast(HeadroomDevice* d, HeadroomStream stream, void* to, std::int32_t to_type,
                  const void* from, std::int32_t from_type, std::int64_t count) {
  return CallCheck(d, "cast", stream)
      .kernel()
      .uses(to, count, to_type)
      .uses(from, count, from_type)
      .run(&Table::cast, stream, to, to_type, from, from_type, count);
}

std::int32_t add(HeadroomDevice* d, HeadroomStream stream, void* out, const void* a, const void* b,
                 std::int32_t type, std::int64_t count) {
  return CallCheck(d, "add", stream)
      .kernel()
      .uses(out, count, type)
      .uses(a, count, type)
      .uses(b, count, type)
      .run(&Table::add, stream, out, a, b, type, count);
}

std::int32_t accumulate(HeadroomDevice* d, HeadroomStream stream, void* to, std::int32_t to_type,
                        const void* from, std::int32_t from_type, std::int64_t count,
                        double factor) {
  return CallCheck(d, "accumulate", stream)
      .kernel()
      .uses(to, count, to_type)
      .uses(from, count, from_type)
      .run(&Table::accumulate, stream, to, to_type, from, from_type, count, factor);
}

std::int32_t scale(HeadroomDevice* d, HeadroomStream stream, void* x, std::int32_t type,
                   std::int64_t count, double factor) {
  return CallCheck(d, "scale", stream)
      .kernel()
      .uses(x, count, type)
      .run(&Table::scale, stream, x, type, count, factor);
}

std::int32_t add_bias(HeadroomDevice* d, HeadroomStream stream, void* x, std::int64_t x_row,
                      const void* bias, std::int32_t type, std::int64_t rows,
                      std::int64_t columns) {
  return CallCheck(d, "add_bias", stream)
      .kernel()
      .rows(x, rows, x_row, columns, type)
      .uses(bias, columns, type)
      .run(&Table::add_bias, stream, x, x_row, bias, type, rows, columns);
}

std::int32_t column_sum(HeadroomDevice* d, HeadroomStream stream, void* sum, std::int32_t sum_type,
                        const void* x, std::int64_t x_row, std::int32_t type, std::int64_t rows,
                        std::int64_t columns, void* partial) {
  return CallCheck(d, "column_sum", stream)
      .kernel()
      .uses(sum, columns, sum_type)
      .rows(x, rows, x_row, columns, type)
      .uses(partial, HEADROOM_PARTIAL_ROWS * columns, stat_of(type))
      .run(&Table::column_sum, stream, sum, sum_type, x, x_row, type, rows, columns, partial);
}

std::int32_t activation(HeadroomDevice* d, HeadroomStream stream, void* out, const void* x,
                        std::int32_t type, std::int64_t count, std::int32_t function) {
  return CallCheck(d, "activation", stream)
      .kernel()
      .uses(out, count, type)
      .uses(x, count, type)
      .run(&Table::activation, stream, out, x, type, count, function);
}

std::int32_t activation_backward(HeadroomDevice* d, HeadroomStream stream, void* dx,
                                 const void* dout, const void* x, std::int32_t type,
                                 std::int64_t count, std::int32_t function) {
  return CallCheck(d, "activation_backward", stream)
      .kernel()
      .uses(dx, count, type)
      .uses(dout, count, type)
      .uses(x, count, type)
      .run(&Table::activation_backward, stream, dx, dout, x, type, count, function);
}

std::int32_t gated(HeadroomDevice* d, HeadroomStream stream, void* out, const void* gate,
                   const void* up, std::int64_t in_row, std::int32_t type, std::int64_t rows,
                   std::int64_t columns, std::int32_t function) {
  return CallCheck(d, "gated", stream)
      .kernel()
      .uses(out, rows * columns, type)
      .rows(gate, rows, in_row, columns, type)
      .rows(up, rows, in_row, columns, type)
      .run(&Table::gated, stream, out, gate, up, in_row, type, rows, columns, function);
}

std::int32_t gated_backward(HeadroomDevice* d, HeadroomStream stream, void* dgate, void* dup,
                            const void* dout, const void* gate, const void* up, std::int64_t in_row,
                            std::int32_t type, std::int64_t rows, std::int64_t columns,
                            std::int32_t function) {
  return CallCheck(d, "gated_backward", stream)
      .kernel()
      .rows(dgate, rows, in_row, columns, type)
      .rows(dup, rows, in_row, columns, type)
      .uses(dout, rows * columns, type)
      .rows(gate, rows, in_row, columns, type)
      .rows(up, rows, in_row, columns, type)
      .run(&Table::gated_backward, stream, dgate, dup, dout, gate, up, in_row, type, rows, columns,
           function);
}

std::int32_t embedding(HeadroomDevice* d, HeadroomStream stream, void* out, const void* table,
                       std::int32_t type, const std::int32_t* ids, std::int64_t tokens,
                       std::int64_t columns, std::int64_t first, std::int64_t table_rows) {
  return CallCheck(d, "embedding", stream)
      .kernel()
      .uses(out, tokens * columns, type)
      .uses(table, table_rows * columns, type)
      .uses(ids, tokens, HEADROOM_INT32)
      .run(&Table::embedding, stream, out, table, type, ids, tokens, columns, first, table_rows);
}

std::int32_t embedding_backward(HeadroomDevice* d, HeadroomStream stream, void* dtable,
                                std::int32_t dtable_type, const void* dout, std::int32_t type,
                                const std::int32_t* ids, std::int64_t tokens, std::int64_t columns,
                                std::int64_t first, std::int64_t table_rows) {
  return CallCheck(d, "embedding_backward", stream)
      .kernel()
      .uses(dtable, table_rows * columns, dtable_type)
      .uses(dout, tokens * columns, type)
      .uses(ids, tokens, HEADROOM_INT32)
      .run(&Table::embedding_backward, stream, dtable, dtable_type, dout, type, ids, tokens,
           columns, first, table_rows);
}

std::int32_t add_positions(HeadroomDevice* d, HeadroomStream stream, void* x, const void* table,
                           std::int32_t type, std::int64_t tokens, std::int64_t columns,
                           std::int64_t sequence) {
  return CallCheck(d, "add_positions", stream)
      .kernel()
      .uses(x, tokens * columns, type)
      .uses(table, sequence * columns, type)
      .run(&Table::add_positions, stream, x, table, type, tokens, columns, sequence);
}

std::int32_t add_positions_backward(HeadroomDevice* d, HeadroomStream stream, void* dtable,
                                    std::int32_t dtable_type, const void* dout, std::int32_t type,
                                    std::int64_t tokens, std::int64_t columns,
                                    std::int64_t sequence) {
  return CallCheck(d, "add_positions_backward", stream)
      .kernel()
      .uses(dtable, sequence * columns, dtable_type)
      .uses(dout, tokens * columns, type)
      .run(&Table::add_positions_backward, stream, dtable, dtable_type, dout, type, tokens, columns,
           sequence);
}

std::int32_t norm(HeadroomDevice* d, HeadroomStream stream, std::int32_t kind, void* y,
                  std::int64_t y_row, void* mean, void* rstd, const void* x, std::int64_t x_row,
                  const void* weight, const void* bias, std::int32_t type, std::int64_t rows,
                  std::int64_t columns, double epsilon) {
  return CallCheck(d, "norm", stream)
      .kernel()
      .rows(y, rows, y_row, columns, type)
      .may_use(mean, rows, stat_of(type))
      .uses(rstd, rows, stat_of(type))
      .rows(x, rows, x_row, columns, type)
      .uses(weight, columns, type)
      .may_use(bias, columns, type)
      .run(&Table::norm, stream, kind, y, y_row, mean, rstd, x, x_row, weight, bias, type, rows,
           columns, epsilon);
}

std::int32_t norm_backward(HeadroomDevice* d, HeadroomStream stream, std::int32_t kind, void* dx,
                           void* dweight, void* dbias, std::int32_t gradient_type, const void* dy,
                           std::int64_t dy_row, const void* x, std::int64_t x_row,
                           const void* weight, const void* mean, const void* rstd,
                           std::int32_t type, std::int64_t rows, std::int64_t columns,
                           void* partial) {
  return CallCheck(d, "norm_backward", stream)
      .kernel()
      .rows(dx, rows, dy_row, columns, type)
      .may_use(dweight, columns, gradient_type)
      .may_use(dbias, columns, gradient_type)
      .rows(dy, rows, dy_row, columns, type)
      .rows(x, rows, x_row, columns, type)
      .uses(weight, columns, type)
      .may_use(mean, rows, stat_of(type))
      .uses(rstd, rows, stat_of(type))
      .uses(partial, 2 * HEADROOM_PARTIAL_ROWS * columns, stat_of(type))
      .run(&Table::norm_backward, stream, kind, dx, dweight, dbias, gradient_type, dy, dy_row, x,
           x_row, weight, mean, rstd, type, rows, columns, partial);
}

std::int32_t rope_table(HeadroomDevice* d, HeadroomStream stream, void* table, std::int32_t type,
                        std::int64_t positions, std::int64_t rotated, double theta) {
  return CallCheck(d, "rope_table", stream)
      .kernel()
      .uses(table, positions * rotated, type)
      .run(&Table::rope_table, stream, table, type, positions, rotated, theta);
}

std::int32_t rope(HeadroomDevice* d, HeadroomStream stream, void* x, std::int64_t x_row,
                  const void* table, std::int32_t type, std::int64_t tokens, std::int64_t sequence,
                  std::int64_t heads, std::int64_t head_dim, std::int64_t rotated,
                  std::int32_t interleaved, std::int32_t inverse) {
  return CallCheck(d, "rope", stream)
      .kernel()
      .rows(x, tokens, x_row, heads * head_dim, type)
      .uses(table, sequence * rotated, stat_of(type))
      .run(&Table::rope, stream, x, x_row, table, type, tokens, sequence, heads, head_dim, rotated,
           interleaved, inverse);
}

std::int32_t causal_softmax(HeadroomDevice* d, HeadroomStream stream, void* probabilities,
                            const void* scores, std::int32_t type, std::int64_t rows,
                            std::int64_t queries, std::int64_t keys, std::int64_t window,
                            double scale) {
  return CallCheck(d, "causal_softmax", stream)
      .kernel()
      .uses(probabilities, rows * keys, type)
      .uses(scores, rows * keys, type)
      .run(&Table::causal_softmax, stream, probabilities, scores, type, rows, queries, keys, window,
           scale);
}

std::int32_t softmax_backward(HeadroomDevice* d, HeadroomStream stream, void* dscores,
                              const void* dprobabilities, const void* probabilities,
                              std::int32_t type, std::int64_t rows, std::int64_t keys,
                              double scale) {
  return CallCheck(d, "softmax_backward", stream)
      .kernel()
      .uses(dscores, rows * keys, type)
      .uses(dprobabilities, rows * keys, type)
      .uses(probabilities, rows * keys, type)
      .run(&Table::softmax_backward, stream, dscores, dprobabilities, probabilities, type, rows,
           keys, scale);
}

void uses_attention(CallCheck& check, const HeadroomAttention& a) {
  const std::int64_t tokens = a.batch * a.sequence;
  const std::int64_t width = a.heads * a.head_dim;
  const std::int64_t kv_width = a.kv_heads * a.head_dim;
  check.rows(a.q, tokens, a.q_row, width, a.type)
      .rows(a.k, tokens, a.k_row, kv_width, a.type)
      .rows(a.v, tokens, a.v_row, kv_width, a.type)
      .rows(a.out, tokens, a.out_row, width, a.type)
      .uses(a.log_sum, tokens * a.heads, stat_of(a.type));
}

std::int32_t attention(HeadroomDevice* d, HeadroomStream stream, const HeadroomAttention* a) {
  CallCheck check(d, "attention", stream);
  uses_attention(check.kernel(), *a);
  return check.run(&Table::attention, stream, a);
}

std::int32_t attention_backward(HeadroomDevice* d, HeadroomStream stream,
                                const HeadroomAttention* call) {
  const HeadroomAttention& a = *call;
  const std::int64_t tokens = a.batch * a.sequence;
  const std::int64_t width = a.heads * a.head_dim;
  const std::int64_t kv_width = a.kv_heads * a.head_dim;
  CallCheck check(d, "attention_backward", stream);
  uses_attention(check.kernel(), a);
  check.rows(a.dout, tokens, a.dout_row, width, a.type)
      .rows(a.dq, tokens, a.dq_row, width, a.type)
      .rows(a.dk, tokens, a.dk_row, kv_width, a.type)
      .rows(a.dv, tokens, a.dv_row, kv_width, a.type)
      .uses(a.delta, tokens * a.heads, stat_of(a.type))
      .uses(a.accumulator, tokens * width, stat_of(a.type));
  return check.run(&Table::attention_backward, stream, call);
}

}  // namespace

void check_kernels(HeadroomDeviceTable& table) {
  table.fill = fill;
  table.random_normal = random_normal;
  table.random_tokens = random_tokens;
  table.cast = cast;
  table.add = add;
  table.accumulate = accumulate;
  table.scale = scale;
  table.add_bias = add_bias;
  table.column_sum = column_sum;
  table.activation = activation;
  table.activation_backward = activation_backward;
  table.gated = gated;
  table.gated_backward = gated_backward;
  table.embedding = embedding;
  table.embedding_backward = embedding_backward;
  table.add_positions = add_positions;
  table.add_positions_backward = add_positions_backward;
  table.norm = norm;
  table.norm_backward = norm_backward;
  table.rope_table = rope_table;
  table.rope = rope;
  table.causal_softmax = causal_softmax;
  table.softmax_backward = softmax_backward;
  table.attention = attention;
  table.attention_backward = attention_backward;
}

}  // namespace headroom::test
