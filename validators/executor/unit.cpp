#include "validators/executor/unit.h"

#include <algorithm>
#include <utility>

#include "model_ir/base/check.h"
#include "validators/executor/copy_stream.h"

namespace headroom::exec {
namespace {

/// Each parameter begins at a multiple of this, so that matrix products have aligned operands.
constexpr std::int64_t kParameterElements = 128;

}  // namespace

Unit::Unit(Context& context, const UnitSettings& settings)
    : context_(context), settings_(settings) {}

void Unit::define(std::vector<ParameterShape> parameters) {
  parameters_ = std::move(parameters);
  offsets_.resize(parameters_.size());
  for (const bool divided : {true, false}) {
    for (std::size_t index = 0; index < parameters_.size(); ++index) {
      if (parameters_[index].divided == divided) {
        offsets_[index] = flat_;
        flat_ += align_up(parameters_[index].rows * parameters_[index].columns, kParameterElements);
      }
    }
    divided_ = divided ? flat_ : divided_;
  }
  const std::int64_t ranks = context_.groups.data->size();
  shard_ = align_up(ceil_div(flat_, ranks), HEADROOM_STATE_BLOCK);
  flat_ = shard_ * ranks;
}

bool Unit::divides(int stage) const {
  return settings_.zero_stage >= stage && context_.groups.data->size() > 1;
}

std::int64_t Unit::elements() const {
  std::int64_t sum = 0;
  for (const ParameterShape& parameter : parameters_) {
    sum += parameter.rows * parameter.columns;
  }
  return sum;
}

std::int64_t Unit::held_parameters_begin() const {
  return divides(3) ? context_.groups.data->rank() * shard_ : 0;
}

std::int64_t Unit::optimizer_begin() const {
  return divides(1) ? context_.groups.data->rank() * shard_ : 0;
}

// --- What lives for the whole run ---------------------------------------------------------------

Unit::Held Unit::hold(std::int64_t elements, ir::DType type, ir::TensorRole role, bool on_host,
                      ir::HostUse use) {
  Held held{.device = {}, .host = nullptr, .elements = elements, .type = type};
  if (on_host) {
    held.host = context_.memory.allocate_host(held.bytes(), use);
  } else {
    held.device = context_.zeros(1, elements, type, role);
  }
  return held;
}

Tensor Unit::fetch(const Held& held, ir::TensorRole role) {
  if (!held.device.empty() || held.empty()) {
    return held.device;
  }
  const Tensor copy = context_.make(1, held.elements, held.type, role);
  copies_->wait(copies_->upload(copy.data(), held.host, held.bytes()));
  return copy;
}

void Unit::store(const Held& held, const Tensor& tensor) {
  if (held.host != nullptr) {
    copies_->download(held.host, tensor);
  }
}

void Unit::load(std::uint64_t seed, CopyStream* copies) {
  copies_ = copies;
  const Types& types = context_.types;
  const std::int64_t own = divides(1) ? shard_ : flat_;
  const std::int64_t first = optimizer_begin();
  parameter_ = hold(divides(3) ? shard_ : flat_, types.parameter, ir::TensorRole::kParameter,
                    settings_.parameters_on_host, ir::HostUse::kParameters);
  const auto fill = [&](const Held& held, std::int64_t begin, ir::TensorRole role) {
    const Tensor values =
        held.host == nullptr ? held.device : context_.zeros(1, held.elements, held.type, role);
    fill_random(values, begin, seed);
    store(held, values);
  };
  fill(parameter_, divides(3) ? first : 0, ir::TensorRole::kParameter);
  const bool host = settings_.states_on_host;
  if (types.master) {
    master_ = hold(own, types.stat(), ir::TensorRole::kMasterParameter, host,
                   ir::HostUse::kMasterParameters);
    fill(master_, first, ir::TensorRole::kMasterParameter);
  }
  const auto state = [&](std::int64_t elements, ir::DType type) {
    const Held held =
        hold(elements, type, ir::TensorRole::kOptimizerState, host, ir::HostUse::kOptimizerStates);
    if (held.host != nullptr) {
      store(held, context_.zeros(1, elements, type, ir::TensorRole::kOptimizerState));
    }
    return held;
  };
  first_moment_ = state(own, types.state);
  second_moment_ = state(own, types.state);
  if (types.state == ir::DType::kUInt8) {
    first_scale_ = state(own / HEADROOM_STATE_BLOCK, ir::DType::kFp32);
    second_scale_ = state(own / HEADROOM_STATE_BLOCK, ir::DType::kFp32);
  }
  gradients_ =
      context_.zeros(1, divides(2) ? shard_ : flat_, types.gradient, ir::TensorRole::kGradient);
  if (copies_ != nullptr) {
    copies_->finish();
  }
}

void Unit::fill_random(const Tensor& to, std::int64_t begin, std::uint64_t seed) const {
  for (std::size_t parameter = 0; parameter < parameters_.size(); ++parameter) {
    fill_parameter(to, begin, parameter, seed + 1000003 * (parameter + 1));
  }
}

/// The part of a parameter that lies in `to`, which begins at element `begin` of the flat buffer.
void Unit::fill_parameter(const Tensor& to, std::int64_t begin, std::size_t parameter,
                          std::uint64_t seed) const {
  const ParameterShape& shape = parameters_[parameter];
  const std::int64_t rows = shape.repeat > 0 ? shape.repeat : shape.rows;
  const std::int64_t whole_rows = shape.repeat > 0 ? shape.whole_repeat : shape.rows;
  const std::int64_t size = rows * shape.columns;
  for (std::int64_t copy = 0; copy * rows < shape.rows; ++copy) {
    const std::int64_t place = offsets_[parameter] + copy * size;
    const std::int64_t from = std::max(place, begin);
    const std::int64_t end = std::min(place + size, begin + to.elements());
    if (from < end) {
      context_.device.run(&HeadroomDeviceTable::random_normal, kComputeStream,
                          to.view(from - begin, 1, end - from).data(), code_of(to.type),
                          from - place, end - from, shape.columns,
                          shape.row_offset + copy * whole_rows, shape.column_offset,
                          shape.whole_columns, seed, shape.mean, shape.deviation);
    }
  }
}

// --- Uses ---------------------------------------------------------------------------------------

void Unit::acquire() {
  if (uses_++ > 0) {
    return;
  }
  const ir::DType type = context_.types.compute;
  context_.begin("parameters");
  Tensor own = fetch(parameter_, ir::TensorRole::kParameter);
  if (own.type != type) {
    const Tensor converted = context_.make(1, own.elements(), type, ir::TensorRole::kTemporary);
    context_.device.run(&HeadroomDeviceTable::cast, kComputeStream, converted.data(), code_of(type),
                        own.data(), code_of(own.type), own.elements());
    own = converted;
  }
  if (divides(3)) {
    const Tensor whole = context_.make(1, flat_, type, ir::TensorRole::kCommunication);
    context_.groups.data->all_gather(whole.data(), own.data(), own.bytes());
    own = whole;
  }
  weights_ = own;
}

void Unit::release() {
  HEADROOM_ASSERT(uses_ > 0);
  if (--uses_ == 0) {
    weights_ = {};
  }
}

Tensor Unit::weight(std::size_t parameter) const {
  HEADROOM_ASSERT(uses_ > 0);
  const ParameterShape& shape = parameters_[parameter];
  return weights_.view(offsets_[parameter], shape.rows, shape.columns);
}

void Unit::begin_backward() {
  acquire();
  if (backwards_++ > 0) {
    return;
  }
  context_.begin("gradients");
  whole_gradients_ =
      divides(2) ? context_.zeros(1, flat_, context_.types.gradient, ir::TensorRole::kCommunication)
                 : gradients_;
}

void Unit::end_backward() {
  release();
  HEADROOM_ASSERT(backwards_ > 0);
  if (--backwards_ > 0) {
    return;
  }
  if (divides(2)) {
    context_.begin("gradients");
    sum_over_tensor_ranks(whole_gradients_);
    const ir::DType type = context_.types.gradient;
    const Tensor part = context_.make(1, shard_, type, ir::TensorRole::kCommunication);
    context_.groups.data->reduce_scatter(part.data(), whole_gradients_.data(), type, shard_);
    context_.device.run(&HeadroomDeviceTable::accumulate, kComputeStream, gradients_.data(),
                        code_of(type), part.data(), code_of(type), shard_, 1.0);
  }
  whole_gradients_ = {};
}

Tensor Unit::gradient(std::size_t parameter) const {
  HEADROOM_ASSERT(backwards_ > 0);
  const ParameterShape& shape = parameters_[parameter];
  return whole_gradients_.view(offsets_[parameter], shape.rows, shape.columns);
}

// --- The step -----------------------------------------------------------------------------------

void Unit::sum_over_tensor_ranks(const Tensor& gradients) const {
  for (std::size_t index = 0; index < parameters_.size(); ++index) {
    const ParameterShape& shape = parameters_[index];
    if (shape.summed) {
      const Tensor part = gradients.view(offsets_[index], shape.rows, shape.columns);
      context_.groups.tensor->all_reduce(part.data(), part.type, part.elements(),
                                         Group::Reduction::kSum);
    }
  }
}

void Unit::reduce_gradients() {
  if (divides(2)) {
    return;
  }
  sum_over_tensor_ranks(gradients_);
  Group& data = *context_.groups.data;
  if (data.size() == 1) {
    return;
  }
  if (divides(1)) {
    data.reduce_scatter(gradient_shard().data(), gradients_.data(), gradients_.type, shard_);
  } else {
    data.all_reduce(gradients_.data(), gradients_.type, flat_, Group::Reduction::kSum);
  }
}

/// The gradients that the optimizer of this rank reads.
Tensor Unit::gradient_shard() const {
  return divides(1) && !divides(2)
             ? gradients_.view(context_.groups.data->rank() * shard_, 1, shard_)
             : gradients_;
}

void Unit::add_squares(const Tensor& sum, const Tensor& partial) const {
  add_squares(sum, partial, 0, divided_, 1.0);
  add_squares(sum, partial, divided_, flat_, 1.0 / context_.groups.tensor->size());
}

/// Adds the squares of the elements [begin, end) of the flat buffer that this rank has.
void Unit::add_squares(const Tensor& sum, const Tensor& partial, std::int64_t begin,
                       std::int64_t end, double factor) const {
  const Tensor own = gradient_shard();
  const std::int64_t first = optimizer_begin();
  const std::int64_t from = std::max(begin, first);
  const std::int64_t to = std::min(end, first + own.elements());
  if (from < to) {
    context_.device.run(&HeadroomDeviceTable::square_sum, kComputeStream, sum.data(),
                        code_of(sum.type), own.view(from - first, 1, to - from).data(),
                        code_of(own.type), to - from, factor, partial.data());
  }
}

void Unit::step(const StepValues& values) {
  const Tensor gradients = gradient_shard();
  const bool is_part = divides(1) && !divides(3);
  Tensor parameters;
  if (is_part) {
    parameters = parameter_.device.view(context_.groups.data->rank() * shard_, 1, shard_);
  } else {
    parameters = fetch(parameter_, ir::TensorRole::kTemporary);
  }
  const Tensor master = fetch(master_, ir::TensorRole::kTemporary);
  const Tensor first = fetch(first_moment_, ir::TensorRole::kTemporary);
  const Tensor second = fetch(second_moment_, ir::TensorRole::kTemporary);
  if (context_.types.state == ir::DType::kUInt8) {
    const Tensor first_scale = fetch(first_scale_, ir::TensorRole::kTemporary);
    const Tensor second_scale = fetch(second_scale_, ir::TensorRole::kTemporary);
    context_.device.run(&HeadroomDeviceTable::adamw_8bit, kComputeStream, parameters.data(),
                        code_of(parameters.type), master.data(), first.as<std::uint8_t>(),
                        second.as<std::uint8_t>(), first_scale.as<float>(),
                        second_scale.as<float>(),
                        static_cast<const float*>(values.signed_code.data()),
                        static_cast<const float*>(values.unsigned_code.data()), gradients.data(),
                        code_of(gradients.type), gradients.elements(), &values.adamw);
    store(first_scale_, first_scale);
    store(second_scale_, second_scale);
  } else {
    context_.device.run(&HeadroomDeviceTable::adamw, kComputeStream, parameters.data(),
                        code_of(parameters.type), master.data(), first.data(), second.data(),
                        code_of(first.type), gradients.data(), code_of(gradients.type),
                        gradients.elements(), &values.adamw);
  }
  store(master_, master);
  store(first_moment_, first);
  store(second_moment_, second);
  store(parameter_, parameters);
  if (is_part) {
    context_.groups.data->all_gather(parameter_.device.data(), parameters.data(),
                                     parameters.bytes());
  }
}

void Unit::clear_gradients() {
  context_.clear(gradients_);
}

}  // namespace headroom::exec
