#include "validators/executor/loss.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace headroom::exec {
namespace {

using Table = HeadroomDeviceTable;

/// Statistics of rows of logits over the whole vocabulary.
struct RowStatistics {
  Tensor maximum;
  Tensor sums;  ///< [2, rows]: sum of exponentials, logit of the label.
};

RowStatistics statistics_of(const Context& context, const Tensor& logits, const Tensor& labels,
                            std::int64_t first) {
  const ir::DType stat = context.types.stat();
  const std::int64_t rows = logits.rows;
  RowStatistics result{.maximum = context.make(1, rows, stat, ir::TensorRole::kLogits),
                       .sums = context.make(2, rows, stat, ir::TensorRole::kLogits)};
  const Tensor sum = result.sums.view(0, 1, rows);
  const Tensor target = result.sums.view(rows, 1, rows);
  context.device.run(&Table::logit_statistics, kComputeStream, result.maximum.data(), sum.data(),
                     target.data(), logits.data(), code_of(logits.type), labels.as<std::int32_t>(),
                     rows, logits.columns, first);
  Group& ranks = *context.groups.tensor;
  if (ranks.size() > 1) {
    const Tensor whole = context.make(1, rows, stat, ir::TensorRole::kLogits);
    context.copy(whole, result.maximum);
    ranks.all_reduce(whole.data(), stat, rows, Group::Reduction::kMaximum);
    context.device.run(&Table::rescale_sums, kComputeStream, sum.data(), result.maximum.data(),
                       whole.data(), code_of(stat), rows);
    ranks.all_reduce(result.sums.data(), stat, 2 * rows, Group::Reduction::kSum);
    result.maximum = whole;
  }
  return result;
}

void add_loss(const Context& context, const LossSpec& spec, const RowStatistics& statistics,
              const Tensor& labels) {
  const std::int64_t rows = labels.elements();
  context.device.run(&Table::cross_entropy_loss, kComputeStream, spec.loss.data(),
                     statistics.maximum.data(), statistics.sums.data(),
                     statistics.sums.view(rows, 1, rows).data(), code_of(spec.loss.type),
                     labels.as<std::int32_t>(), rows, spec.factor);
}

void to_gradient(const Context& context, const LossSpec& spec, const Tensor& logits,
                 const Tensor& labels, const Tensor& maximum, const Tensor& sums) {
  context.device.run(&Table::cross_entropy_backward, kComputeStream, logits.data(), logits.data(),
                     code_of(logits.type), maximum.data(), sums.data(), labels.as<std::int32_t>(),
                     logits.rows, logits.columns, spec.first, spec.factor * spec.loss_scale);
}

}  // namespace

void full_loss(Tape& tape, const LossSpec& spec, const Var& x, const Weight& weight) {
  const Context& context = tape.context();
  context.begin("logits");
  const Tensor w = weight.value();
  const Tensor logits =
      context.make(x.tensor.rows, w.rows, context.types.compute, ir::TensorRole::kLogits);
  product(context, logits, x.tensor, false, w, true);
  const RowStatistics statistics = statistics_of(context, logits, spec.labels, spec.first);
  add_loss(context, spec, statistics, spec.labels);
  tape.record("loss", {logits, statistics.maximum, statistics.sums, x.tensor},
              [spec, weight, in = x.slot](Tape& t, Tape::Node& node) {
                const Context& c = t.context();
                const Tensor& dlogits = node.saved[0];
                const Tensor& input = node.saved[3];
                to_gradient(c, spec, dlogits, spec.labels, node.saved[1], node.saved[2]);
                const Tensor dx = c.make(input.rows, input.columns);
                product(c, dx, dlogits, false, weight.value(), false);
                product(c, weight.gradient(), dlogits, true, input, false, 1);
                t.add(in, dx);
              });
}

void chunked_loss(Tape& tape, const LossSpec& spec, const Var& x, const Weight& weight,
                  std::int64_t vocabulary) {
  const Context& context = tape.context();
  context.begin("loss");
  const Tensor w = weight.value();
  const Tensor& input = x.tensor;
  const std::int64_t parts = ceil_div(vocabulary, input.columns);
  const auto even = static_cast<std::uint64_t>(ceil_div(input.rows, parts));
  const std::int64_t chunk = std::min(input.rows, static_cast<std::int64_t>(std::bit_ceil(even)));
  Tensor dx;
  if (tape.records()) {
    dx = context.make(input.rows, input.columns);
    weight.unit->begin_backward();
  }
  for (std::int64_t begin = 0; begin < input.rows; begin += chunk) {
    const std::int64_t rows = std::min(chunk, input.rows - begin);
    const Tensor part = input.view(begin * input.columns, rows, input.columns);
    const Tensor labels = spec.labels.view(begin, 1, rows);
    const Tensor logits =
        context.make(rows, w.rows, context.types.compute, ir::TensorRole::kLogits);
    product(context, logits, part, false, w, true);
    const RowStatistics statistics = statistics_of(context, logits, labels, spec.first);
    add_loss(context, spec, statistics, labels);
    if (tape.records()) {
      to_gradient(context, spec, logits, labels, statistics.maximum, statistics.sums);
      product(context, dx.view(begin * input.columns, rows, input.columns), logits, false, w,
              false);
      product(context, weight.gradient(), logits, true, part, false, 1);
    }
  }
  if (tape.records()) {
    weight.unit->end_backward();
  }
  tape.record("loss", {dx}, [in = x.slot](Tape& t, Tape::Node& node) {
    t.add(in, std::exchange(node.saved[0], Tensor{}));
  });
}

}  // namespace headroom::exec
