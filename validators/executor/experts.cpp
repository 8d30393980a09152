#include "validators/executor/experts.h"

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

namespace headroom::exec {
namespace {

using Table = HeadroomDeviceTable;

/// The rows of the sorted choices that belong to each expert.
struct Routing {
  Tensor position;                                     ///< [T, k] int32
  Tensor source;                                       ///< [1, T * k] int32
  std::shared_ptr<std::vector<std::int64_t>> offsets;  ///< E + 1
};

struct Routed {
  Var weights;  ///< [T, k] STAT
  Routing routing;
};

Routing sort_choices(const Context& context, const ExpertSpec& spec, const Tensor& chosen) {
  const std::int64_t tokens = chosen.rows;
  Routing routing{
      .position = context.make(tokens, spec.top_k, ir::DType::kInt32, ir::TensorRole::kActivation),
      .source =
          context.make(1, tokens * spec.top_k, ir::DType::kInt32, ir::TensorRole::kActivation),
      .offsets = nullptr};
  const Tensor offsets =
      context.make(1, spec.experts + 1, ir::DType::kInt64, ir::TensorRole::kTemporary);
  context.device.run(&Table::sort_by_expert, kComputeStream, routing.position.as<std::int32_t>(),
                     routing.source.as<std::int32_t>(), offsets.as<std::int64_t>(),
                     static_cast<const std::int32_t*>(chosen.data()), tokens, spec.experts,
                     spec.top_k);
  routing.offsets =
      std::make_shared<std::vector<std::int64_t>>(static_cast<std::size_t>(spec.experts + 1));
  std::memcpy(routing.offsets->data(), context.read(offsets),
              routing.offsets->size() * sizeof(std::int64_t));
  return routing;
}

Routed route(Tape& tape, const ExpertSpec& spec, const Var& logits) {
  const Context& context = tape.context();
  context.begin("route");
  const std::int64_t tokens = logits.tensor.rows;
  const ir::DType stat = context.types.stat();
  const Tensor all = context.make(tokens, spec.experts, stat, ir::TensorRole::kActivation);
  const Tensor chosen =
      context.make(tokens, spec.top_k, ir::DType::kInt32, ir::TensorRole::kActivation);
  const Var weights =
      tape.variable(context.make(tokens, spec.top_k, stat, ir::TensorRole::kActivation));
  context.device.run(&Table::route, kComputeStream, all.data(), weights.tensor.data(),
                     chosen.as<std::int32_t>(), logits.tensor.data(), code_of(logits.tensor.type),
                     tokens, spec.experts, spec.top_k, spec.normalise ? 1 : 0);
  tape.record("route", {all, chosen},
              [spec, in = logits.slot, slot = weights.slot](Tape& t, Tape::Node& node) {
                const Tensor dweights = t.take(slot);
                if (dweights.empty()) {
                  return;
                }
                const Context& c = t.context();
                const Tensor dlogits = c.make(dweights.rows, spec.experts);
                c.device.run(&Table::route_backward, kComputeStream, dlogits.data(),
                             code_of(dlogits.type), dweights.data(), node.saved[0].data(),
                             static_cast<const std::int32_t*>(node.saved[1].data()), dweights.rows,
                             spec.experts, spec.top_k, spec.normalise ? 1 : 0);
                t.add(in, dlogits);
              });
  return {.weights = weights, .routing = sort_choices(context, spec, chosen)};
}

Var gather(Tape& tape, const ExpertSpec& spec, const Routing& routing, const Var& x) {
  const Context& context = tape.context();
  context.begin("gather_rows");
  const std::int64_t rows = routing.source.elements();
  const Var out = tape.variable(context.make(rows, x.tensor.columns));
  context.device.run(&Table::gather_rows, kComputeStream, out.tensor.data(), x.tensor.data(),
                     static_cast<const std::int32_t*>(routing.source.data()),
                     code_of(x.tensor.type), rows, x.tensor.columns);
  tape.record("gather_rows", {routing.position},
              [spec, in = x.slot, slot = out.slot](Tape& t, Tape::Node& node) {
                const Tensor dout = t.take(slot);
                if (dout.empty()) {
                  return;
                }
                const Context& c = t.context();
                const Tensor dx = c.make(node.saved[0].rows, dout.columns);
                c.device.run(&Table::gather_rows_backward, kComputeStream, dx.data(), dout.data(),
                             static_cast<const std::int32_t*>(node.saved[0].data()),
                             code_of(dout.type), dx.rows, spec.top_k, dout.columns);
                t.add(in, dx);
              });
  return out;
}

struct GroupedOperands {
  Tensor c, a, b;
  bool transpose_b = false;
  bool rows_inside = false;
};

void grouped_product(const Context& context, const GroupedOperands& operands,
                     const std::vector<std::int64_t>& offsets) {
  const auto& [c, a, b, transpose_b, rows_inside] = operands;
  const auto groups = static_cast<std::int64_t>(offsets.size()) - 1;
  HeadroomGemm gemm{};
  gemm.transpose_a = rows_inside ? 1 : 0;
  gemm.transpose_b = transpose_b ? 1 : 0;
  gemm.m = rows_inside ? c.rows / groups : c.rows;
  gemm.n = c.columns;
  gemm.k = rows_inside ? a.rows : a.columns;
  gemm.type = code_of(a.type);
  gemm.output_type = code_of(c.type);
  gemm.math = context.types.math;
  gemm.alpha = 1;
  gemm.beta = rows_inside ? 1 : 0;
  gemm.a = a.data();
  gemm.b = b.data();
  gemm.c = c.data();
  gemm.a_row = a.columns;
  gemm.b_row = b.columns;
  gemm.c_row = c.columns;
  gemm.outer = 1;
  gemm.inner = 1;
  gemm.b_outer = rows_inside ? 0 : b.elements() / groups;
  gemm.c_outer = rows_inside ? c.elements() / groups : 0;
  gemm.workspace = context.workspace.data();
  context.device.run(&Table::gemm_grouped, kComputeStream, &gemm, offsets.data(), groups,
                     rows_inside ? 1 : 0);
}

/// Each group of rows with the matrix of its expert: [E * N, K].
Var grouped_linear(Tape& tape, const Routing& routing, const Var& x, const Weight& weight) {
  const Context& context = tape.context();
  context.begin("grouped_linear");
  const Tensor w = weight.value();
  const auto groups = static_cast<std::int64_t>(routing.offsets->size()) - 1;
  const Var out = tape.variable(context.make(x.tensor.rows, w.rows / groups));
  grouped_product(context, {.c = out.tensor, .a = x.tensor, .b = w, .transpose_b = true},
                  *routing.offsets);
  tape.record(
      "grouped_linear", {x.tensor},
      [weight, offsets = routing.offsets, in = x.slot, slot = out.slot](Tape& t, Tape::Node& node) {
        const Tensor dy = t.take(slot);
        if (dy.empty()) {
          return;
        }
        const Context& c = t.context();
        const Tensor& input = node.saved[0];
        grouped_product(c, {.c = weight.gradient(), .a = dy, .b = input, .rows_inside = true},
                        *offsets);
        const Tensor dx = c.make(input.rows, input.columns);
        grouped_product(c, {.c = dx, .a = dy, .b = weight.value()}, *offsets);
        t.add(in, dx);
      });
  return out;
}

Var combine(Tape& tape, const ExpertSpec& spec, const Routed& routed, const Var& y) {
  const Context& context = tape.context();
  context.begin("combine_rows");
  const Tensor& weights = routed.weights.tensor;
  const Var out = tape.variable(context.make(weights.rows, y.tensor.columns));
  context.device.run(&Table::combine_rows, kComputeStream, out.tensor.data(), y.tensor.data(),
                     weights.data(),
                     static_cast<const std::int32_t*>(routed.routing.position.data()),
                     code_of(y.tensor.type), weights.rows, spec.top_k, y.tensor.columns);
  tape.record("combine_rows", {y.tensor, weights, routed.routing.position},
              [spec, in = y.slot, router = routed.weights.slot, slot = out.slot](Tape& t,
                                                                                 Tape::Node& node) {
                const Tensor dout = t.take(slot);
                if (dout.empty()) {
                  return;
                }
                const Context& c = t.context();
                const Tensor& input = node.saved[0];
                const Tensor& factors = node.saved[1];
                const Tensor dy = c.make(input.rows, input.columns);
                const Tensor dfactors =
                    c.make(factors.rows, factors.columns, factors.type, ir::TensorRole::kTemporary);
                c.device.run(&Table::combine_rows_backward, kComputeStream, dy.data(),
                             dfactors.data(), dout.data(), input.data(), factors.data(),
                             static_cast<const std::int32_t*>(node.saved[2].data()),
                             code_of(dout.type), factors.rows, spec.top_k, dout.columns);
                // Each tensor-parallel rank has only a part of the experts' outputs.
                c.groups.tensor->all_reduce(dfactors.data(), dfactors.type, dfactors.elements(),
                                            Group::Reduction::kSum);
                t.add(in, dy);
                t.add(router, dfactors);
              });
  return out;
}

}  // namespace

Var experts(Tape& tape, const ExpertSpec& spec, const ExpertWeights& weights, const Var& x) {
  const Routed routed =
      route(tape, spec, gather_for_all(tape, linear(tape, x, weights.router, {})));
  const Routing& routing = routed.routing;
  Var entered = enter_tensor_ranks(tape, x);
  Var rows = gather(tape, spec, routing, entered);
  entered.tensor = {};  // Nobody reads these rows in backward.
  Var gate = grouped_linear(tape, routing, rows, weights.gate);
  Var up = grouped_linear(tape, routing, rows, weights.up);
  rows.tensor = {};
  Var hidden = gated(tape, gate, up, spec.activation);
  gate.tensor = {};
  up.tensor = {};
  const Var out = grouped_linear(tape, routing, hidden, weights.down);
  hidden.tensor = {};
  return leave_tensor_ranks(tape, combine(tape, spec, routed, out));
}

}  // namespace headroom::exec
