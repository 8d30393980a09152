#include "validators/executor/operators.h"

#include <utility>

#include "model_ir/base/check.h"

namespace headroom::exec {
namespace {

using Table = HeadroomDeviceTable;

Tensor partial_rows(const Context& context, std::int64_t outputs, std::int64_t columns) {
  return context.make(outputs * HEADROOM_PARTIAL_ROWS, columns, context.types.stat(),
                      ir::TensorRole::kTemporary);
}

}  // namespace

void add_column_sum(const Context& context, const Tensor& sum, const Tensor& x) {
  const Tensor partial = partial_rows(context, 1, x.columns);
  context.device.run(&Table::column_sum, kComputeStream, sum.data(), code_of(sum.type), x.data(),
                     x.columns, code_of(x.type), x.rows, x.columns, partial.data());
}

void add_bias_rows(const Context& context, const Tensor& x, const Tensor& bias) {
  context.device.run(&Table::add_bias, kComputeStream, x.data(), x.columns, bias.data(),
                     code_of(x.type), x.rows, x.columns);
}

void product(const Context& context, const Tensor& c, const Tensor& a, bool transpose_a,
             const Tensor& b, bool transpose_b, double beta) {
  HeadroomGemm gemm{};
  gemm.m = c.rows;
  gemm.n = c.columns;
  gemm.k = transpose_a ? a.rows : a.columns;
  HEADROOM_ASSERT((transpose_b ? b.columns : b.rows) == gemm.k);
  HEADROOM_ASSERT((transpose_a ? a.columns : a.rows) == gemm.m);
  HEADROOM_ASSERT((transpose_b ? b.rows : b.columns) == gemm.n);
  gemm.transpose_a = transpose_a ? 1 : 0;
  gemm.transpose_b = transpose_b ? 1 : 0;
  gemm.type = code_of(a.type);
  gemm.output_type = code_of(c.type);
  gemm.math = context.types.math;
  gemm.alpha = 1;
  gemm.beta = beta;
  gemm.a = a.data();
  gemm.b = b.data();
  gemm.c = c.data();
  gemm.a_row = a.columns;
  gemm.b_row = b.columns;
  gemm.c_row = c.columns;
  gemm.outer = 1;
  gemm.inner = 1;
  gemm.workspace = context.workspace.data();
  context.device.run(&Table::gemm, kComputeStream, &gemm);
}

Var embedding(Tape& tape, const Tensor& ids, const Weight& table, std::int64_t first) {
  const Context& context = tape.context();
  context.begin("embedding");
  const Tensor rows = table.value();
  const Var out = tape.variable(context.make(ids.elements(), rows.columns));
  context.device.run(&Table::embedding, kComputeStream, out.tensor.data(), rows.data(),
                     code_of(rows.type), ids.as<std::int32_t>(), ids.elements(), rows.columns,
                     first, rows.rows);
  tape.record("embedding", {ids}, [table, first, slot = out.slot](Tape& t, Tape::Node& node) {
    const Tensor dout = t.take(slot);
    if (dout.empty()) {
      return;
    }
    const Tensor dtable = table.gradient();
    t.context().device.run(&Table::embedding_backward, kComputeStream, dtable.data(),
                           code_of(dtable.type), dout.data(), code_of(dout.type),
                           node.saved[0].as<std::int32_t>(), dout.rows, dout.columns, first,
                           dtable.rows);
  });
  return out;
}

Var add_positions(Tape& tape, const Var& x, const Weight& table, std::int64_t sequence) {
  const Context& context = tape.context();
  context.begin("positions");
  const Tensor rows = table.value();
  HEADROOM_ASSERT(sequence <= rows.rows);
  const Var out = tape.variable(x.tensor);
  context.device.run(&Table::add_positions, kComputeStream, x.tensor.data(), rows.data(),
                     code_of(rows.type), x.tensor.rows, rows.columns, sequence);
  tape.record("positions", {}, [table, sequence, in = x.slot, slot = out.slot](Tape& t, auto&) {
    const Tensor dout = t.take(slot);
    if (dout.empty()) {
      return;
    }
    const Tensor dtable = table.gradient();
    t.context().device.run(&Table::add_positions_backward, kComputeStream, dtable.data(),
                           code_of(dtable.type), dout.data(), code_of(dout.type), dout.rows,
                           dout.columns, sequence);
    t.add(in, dout);
  });
  return out;
}

Var norm(Tape& tape, const NormSpec& spec, const Var& x, const Weight& weight, const Weight& bias) {
  const Context& context = tape.context();
  context.begin("norm");
  const Tensor scale = weight.value();
  const std::int64_t columns = scale.elements();
  const std::int64_t rows = x.tensor.elements() / columns;
  const ir::DType stat = context.types.stat();
  const Var out = tape.variable(context.make(x.tensor.rows, x.tensor.columns));
  const Tensor rstd = context.make(1, rows, stat, ir::TensorRole::kActivation);
  const Tensor mean = spec.kind == HEADROOM_LAYER_NORM
                          ? context.make(1, rows, stat, ir::TensorRole::kActivation)
                          : Tensor{};
  const Tensor shift = bias.empty() ? Tensor{} : bias.value();
  context.device.run(&Table::norm, kComputeStream, static_cast<std::int32_t>(spec.kind),
                     out.tensor.data(), columns, mean.data(), rstd.data(), x.tensor.data(), columns,
                     scale.data(), shift.data(), code_of(x.tensor.type), rows, columns,
                     spec.epsilon);
  tape.record("norm", {x.tensor, rstd, mean},
              [spec, weight, bias, in = x.slot, slot = out.slot](Tape& t, Tape::Node& node) {
                const Tensor dy = t.take(slot);
                if (dy.empty()) {
                  return;
                }
                const Context& c = t.context();
                const Tensor factors = weight.value();
                const std::int64_t width = factors.elements();
                const Tensor dscale = weight.gradient();
                const Tensor dshift = bias.empty() ? Tensor{} : bias.gradient();
                const Tensor partial = partial_rows(c, 2, width);
                const Tensor dx = dy.is_alone() ? dy : c.make(dy.rows, dy.columns);
                c.device.run(&Table::norm_backward, kComputeStream,
                             static_cast<std::int32_t>(spec.kind), dx.data(), dscale.data(),
                             dshift.data(), code_of(dscale.type), dy.data(), width,
                             node.saved[0].data(), width, factors.data(), node.saved[2].data(),
                             node.saved[1].data(), code_of(dy.type), dy.elements() / width, width,
                             partial.data());
                t.add(in, dx);
              });
  return out;
}

Var linear(Tape& tape, const Var& x, const Weight& weight, const Weight& bias) {
  const Context& context = tape.context();
  context.begin("linear");
  const Tensor w = weight.value();
  const Var out = tape.variable(context.make(x.tensor.rows, w.rows));
  product(context, out.tensor, x.tensor, false, w, true);
  if (!bias.empty()) {
    add_bias_rows(context, out.tensor, bias.value());
  }
  tape.record("linear", {x.tensor},
              [weight, bias, in = x.slot, slot = out.slot](Tape& t, Tape::Node& node) {
                const Tensor dy = t.take(slot);
                if (dy.empty()) {
                  return;
                }
                const Context& c = t.context();
                const Tensor& input = node.saved[0];
                if (!bias.empty()) {
                  add_column_sum(c, bias.gradient(), dy);
                }
                product(c, weight.gradient(), dy, true, input, false, 1);
                if (in == Slot::kNone) {
                  return;
                }
                // The gradients of several readers of x are summed by the product itself.
                const Tensor sum = t.to_add_to(in);
                if (!sum.empty()) {
                  product(c, sum, dy, false, weight.value(), false, 1);
                  return;
                }
                const Tensor dx = c.make(input.rows, input.columns);
                product(c, dx, dy, false, weight.value(), false);
                t.add(in, dx);
              });
  return out;
}

Var add(Tape& tape, const Var& a, const Var& b) {
  const Context& context = tape.context();
  context.begin("add");
  const Var out = tape.variable(context.make(a.tensor.rows, a.tensor.columns));
  context.device.run(&Table::add, kComputeStream, out.tensor.data(), a.tensor.data(),
                     b.tensor.data(), code_of(a.tensor.type), a.tensor.elements());
  tape.record("add", {}, [first = a.slot, second = b.slot, slot = out.slot](Tape& t, auto&) {
    const Tensor dout = t.take(slot);
    t.add(first, dout);
    t.add(second, dout);
  });
  return out;
}

Var add_bias(Tape& tape, const Var& x, const Weight& bias) {
  if (bias.empty()) {
    return x;
  }
  const Context& context = tape.context();
  context.begin("bias");
  const Var out = tape.variable(x.tensor);
  add_bias_rows(context, x.tensor, bias.value());
  tape.record("bias", {}, [bias, in = x.slot, slot = out.slot](Tape& t, auto&) {
    const Tensor dout = t.take(slot);
    if (!dout.empty()) {
      add_column_sum(t.context(), bias.gradient(), dout);
      t.add(in, dout);
    }
  });
  return out;
}

Var activation(Tape& tape, const Var& x, HeadroomActivation function) {
  const Context& context = tape.context();
  context.begin("activation");
  const Var out = tape.variable(context.make(x.tensor.rows, x.tensor.columns));
  const auto code = static_cast<std::int32_t>(function);
  context.device.run(&Table::activation, kComputeStream, out.tensor.data(), x.tensor.data(),
                     code_of(x.tensor.type), x.tensor.elements(), code);
  tape.record("activation", {x.tensor},
              [code, in = x.slot, slot = out.slot](Tape& t, Tape::Node& node) {
                const Tensor dout = t.take(slot);
                if (dout.empty()) {
                  return;
                }
                const Context& c = t.context();
                const Tensor dx = dout.is_alone() ? dout : c.make(dout.rows, dout.columns);
                c.device.run(&Table::activation_backward, kComputeStream, dx.data(), dout.data(),
                             node.saved[0].data(), code_of(dout.type), dout.elements(), code);
                t.add(in, dx);
              });
  return out;
}

Var gated(Tape& tape, const Var& gate, const Var& up, HeadroomActivation function) {
  const Context& context = tape.context();
  context.begin("gated");
  const Tensor& shape = gate.tensor;
  const Var out = tape.variable(context.make(shape.rows, shape.columns));
  const auto code = static_cast<std::int32_t>(function);
  context.device.run(&Table::gated, kComputeStream, out.tensor.data(), gate.tensor.data(),
                     up.tensor.data(), shape.columns, code_of(shape.type), shape.rows,
                     shape.columns, code);
  tape.record(
      "gated", {gate.tensor, up.tensor},
      [code, first = gate.slot, second = up.slot, slot = out.slot](Tape& t, Tape::Node& node) {
        const Tensor dout = t.take(slot);
        if (dout.empty()) {
          return;
        }
        const Context& c = t.context();
        const Tensor dgate = c.make(dout.rows, dout.columns);
        const Tensor dup = c.make(dout.rows, dout.columns);
        c.device.run(&Table::gated_backward, kComputeStream, dgate.data(), dup.data(), dout.data(),
                     node.saved[0].data(), node.saved[1].data(), dout.columns, code_of(dout.type),
                     dout.rows, dout.columns, code);
        t.add(first, dgate);
        t.add(second, dup);
      });
  return out;
}

void mark(Tape& tape, std::function<void()> after) {
  tape.record("mark", {}, [after = std::move(after)](Tape&, auto&) { after(); });
}

}  // namespace headroom::exec
