#include "runtimes/transformers/recording/unchanged_by_autocast.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace headroom::ir::transformers {
namespace {

constexpr std::array<std::string_view, 15> kLow = {
    "mm",     "addmm",  "bmm",         "baddbmm",      "addbmm", "mv",     "addmv", "addr",
    "matmul", "linear", "convolution", "_convolution", "conv1d", "conv2d", "prelu"};
constexpr std::array<std::string_view, 2> kWhole = {"scaled_dot_product_attention", "_grouped_mm"};
constexpr std::array<std::string_view, 44> kWide = {"native_layer_norm",
                                                    "layer_norm",
                                                    "native_group_norm",
                                                    "group_norm",
                                                    "_softmax",
                                                    "_log_softmax",
                                                    "nll_loss_forward",
                                                    "nll_loss2d_forward",
                                                    "linalg_vector_norm",
                                                    "norm",
                                                    "sum",
                                                    "prod",
                                                    "cumsum",
                                                    "cumprod",
                                                    "exp",
                                                    "expm1",
                                                    "log",
                                                    "log10",
                                                    "log1p",
                                                    "log2",
                                                    "pow",
                                                    "reciprocal",
                                                    "rsqrt",
                                                    "softplus",
                                                    "mse_loss",
                                                    "smooth_l1_loss",
                                                    "binary_cross_entropy_with_logits",
                                                    "kl_div",
                                                    "erfinv",
                                                    "tan",
                                                    "renorm",
                                                    "logsumexp",
                                                    "huber_loss",
                                                    "acos",
                                                    "asin",
                                                    "cosh",
                                                    "sinh",
                                                    "dist",
                                                    "cdist",
                                                    "_cdist_forward",
                                                    "linalg_matrix_norm",
                                                    "upsample_nearest2d",
                                                    "upsample_bilinear2d",
                                                    "upsample_bicubic2d"};

template <typename Range, typename Value>
bool has(const Range& range, const Value& value) {
  return std::ranges::find(range, value) != std::ranges::end(range);
}

bool has_sixteen_bits(DType type) {
  return type == DType::kBf16 || type == DType::kFp16;
}

/// Counts the operators of a variant that autocast has casts for.
class CastCounter {
 public:
  CastCounter(const Recording& recording, const RecordedVariant& variant)
      : recording_(recording), variant_(variant) {
    std::vector<DType> values(variant.forward.values, DType::kInt64);
    for (const RecordedOutput& input : variant.inputs) {
      set(values, input.target, input.dtype);
    }
    run(variant.forward, variant.forward_scope, values);
  }

  /// Operators that run in 16 bits under autocast and read fp32.
  [[nodiscard]] std::int64_t narrowed() const { return narrowed_; }
  /// Operators that run in fp32 under autocast and read 16 bits.
  [[nodiscard]] std::int64_t widened() const { return widened_; }

 private:
  static void set(std::vector<DType>& values, const Reference& target, DType type) {
    if (target.kind == Reference::Kind::kValue && target.index < values.size()) {
      values[target.index] = type;
    }
  }

  DType parameter(std::uint32_t index) const {
    return recording_.parameters[index].dtype.value_or(variant_.parameters);
  }

  DType type_of(const Reference& reference, const RecordedScope& scope,
                const std::vector<DType>& values) const {
    switch (reference.kind) {
      case Reference::Kind::kValue:
        return values[reference.index];
      case Reference::Kind::kParameter:
        return parameter(scope.parameters[reference.index]);
      case Reference::Kind::kBuffer:
        return recording_.buffers[scope.buffers[reference.index]].dtype;
      default:
        return DType::kInt64;
    }
  }

  void count(const Instruction& op, const std::vector<DType>& read) {
    // In code that was recorded under autocast, these have its casts inside.
    const bool whole = op.kind == Instruction::Kind::kLinear || has(kWhole, op.name);
    const bool low = whole ? !variant_.autocast : has(kLow, op.name);
    const bool wide = op.kind == Instruction::Kind::kOp && has(kWide, op.name);
    narrowed_ += low && has(read, DType::kFp32) ? 1 : 0;
    widened_ += wide && std::ranges::any_of(read, has_sixteen_bits) ? 1 : 0;
  }

  std::vector<DType> run_body(const RecordedBody& body, const RecordedScope& scope,
                              const std::vector<DType>& arguments) {
    std::vector<DType> values(body.code.values, DType::kInt64);
    std::copy_n(arguments.begin(), std::min<std::size_t>(arguments.size(), body.arguments),
                values.begin());
    run(body.code, scope, values);
    std::vector<DType> made;
    for (const std::uint32_t output : body.outputs) {
      made.push_back(values[output]);
    }
    return made;
  }

  void run(const RecordedCode& code, const RecordedScope& scope, std::vector<DType>& values) {
    for (const Instruction& step : code.instructions) {
      std::vector<DType> read;
      for (const Reference& input : step.inputs) {
        read.push_back(type_of(input, scope, values));
      }
      std::vector<DType> made;
      if (step.kind == Instruction::Kind::kLayer) {
        const RecordedLayer& layer = variant_.layers[step.index];
        made = run_body(variant_.bodies[layer.body], layer.scope, read);
      } else if (step.kind == Instruction::Kind::kRepeat) {
        made = run_body(step.loop->body, scope, read);
      } else {
        if (step.kind == Instruction::Kind::kLinear) {
          for (const std::uint32_t weight : recording_.modules[scope.modules[step.index]].linear) {
            read.push_back(parameter(weight));
          }
        }
        count(step, read);
      }
      for (std::size_t at = 0; at < step.outputs.size(); ++at) {
        set(values, step.outputs[at].target, at < made.size() ? made[at] : step.outputs[at].dtype);
      }
    }
  }

  const Recording& recording_;
  const RecordedVariant& variant_;
  std::int64_t narrowed_ = 0;
  std::int64_t widened_ = 0;
};

/// The code under autocast for the same sizes; null if there is none.
const RecordedVariant* under_autocast(const Recording& recording, const RecordedVariant& variant) {
  const auto found = std::ranges::find_if(recording.variants, [&](const RecordedVariant& one) {
    return one.autocast == DType::kBf16 && !one.quantised && one.attention == variant.attention &&
           one.micro_batch == variant.micro_batch && one.sequence_from == variant.sequence_from &&
           one.sequence_below == variant.sequence_below &&
           one.sequence_multiple == variant.sequence_multiple &&
           one.sequence_no_multiple == variant.sequence_no_multiple &&
           one.masks_made == variant.masks_made && one.images.kind == variant.images.kind;
  });
  return found == recording.variants.end() ? nullptr : &*found;
}

}  // namespace

bool unchanged_by_autocast(const Recording& recording, const RecordedVariant& variant) {
  const RecordedVariant* const cast = under_autocast(recording, variant);
  if (cast == nullptr) {
    return false;
  }
  const CastCounter plain(recording, variant);
  return plain.widened() == 0 && plain.narrowed() == CastCounter(recording, *cast).narrowed();
}

}  // namespace headroom::ir::transformers
