#include "validators/executor/training.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "model_ir/base/check.h"
#include "validators/executor/state_code.h"

namespace headroom::exec {
namespace {

using Table = HeadroomDeviceTable;

double number_in(const Context& context, const Tensor& tensor) {
  const std::byte* const bytes = context.read(tensor);
  if (tensor.type == ir::DType::kFp64) {
    double value = 0;
    std::memcpy(&value, bytes, sizeof value);
    return value;
  }
  float value = 0;
  std::memcpy(&value, bytes, sizeof value);
  return static_cast<double>(value);
}

bool needs_copies(const Execution& execution) {
  return execution.activations_on_host || execution.units.parameters_on_host ||
         execution.units.states_on_host;
}

}  // namespace

Training::Training(Context& context, const Execution& execution)
    : context_(context),
      execution_(execution),
      stage_(context, execution),
      loss_scale_(execution.loss_scale) {
  if (needs_copies(execution)) {
    copies_ = std::make_unique<CopyStream>(context);
  }
  if (execution.activations_on_host) {
    offload_.emplace(context, *copies_);
    stage_.set_offload(&*offload_);
  }
}

Training::~Training() = default;

void Training::load() {
  context_.memory.begin_phase({.kind = ir::PhaseKind::kLoad});
  context_.begin("load");
  context_.host_scratch = context_.memory.allocate_host(kHostScratchBytes, ir::HostUse::kStaging);
  context_.workspace =
      context_.make(1, execution_.workspace.value(), ir::DType::kUInt8, ir::TensorRole::kWorkspace);
  const ir::DType stat = context_.types.stat();
  loss_sum_ = context_.zeros(1, 1, stat, ir::TensorRole::kBuffer);
  factor_ = context_.zeros(1, 1, stat, ir::TensorRole::kBuffer);
  squares_ = context_.zeros(1, 1, stat, ir::TensorRole::kBuffer);
  partial_ = context_.make(1, HEADROOM_PARTIAL_SUMS, stat, ir::TensorRole::kWorkspace);
  if (context_.types.state == ir::DType::kUInt8) {
    make_codes();
  }
  stage_.load(copies_.get());
}

void Training::make_codes() {
  const auto code = [this](const std::vector<float>& values) {
    const Tensor tensor = context_.make(1, static_cast<std::int64_t>(values.size()),
                                        ir::DType::kFp32, ir::TensorRole::kBuffer);
    context_.write(tensor, values.data());
    return tensor;
  };
  signed_code_ = code(signed_state_code());
  unsigned_code_ = code(unsigned_state_code());
}

void Training::begin_phase(ir::PhaseKind kind, std::int64_t micro_batch) {
  const bool single = execution_.accumulation == 1;
  context_.memory.begin_phase(
      {.kind = kind, .at = {.step = step_, .micro_batch = single ? 0 : micro_batch + 1}});
}

Stage::Batch Training::make_batch(std::int64_t micro_batch) const {
  const std::int64_t tokens = execution_.micro_batch * execution_.sequence;
  const std::int64_t all = execution_.accumulation * execution_.division.data;
  // The number of the micro-batch among all micro-batches of the run.
  const std::int64_t number =
      (step_ - 1) * all + micro_batch * execution_.division.data + execution_.division.data_rank();
  const auto random = [&](std::uint64_t seed) {
    const Tensor ids = context_.make(1, tokens, ir::DType::kInt32, ir::TensorRole::kInput);
    context_.device.run(&Table::random_tokens, kComputeStream, ids.as<std::int32_t>(),
                        number * tokens, tokens, execution_.model.vocabulary, seed);
    return ids;
  };
  context_.begin("batch");
  Stage::Batch batch;
  if (stage_.is_first()) {
    batch.tokens = random(execution_.seed * 31 + 1);
  }
  if (stage_.is_last()) {
    batch.loss = {.labels = random(execution_.seed * 31 + 2),
                  .loss = loss_sum_,
                  .first = stage_.vocabulary_first(),
                  .factor = 1.0 / static_cast<double>(tokens * all),
                  .loss_scale = loss_scale_};
  }
  return batch;
}

std::int64_t Training::rows() const {
  const std::int64_t tokens = execution_.micro_batch * execution_.sequence;
  return execution_.sequence_parallel ? tokens / execution_.division.tensor : tokens;
}

void Training::run_forward(std::int64_t micro_batch) {
  begin_phase(ir::PhaseKind::kForward, micro_batch);
  auto run = std::make_unique<Running>();
  run->batch = make_batch(micro_batch);
  run->tape = std::make_unique<Tape>(context_, Tape::Mode::kRecord);
  Group& stages = *context_.groups.pipeline;
  Var input;
  if (!stage_.is_first()) {
    context_.begin("receive");
    const Tensor received = context_.make(rows(), execution_.model.hidden);
    stages.receive(stages.rank() - 1, received.data(), received.bytes());
    input = run->tape->variable(received);
    run->input = input.slot;
  }
  const Var output = stage_.forward(*run->tape, run->batch, input, &run->offload);
  if (!stage_.is_last()) {
    run->output = output.slot;
    stages.send(stages.rank() + 1, output.tensor.data(), output.tensor.bytes());
  }
  running_.push_back(std::move(run));
}

void Training::run_backward(std::int64_t micro_batch) {
  begin_phase(ir::PhaseKind::kBackward, micro_batch);
  const std::unique_ptr<Running> run = std::move(running_.front());
  running_.pop_front();
  Group& stages = *context_.groups.pipeline;
  if (!stage_.is_last()) {
    context_.backward = true;
    context_.begin("receive");
    const Tensor gradient = context_.make(rows(), execution_.model.hidden);
    context_.backward = false;
    stages.receive(stages.rank() + 1, gradient.data(), gradient.bytes());
    run->tape->add(run->output, gradient);
  }
  run->tape->backward();
  if (!stage_.is_first()) {
    const Tensor gradient = run->tape->take(run->input);
    stages.send(stages.rank() - 1, gradient.data(), gradient.bytes());
  }
}

/// 1F1B: the stages before the last one run as many micro-batches ahead as there are stages behind
/// them.
void Training::run_micro_batches() {
  const std::int64_t all = execution_.accumulation;
  const std::int64_t behind = execution_.division.pipeline - execution_.division.stage() - 1;
  const std::int64_t ahead = std::min(all, behind);
  for (std::int64_t index = 0; index < ahead; ++index) {
    run_forward(index);
  }
  for (std::int64_t index = 0; index < all; ++index) {
    if (index + ahead < all) {
      run_forward(index + ahead);
    }
    run_backward(index);
  }
}

void Training::step(int number) {
  step_ = number;
  context_.clear(loss_sum_);
  for (const std::unique_ptr<Unit>& unit : stage_.units()) {
    unit->clear_gradients();
  }
  run_micro_batches();
  begin_phase(ir::PhaseKind::kOptimizer, -1);
  run_optimizer();
  if (stage_.is_last()) {
    context_.groups.data->all_reduce(loss_sum_.data(), loss_sum_.type, 1, Group::Reduction::kSum);
    loss_ = number_in(context_, loss_sum_);
  }
  context_.memory.end_phase();
}

/// The norm of all gradients, and the factor that clips and unscales them.
void Training::read_norm() {
  context_.clear(squares_);
  for (const std::unique_ptr<Unit>& unit : stage_.units()) {
    unit->add_squares(squares_, partial_);
  }
  const ir::DType stat = squares_.type;
  if (execution_.units.zero_stage >= 1) {
    context_.groups.data->all_reduce(squares_.data(), stat, 1, Group::Reduction::kSum);
  }
  context_.groups.tensor->all_reduce(squares_.data(), stat, 1, Group::Reduction::kSum);
  context_.groups.pipeline->all_reduce(squares_.data(), stat, 1, Group::Reduction::kSum);
  context_.device.run(&Table::gradient_factor, kComputeStream, factor_.data(),
                      static_cast<const void*>(squares_.data()), code_of(stat),
                      execution_.clip_norm.value_or(0), 1 / loss_scale_);
  const double squares = number_in(context_, squares_);
  skipped_ = !std::isfinite(squares);
  norm_ = std::sqrt(squares) / loss_scale_;
}

/// Source: torch.amp.GradScaler, backoff_factor, growth_factor and growth_interval.
void Training::count_update() {
  constexpr std::int64_t kGrowthInterval = 2000;
  updates_ += skipped_ ? 0 : 1;
  since_skip_ = skipped_ ? 0 : since_skip_ + 1;
  if (execution_.loss_scale == 1) {
    return;
  }
  if (skipped_) {
    loss_scale_ /= 2;
  } else if (since_skip_ % kGrowthInterval == 0) {
    loss_scale_ *= 2;
  }
}

void Training::run_optimizer() {
  context_.begin("optimizer");
  const bool reads_norm = execution_.clip_norm || execution_.loss_scale != 1;
  for (const std::unique_ptr<Unit>& unit : stage_.units()) {
    unit->reduce_gradients();
  }
  if (reads_norm) {
    read_norm();
  } else {
    context_.device.run(&Table::fill, kComputeStream, factor_.data(), code_of(factor_.type),
                        std::int64_t{1}, 1.0);
  }
  count_update();
  // Source of the other numbers: torch.optim.AdamW's defaults.
  const StepValues values{.adamw = {.learning_rate = execution_.learning_rate,
                                    .beta1 = 0.9,
                                    .beta2 = 0.999,
                                    .epsilon = 1e-8,
                                    .weight_decay = 0.01,
                                    .step = std::max<std::int64_t>(updates_, 1),
                                    .gradient_factor = factor_.data()},
                          .signed_code = signed_code_,
                          .unsigned_code = unsigned_code_};
  for (const std::unique_ptr<Unit>& unit : stage_.units()) {
    unit->step(values);
  }
  if (copies_ != nullptr) {
    copies_->finish();
  }
}

}  // namespace headroom::exec
