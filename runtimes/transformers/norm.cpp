#include "runtimes/transformers/norm.h"

#include <functional>
#include <utility>

#include "runtimes/torch/functions.h"
#include "runtimes/torch/launch.h"
#include "runtimes/torch/record.h"

namespace headroom::ir::transformers {
namespace {

using torch::Eager;
using torch::Tensor;

/// x * rsqrt(mean(x^2) + eps) with everything fp32; `x` is a local of the caller.
struct Normalised {
  Tensor value;
  Tensor variance;
};

Normalised normalise(Eager& eager, const Tensor& x) {
  Tensor squares = torch::square(eager, x);
  Tensor variance = torch::mean_last(eager, squares);
  squares.reset();
  Tensor shifted = torch::shift(eager, variance);
  Tensor factor = torch::rsqrt(eager, shifted);
  shifted.reset();
  Tensor value = torch::mul(eager, x, factor);
  return {std::move(value), std::move(variance)};
}

/// LlamaRMSNorm: weight * hidden_states.to(input_dtype)
Tensor rms(Eager& eager, const Tensor& input, const Tensor& weight) {
  Tensor hidden = torch::to(eager, input, DType::kFp32);
  auto [value, variance] = normalise(eager, hidden);
  hidden = std::move(value);
  Tensor narrow = torch::to(eager, hidden, input.dtype());
  Tensor output = torch::mul(eager, weight, narrow);
  narrow.reset();
  hidden.reset();
  variance.reset();
  return output;
}

/// T5LayerNorm: only the variance is computed from an fp32 copy. The factor promotes the product,
/// which is cast back to the type of a narrower weight.
Tensor rms_t5(Eager& eager, const Tensor& input, const Tensor& weight) {
  Tensor variance;
  {
    Tensor wide = torch::to(eager, input, DType::kFp32);
    const Tensor squares = torch::square(eager, wide);
    wide.reset();
    variance = torch::mean_last(eager, squares);
  }
  Tensor shifted = torch::shift(eager, variance);
  Tensor factor = torch::rsqrt(eager, shifted);
  shifted.reset();
  Tensor hidden = torch::mul(eager, input, factor);
  factor.reset();
  if (weight.dtype() != DType::kFp32) {
    hidden = torch::to(eager, hidden, weight.dtype());
  }
  Tensor output = torch::mul(eager, weight, hidden);
  hidden.reset();
  return output;
}

/// Olmo2RMSNorm: (weight * hidden_states).to(input_dtype)
Tensor rms_fp32(Eager& eager, const Tensor& input, const Tensor& weight) {
  Tensor hidden = torch::to(eager, input, DType::kFp32);
  auto [value, variance] = normalise(eager, hidden);
  hidden = std::move(value);
  Tensor wide = torch::mul(eager, weight, hidden);
  return torch::to(eager, wide, input.dtype());
}

/// GemmaRMSNorm: (norm(x.float()) * (1.0 + weight.float())).type_as(x)
Tensor rms_gemma(Eager& eager, const Tensor& input, const Tensor& weight) {
  Tensor output;
  {
    const Tensor wide = torch::to(eager, input, DType::kFp32);
    Tensor squares = torch::square(eager, wide);
    Tensor variance = torch::mean_last(eager, squares);
    squares.reset();
    Tensor shifted = torch::shift(eager, variance);
    variance.reset();
    Tensor factor = torch::rsqrt(eager, shifted);
    shifted.reset();
    output = torch::mul(eager, wide, factor);
  }
  Tensor wide_weight = torch::to(eager, weight, DType::kFp32);
  Tensor one_plus = torch::shift(eager, wide_weight);
  wide_weight.reset();
  output = torch::mul(eager, output, one_plus);
  one_plus.reset();
  return torch::to(eager, output, input.dtype());
}

/// CohereLayerNorm: fp32 mean and variance, a weight and no bias.
Tensor layer_no_bias(Eager& eager, const Tensor& input, const Tensor& weight) {
  Tensor hidden = torch::to(eager, input, DType::kFp32);
  Tensor mean = torch::mean_last(eager, hidden);
  Tensor centred = torch::sub(eager, hidden, mean);
  Tensor squares = torch::square(eager, centred);
  centred.reset();
  Tensor variance = torch::mean_last(eager, squares);
  squares.reset();
  Tensor difference = torch::sub(eager, hidden, mean);
  Tensor shifted = torch::shift(eager, variance);
  Tensor factor = torch::rsqrt(eager, shifted);
  shifted.reset();
  hidden = torch::mul(eager, difference, factor);
  difference.reset();
  factor.reset();
  Tensor wide_weight = torch::to(eager, weight, DType::kFp32);
  hidden = torch::mul(eager, wide_weight, hidden);
  wide_weight.reset();
  Tensor output = torch::to(eager, hidden, input.dtype());
  hidden.reset();
  mean.reset();
  variance.reset();
  return output;
}

}  // namespace

Tensor norm(Eager& eager, NormKind kind, const Tensor& input, const Tensor& weight,
            const Tensor& bias) {
  switch (kind) {
    case NormKind::kRms:
      return rms(eager, input, weight);
    case NormKind::kRmsT5:
      return rms_t5(eager, input, weight);
    case NormKind::kRmsFp32:
      return rms_fp32(eager, input, weight);
    case NormKind::kRmsGemma:
      return rms_gemma(eager, input, weight);
    case NormKind::kLayerNoBias:
      return layer_no_bias(eager, input, weight);
    case NormKind::kLayer:
      return torch::layer_norm(eager, input, weight, bias);
  }
  return input;
}

Tensor activation(Eager& eager, Activation kind, const Tensor& input) {
  switch (kind) {
    case Activation::kSilu:
      return torch::silu(eager, input);
    case Activation::kGelu:
    case Activation::kGeluTanh:
    case Activation::kGeluFast:
      return torch::gelu(eager, input);
    case Activation::kRelu:
      return torch::relu(eager, input);
    case Activation::kTanh:
      return torch::tanh(eager, input);
    case Activation::kGeluNew:
      break;
  }
  // NewGELUActivation: 0.5 * x * (1.0 + tanh(sqrt(2 / pi) * (x + 0.044715 * pow(x, 3.0))))
  Tensor half = torch::scale(eager, input);
  Tensor cubed = torch::cube(eager, input);
  Tensor term = torch::scale(eager, cubed);
  cubed.reset();
  Tensor inner = torch::add(eager, input, term);
  term.reset();
  Tensor scaled = torch::scale(eager, inner);
  inner.reset();
  Tensor bounded = torch::tanh(eager, scaled);
  scaled.reset();
  Tensor plus = torch::shift(eager, bounded);
  bounded.reset();
  return torch::mul(eager, half, plus);
}

namespace {

/// x * 0.5 * (1.0 + tanh(0.79788456 * x * (1 + 0.044715 * x * x))) outside autograd: the part up to
/// tanh, in the order of its temporaries.
Tensor python_tanh(const std::function<Tensor()>& make) {
  Tensor scaled = make();
  Tensor inner = make();
  inner = make();  // Times x.
  inner = make();  // Plus 1.
  Tensor product = make();
  inner.reset();
  scaled.reset();
  return make();
}

torch::Gradients python_gelu_gradient(const std::function<Tensor()>& make) {
  const Tensor bounded = python_tanh(make);
  Tensor half = make();
  Tensor square = make();
  Tensor rest = make();
  square.reset();
  Tensor term = make();
  term = make();
  term = make();
  Tensor slope = make();
  rest.reset();
  term.reset();
  Tensor left = make();
  slope.reset();
  half.reset();
  Tensor right = make();
  right = make();
  Tensor sum = make();
  left.reset();
  right.reset();
  return {make()};
}

}  // namespace

Tensor python_gelu(Eager& eager, const Tensor& input) {
  torch::Record record(eager, {&input});
  record.save(input);
  const auto make = [&] {
    Tensor part = torch::computed(eager, input.shape(), input.dtype());
    return part;
  };
  Tensor half = make();
  Tensor bounded = python_tanh(make);
  bounded = make();  // Plus 1.
  Tensor output = make();
  half.reset();
  bounded.reset();
  if (record.active()) {
    record.finish(output, [](Eager& e, torch::Gradients& grads, torch::Node& node) {
      const torch::Unpacked saved(e, node);
      const auto like = [&] { return torch::computed(e, grads[0].shape(), grads[0].dtype()); };
      return python_gelu_gradient(like);
    });
  }
  return output;
}

}  // namespace headroom::ir::transformers
