// Operators at which tensor parallelism begins and ends.

#include "validators/executor/operators.h"

namespace headroom::exec {
namespace {

/// The rows of all tensor-parallel ranks.
void gather(const Context& context, const Tensor& whole, const Tensor& part) {
  context.groups.tensor->all_gather(whole.data(), part.data(), part.bytes());
}

Tensor make_whole(const Context& context, const Tensor& part) {
  return context.make(part.rows * context.groups.tensor->size(), part.columns, part.type,
                      ir::TensorRole::kCommunication);
}

/// This rank's rows of the sum over the ranks.
Tensor scatter(const Context& context, const Tensor& whole) {
  Group& ranks = *context.groups.tensor;
  const Tensor part = context.make(whole.rows / ranks.size(), whole.columns);
  ranks.reduce_scatter(part.data(), whole.data(), whole.type, part.elements());
  return part;
}

Var enter_gathered(Tape& tape, const Var& x) {
  const Context& context = tape.context();
  context.begin("all_gather");
  const Var out = tape.variable(make_whole(context, x.tensor));
  gather(context, out.tensor, x.tensor);
  tape.record("reduce_scatter", {}, [in = x.slot, slot = out.slot](Tape& t, auto&) {
    const Tensor dout = t.take(slot);
    if (!dout.empty()) {
      t.add(in, scatter(t.context(), dout));
    }
  });
  return out;
}

Var enter_whole(Tape& tape, const Var& x) {
  const Var out = tape.variable(x.tensor);
  tape.record("all_reduce", {}, [in = x.slot, slot = out.slot](Tape& t, auto&) {
    Tensor dout = t.take(slot);
    if (dout.empty()) {
      return;
    }
    const Context& c = t.context();
    if (!dout.is_alone()) {
      const Tensor own = c.make(dout.rows, dout.columns);
      c.copy(own, dout);
      dout = own;
    }
    c.groups.tensor->all_reduce(dout.data(), dout.type, dout.elements(), Group::Reduction::kSum);
    t.add(in, dout);
  });
  return out;
}

}  // namespace

Var enter_tensor_ranks(Tape& tape, const Var& x) {
  const Context& context = tape.context();
  if (context.groups.tensor->size() == 1) {
    return x;
  }
  return context.sequence_parallel ? enter_gathered(tape, x) : enter_whole(tape, x);
}

void drop_entered(Tape& tape, Var& entered, const Var& x) {
  const Tensor whole = entered.tensor;
  entered.tensor = {};
  if (!tape.context().sequence_parallel || !tape.records()) {
    return;
  }
  whole.storage->give_back();
  tape.record("all_gather", {x.tensor}, [whole](Tape& t, Tape::Node& node) {
    whole.storage->obtain();
    gather(t.context(), whole, node.saved[0]);
  });
}

Var leave_tensor_ranks(Tape& tape, const Var& x) {
  const Context& context = tape.context();
  Group& ranks = *context.groups.tensor;
  if (ranks.size() == 1) {
    return x;
  }
  if (!context.sequence_parallel) {
    ranks.all_reduce(x.tensor.data(), x.tensor.type, x.tensor.elements(), Group::Reduction::kSum);
    return x;
  }
  context.begin("reduce_scatter");
  const Var out = tape.variable(scatter(context, x.tensor));
  tape.record("all_gather", {}, [in = x.slot, slot = out.slot](Tape& t, auto&) {
    const Tensor dout = t.take(slot);
    if (dout.empty()) {
      return;
    }
    const Tensor whole = make_whole(t.context(), dout);
    gather(t.context(), whole, dout);
    t.add(in, whole);
  });
  return out;
}

Var gather_for_all(Tape& tape, const Var& x) {
  const Context& context = tape.context();
  if (!context.sequence_parallel) {
    return x;
  }
  context.begin("all_gather");
  const Var out = tape.variable(make_whole(context, x.tensor));
  gather(context, out.tensor, x.tensor);
  tape.record("slice", {}, [in = x.slot, slot = out.slot](Tape& t, auto&) {
    const Tensor dout = t.take(slot);
    if (dout.empty()) {
      return;
    }
    const Group& ranks = *t.context().groups.tensor;
    const std::int64_t rows = dout.rows / ranks.size();
    t.add(in, dout.view(ranks.rank() * rows * dout.columns, rows, dout.columns));
  });
  return out;
}

}  // namespace headroom::exec
