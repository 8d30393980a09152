// Rotary embedding and attention.

#include "validators/executor/operators.h"

#include <array>
#include <vector>

namespace headroom::exec {
namespace {

using Table = HeadroomDeviceTable;

void rotate(const Context& context, const RopeSpec& spec, const Tensor& x, std::int64_t sequence,
            std::int64_t head_dim, bool inverse) {
  context.device.run(&Table::rope, kComputeStream, x.data(), x.columns,
                     static_cast<const void*>(spec.table.data()), code_of(x.type), x.rows, sequence,
                     x.columns / head_dim, head_dim, spec.rotated, spec.interleaved ? 1 : 0,
                     inverse ? 1 : 0);
}

HeadroomAttention attention_call(const AttentionSizes& sizes, const Tensor& q, const Tensor& k,
                                 const Tensor& v, const Tensor& out, const Tensor& log_sum) {
  HeadroomAttention call{};
  call.batch = sizes.batch;
  call.sequence = sizes.sequence;
  call.heads = sizes.heads;
  call.kv_heads = sizes.kv_heads;
  call.head_dim = sizes.head_dim;
  call.window = sizes.window;
  call.scale = sizes.scale;
  call.type = code_of(q.type);
  call.q = q.data();
  call.k = k.data();
  call.v = v.data();
  call.q_row = q.columns;
  call.k_row = k.columns;
  call.v_row = v.columns;
  call.out = out.data();
  call.out_row = out.columns;
  call.log_sum = log_sum.data();
  return call;
}

/// An operand of the products of all heads: matrix (b, a) of [B, S, heads, D] or of [B, A, S, S].
struct HeadMatrix {
  void* data = nullptr;
  std::int64_t row = 0;
  std::int64_t outer = 0;
  std::int64_t inner = 0;
  bool transposed = false;
};

/// One head of every KV group of [B, S, heads, D]: heads `first`, `first + group`, ...
HeadMatrix heads_of(const Tensor& x, const AttentionSizes& sizes, std::int64_t first,
                    std::int64_t group, bool transposed) {
  return {.data = x.view(first * sizes.head_dim, 1, 1).data(),
          .row = x.columns,
          .outer = sizes.sequence * x.columns,
          .inner = group * sizes.head_dim,
          .transposed = transposed};
}

HeadMatrix scores_of(const Tensor& x, const AttentionSizes& sizes, std::int64_t first,
                     std::int64_t group, bool transposed) {
  const std::int64_t square = sizes.sequence * sizes.sequence;
  return {.data = x.view(first * square, 1, 1).data(),
          .row = sizes.sequence,
          .outer = sizes.heads * square,
          .inner = group * square,
          .transposed = transposed};
}

/// C = A B + beta C for the matrices of all batches and KV heads. A and B may be any of the two
/// kinds; `n` and `k` are the sizes that are not S.
void head_product(const Context& context, const AttentionSizes& sizes, const HeadMatrix& c,
                  const HeadMatrix& a, const HeadMatrix& b, std::int64_t n, std::int64_t k,
                  double beta) {
  HeadroomGemm gemm{};
  gemm.m = sizes.sequence;
  gemm.n = n;
  gemm.k = k;
  gemm.transpose_a = a.transposed ? 1 : 0;
  gemm.transpose_b = b.transposed ? 1 : 0;
  gemm.type = code_of(context.types.compute);
  gemm.output_type = gemm.type;
  gemm.math = context.types.math;
  gemm.alpha = 1;
  gemm.beta = beta;
  gemm.a = a.data;
  gemm.b = b.data;
  gemm.c = c.data;
  gemm.a_row = a.row;
  gemm.b_row = b.row;
  gemm.c_row = c.row;
  gemm.outer = sizes.batch;
  gemm.inner = sizes.kv_heads;
  gemm.a_outer = a.outer;
  gemm.a_inner = a.inner;
  gemm.b_outer = b.outer;
  gemm.b_inner = b.inner;
  gemm.c_outer = c.outer;
  gemm.c_inner = c.inner;
  gemm.workspace = context.workspace.data();
  context.device.run(&Table::gemm, kComputeStream, &gemm);
}

void eager_backward(Tape& tape, const AttentionSizes& sizes, const std::vector<Tensor>& saved,
                    const Tensor& dout, const std::array<Slot, 3>& slots) {
  const Context& context = tape.context();
  const Tensor& q = saved[0];
  const Tensor& k = saved[1];
  const Tensor& v = saved[2];
  const Tensor& p = saved[3];
  const std::int64_t group = sizes.heads / sizes.kv_heads;
  const std::int64_t s = sizes.sequence;
  const std::int64_t d = sizes.head_dim;
  const Tensor dv = context.make(v.rows, v.columns);
  const Tensor dp = context.make(p.rows, p.columns);
  for (std::int64_t head = 0; head < group; ++head) {
    const double beta = head == 0 ? 0 : 1;
    head_product(context, sizes, heads_of(dv, sizes, 0, 1, false),
                 scores_of(p, sizes, head, group, true), heads_of(dout, sizes, head, group, false),
                 d, s, beta);
    head_product(context, sizes, scores_of(dp, sizes, head, group, false),
                 heads_of(dout, sizes, head, group, false), heads_of(v, sizes, 0, 1, true), s, d,
                 0);
  }
  tape.add(slots[2], dv);
  context.device.run(&Table::softmax_backward, kComputeStream, dp.data(), dp.data(), p.data(),
                     code_of(p.type), p.rows, p.columns, sizes.scale);
  const Tensor dq = context.make(q.rows, q.columns);
  const Tensor dk = context.make(k.rows, k.columns);
  for (std::int64_t head = 0; head < group; ++head) {
    const double beta = head == 0 ? 0 : 1;
    head_product(context, sizes, heads_of(dq, sizes, head, group, false),
                 scores_of(dp, sizes, head, group, false), heads_of(k, sizes, 0, 1, false), d, s,
                 0);
    head_product(context, sizes, heads_of(dk, sizes, 0, 1, false),
                 scores_of(dp, sizes, head, group, true), heads_of(q, sizes, head, group, false), d,
                 s, beta);
  }
  tape.add(slots[0], dq);
  tape.add(slots[1], dk);
}

}  // namespace

Var rope(Tape& tape, const RopeSpec& spec, const Var& x, std::int64_t sequence,
         std::int64_t head_dim) {
  const Context& context = tape.context();
  context.begin("rope");
  const Var out = tape.variable(x.tensor);
  rotate(context, spec, x.tensor, sequence, head_dim, false);
  tape.record("rope", {}, [spec, sequence, head_dim, in = x.slot, slot = out.slot](Tape& t, auto&) {
    Tensor dout = t.take(slot);
    if (dout.empty()) {
      return;
    }
    rotate(t.context(), spec, dout, sequence, head_dim, true);
    t.add(in, dout);
  });
  return out;
}

Var flash_attention(Tape& tape, const AttentionSizes& sizes, const Var& q, const Var& k,
                    const Var& v) {
  const Context& context = tape.context();
  context.begin("attention");
  const Var out = tape.variable(context.make(q.tensor.rows, q.tensor.columns));
  const Tensor log_sum = context.make(sizes.batch * sizes.heads, sizes.sequence,
                                      context.types.stat(), ir::TensorRole::kActivation);
  const HeadroomAttention forward =
      attention_call(sizes, q.tensor, k.tensor, v.tensor, out.tensor, log_sum);
  context.device.run(&Table::attention, kComputeStream, &forward);
  tape.record(
      "attention", {q.tensor, k.tensor, v.tensor, out.tensor, log_sum},
      [sizes, q = q.slot, k = k.slot, v = v.slot, slot = out.slot](Tape& t, Tape::Node& node) {
        const Tensor dout = t.take(slot);
        if (dout.empty()) {
          return;
        }
        const Context& c = t.context();
        const std::vector<Tensor>& saved = node.saved;
        const ir::DType stat = c.types.stat();
        const Tensor dq = c.make(saved[0].rows, saved[0].columns);
        const Tensor dk = c.make(saved[1].rows, saved[1].columns);
        const Tensor dv = c.make(saved[2].rows, saved[2].columns);
        const Tensor delta =
            c.make(saved[4].rows, saved[4].columns, stat, ir::TensorRole::kTemporary);
        const Tensor sums =
            c.make(saved[0].rows, saved[0].columns, stat, ir::TensorRole::kTemporary);
        HeadroomAttention call =
            attention_call(sizes, saved[0], saved[1], saved[2], saved[3], saved[4]);
        call.dout = dout.data();
        call.dout_row = dout.columns;
        call.dq = dq.data();
        call.dk = dk.data();
        call.dv = dv.data();
        call.dq_row = dq.columns;
        call.dk_row = dk.columns;
        call.dv_row = dv.columns;
        call.delta = delta.data();
        call.accumulator = sums.data();
        const HeadroomAttention* const backward = &call;
        c.device.run(&Table::attention_backward, kComputeStream, backward);
        t.add(q, dq);
        t.add(k, dk);
        t.add(v, dv);
      });
  return out;
}

Var eager_attention(Tape& tape, const AttentionSizes& sizes, const Var& q, const Var& k,
                    const Var& v) {
  const Context& context = tape.context();
  context.begin("attention");
  const std::int64_t s = sizes.sequence;
  const std::int64_t d = sizes.head_dim;
  const std::int64_t group = sizes.heads / sizes.kv_heads;
  const Tensor p = context.make(sizes.batch * sizes.heads * s, s);
  for (std::int64_t head = 0; head < group; ++head) {
    head_product(context, sizes, scores_of(p, sizes, head, group, false),
                 heads_of(q.tensor, sizes, head, group, false),
                 heads_of(k.tensor, sizes, 0, 1, true), s, d, 0);
  }
  context.device.run(&Table::causal_softmax, kComputeStream, p.data(), p.data(), code_of(p.type),
                     p.rows, s, s, sizes.window, sizes.scale);
  const Var out = tape.variable(context.make(q.tensor.rows, q.tensor.columns));
  for (std::int64_t head = 0; head < group; ++head) {
    head_product(context, sizes, heads_of(out.tensor, sizes, head, group, false),
                 scores_of(p, sizes, head, group, false), heads_of(v.tensor, sizes, 0, 1, false), d,
                 s, 0);
  }
  tape.record("attention", {q.tensor, k.tensor, v.tensor, p},
              [sizes, slots = std::array<Slot, 3>{q.slot, k.slot, v.slot}, slot = out.slot](
                  Tape& t, Tape::Node& node) {
                const Tensor dout = t.take(slot);
                if (!dout.empty()) {
                  eager_backward(t, sizes, node.saved, dout, slots);
                }
              });
  return out;
}

}  // namespace headroom::exec
