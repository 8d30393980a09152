#include "runtimes/litgpt/adapted_linear.h"

#include <algorithm>
#include <utility>

#include "runtimes/litgpt/packed_linear.h"
#include "runtimes/torch/functions.h"
#include "runtimes/torch/record.h"

namespace headroom::ir::litgpt {
namespace {

using torch::Eager;
using torch::Gradients;
using torch::Node;
using torch::Record;
using torch::Shape;
using torch::Tensor;

Tensor frozen_or_whole(Eager& eager, const Linear& layer, const Tensor& x) {
  return layer.packed ? packed_linear(eager, *layer.packed, x, layer.bias)
                      : torch::linear(eager, x, layer.weight, layer.bias);
}

/// F.conv1d with kernels of one position. The input [B, C, T] is a view of [B, T, C], which cuDNN
/// makes contiguous; the output is [B, out, T]. Autograd keeps the arguments.
Tensor convolve(Eager& eager, const Tensor& input, const Tensor& weight, std::int64_t out) {
  const Shape given = input.shape();
  Record record(eager, {&input, &weight});
  record.save(input);
  record.save(weight);
  const Tensor packed = eager.empty(given, input.dtype());
  Tensor output = eager.empty({given[0], out, given[1]}, input.dtype());
  if (record.active()) {
    record.finish(output, [](Eager& e, Gradients& grads, Node& node) -> Gradients {
      const torch::Unpacked saved(e, node);
      const Tensor packed_gradient = e.empty(grads[0].shape(), grads[0].dtype());
      Gradients result(2);
      if (node.wants(0)) {
        result[0] = e.empty(saved[0].shape(), saved[0].dtype());
      }
      if (node.wants(1)) {
        result[1] = e.empty(saved[1].shape(), saved[1].dtype());
      }
      return result;
    });
  }
  return output;
}

/// Rows of `weight` for each adapted part, as views (split). Backward joins their gradients.
std::vector<Tensor> weight_parts(Eager& eager, const Tensor& weight,
                                 const std::vector<std::int64_t>& sizes) {
  Record record(eager, {&weight});
  std::vector<Tensor> parts;
  for (const std::int64_t size : sizes) {
    parts.push_back(eager.alias(weight, weight.shape().with(0, size), true));
  }
  if (record.active()) {
    std::vector<Tensor*> outputs;
    for (Tensor& part : parts) {
      outputs.push_back(&part);
    }
    record.finish(outputs, [whole = weight.shape()](Eager& e, Gradients& grads, Node&) {
      return Gradients{e.empty(whole, grads[0].dtype())};
    });
  }
  return parts;
}

/// torch.cat of tensors [B, C_i, T] along the channels. Backward returns views.
Tensor join_channels(Eager& eager, const std::vector<Tensor>& parts) {
  std::int64_t channels = 0;
  std::vector<Shape> shapes;
  for (const Tensor& part : parts) {
    channels += part.shape()[1];
    shapes.push_back(part.shape());
  }
  Record record(eager, parts);
  Tensor joined = eager.empty(shapes[0].with(1, channels), parts[0].dtype());
  if (record.active()) {
    record.finish(joined, [shapes](Eager& e, Gradients& grads, Node&) -> Gradients {
      Gradients result;
      for (const Shape& shape : shapes) {
        result.push_back(e.alias(grads[0], shape, true));
      }
      return result;
    });
  }
  return joined;
}

/// The output of lora_B: [B, output width of the adapted parts, T].
Tensor project_up(Eager& eager, const Model& model, const FusedLinear& layer, const Tensor& low) {
  const ModelSpec& spec = *model.spec;
  const std::int64_t out = layer.linear.b.shape()[0];
  if (spec.heads == spec.kv_heads) {
    return convolve(eager, low, layer.linear.b, out);
  }
  std::vector<std::int64_t> sizes;
  for (std::size_t i = 0; i < layer.adapted.size(); ++i) {
    if (layer.adapted[i]) {
      sizes.push_back((i == 0 ? spec.heads : spec.kv_heads) * spec.head_dim);
    }
  }
  const std::vector<std::int64_t> ranks(sizes.size(), model.plan->lora->rank);
  const std::vector<Tensor> lows = torch::split_last(eager, low, ranks);
  const std::vector<Tensor> weights = weight_parts(eager, layer.linear.b, sizes);
  std::vector<Tensor> parts;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    parts.push_back(convolve(eager, lows[i], weights[i], sizes[i]));
  }
  return join_channels(eager, parts);
}

/// zero_pad: index_copy into zeros keeps the index; it keeps its source, too, but only for its
/// shape.
/// Source: pytorch/pytorch tools/autograd/derivatives.yaml, index_copy.
Tensor zero_pad(Eager& eager, const Tensor& part, std::int64_t width) {
  const Shape& given = part.shape();  // [B, C, T]
  const std::int64_t rows = given[0] * given[2];
  Tensor zeros = eager.empty({rows, width}, part.dtype());
  const Tensor index = eager.empty({given[1]}, DType::kInt64);
  Tensor source = eager.alias(part, {rows, given[1]}, true);
  Record record(eager, {&part});
  if (given[0] > 1) {
    source = eager.empty({rows, given[1]}, part.dtype());
  }
  record.save(index);
  record.save(source);
  Tensor padded = eager.empty({given[0], given[2], width}, part.dtype());
  zeros.reset();
  if (record.active()) {
    record.finish(padded, [given](Eager& e, Gradients& grads, Node& node) -> Gradients {
      const torch::Unpacked saved(e, node);
      return {e.empty(given, grads[0].dtype())};
    });
  }
  return padded;
}

}  // namespace

Tensor apply_linear(Eager& eager, const Model& model, const Linear& layer, const Tensor& x) {
  const Tensor pretrained = frozen_or_whole(eager, layer, x);
  if (!layer.a.defined()) {
    return pretrained;
  }
  Tensor dropped = torch::dropout(eager, x, model.plan->lora->dropout);
  Tensor low = torch::linear(eager, dropped, layer.a, {});
  dropped.reset();
  Tensor high = torch::linear(eager, low, layer.b, {});
  low.reset();
  const Tensor scaled = torch::scale(eager, high);
  high.reset();
  return torch::add(eager, pretrained, scaled);
}

Tensor apply_fused(Eager& eager, const Model& model, const FusedLinear& layer, const Tensor& x) {
  const Tensor pretrained = frozen_or_whole(eager, layer.linear, x);
  if (!layer.linear.a.defined()) {
    return pretrained;
  }
  Tensor dropped = torch::dropout(eager, x, model.plan->lora->dropout);
  const Tensor low = torch::linear(eager, dropped, layer.linear.a, {});
  dropped.reset();
  const Tensor high = project_up(eager, model, layer, low);
  const bool whole =
      std::all_of(layer.adapted.begin(), layer.adapted.end(), [](bool adapted) { return adapted; });
  Tensor padded = whole ? torch::view(eager, high, pretrained.shape())
                        : zero_pad(eager, high, pretrained.shape()[-1]);
  const Tensor scaled = torch::scale(eager, padded);
  padded.reset();
  return torch::add(eager, pretrained, scaled);
}

}  // namespace headroom::ir::litgpt
