#include "runtimes/transformers/masks.h"
#include "runtimes/torch/functions.h"
#include "runtimes/torch/launch.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

#include "model_ir/base/check.h"
#include "runtimes/transformers/library_version.h"
#include "runtimes/transformers/modeling.h"

namespace headroom::ir::transformers {
namespace {

using torch::Eager;
using torch::Shape;
using torch::Tensor;

class MaskMaker {
 public:
  MaskMaker(Eager& eager, const Model& model, const MaskInput& input)
      : eager_(eager),
        input_(input),
        batch_(model.plan->workload.micro_batch),
        sequence_(model.plan->workload.sequence),
        tokens_(input.padding.defined() ? input.padding.shape()[1] : sequence_),
        padded_(model.plan->workload.padded_batch),
        flash_(model.plan->attention == AttentionKind::kFlash),
        eager_attention_(runs_eager(*model.spec, *model.plan)),
        source_(modeling_of(*model.spec, *model.plan).mask),
        keys_alone_(modeling_of(*model.spec, *model.plan).masks_keys_alone),
        library_(library_traits(*model.spec, *model.plan)) {}

  /// Every token sees all others that are no padding.
  Tensor make_bidirectional() {
    keys_ = tokens_;
    const Tensor padding = temporary({batch_, tokens_}, DType::kBool);
    if (!eager_attention_) {
      const Tensor all = temporary({}, DType::kBool);  // padding_mask.all()
    }
    const Tensor batches = temporary({batch_}, DType::kInt64);
    const Tensor heads = temporary({1}, DType::kInt64);
    const Tensor queries = positions(sequence_);
    const Tensor keys = positions(tokens_);
    Tensor allowed =
        joint({.causal = false, .windowed = false}, padding, Shape{1, 1, sequence_, tokens_});
    return eager_attention_ ? additive(std::move(allowed)) : allowed;
  }

  /// `window`: number of tokens that a layer sees; none: all earlier ones.
  Tensor make(const std::optional<std::int64_t>& window) {
    const std::int64_t past = tokens_ - sequence_;
    keys_ = window && *window > 0 && past >= *window ? *window - 1 + sequence_ : tokens_;
    if (library_.fourth) {
      return make_of_four(window);
    }
    Tensor padding;
    if (input_.padding.defined()) {
      padding = temporary({batch_, tokens_}, DType::kBool);
    } else if (source_ == MaskSource::kPositions) {
      check_packed();
    }
    if (flash_) {
      return {};  // Causality and windows are arguments of the kernel.
    }
    const bool cuts = window && keys_ >= *window;
    if (!eager_attention_ && source_ != MaskSource::kAlways) {
      cut_to_window();
    }
    if (!eager_attention_ && !cuts && source_ != MaskSource::kAlways) {
      if (!padding.defined()) {
        return {};
      }
      sum_of(padding);
      if (!padded_) {
        return {};  // All ones: dropped.
      }
      sum_of(padding);  // Nor ones followed by padding.
    }
    Tensor allowed = boolean(window.has_value(), padding);
    return eager_attention_ ? additive(std::move(allowed)) : allowed;
  }

 private:
  Tensor temporary(const Shape& shape, DType dtype) {
    return torch::computed(eager_, shape, dtype, TensorRole::kTemporary);
  }

  /// 4.x, if no mask is passed or the model makes one of ones.
  Tensor make_of_four(const std::optional<std::int64_t>& window) {
    if (library_.masks_packed) {
      const bool checks = source_ != MaskSource::kUnchecked;
      const Tensor numbers = checks ? number_packed() : Tensor{};
      Tensor allowed = checks ? packed(window.has_value()) : unpacked(window.has_value());
      return eager_attention_ ? additive(std::move(allowed)) : allowed;
    }
    if (library_.makes_no_mask) {
      return {};
    }
    if (eager_attention_) {
      return filled_mask();
    }
    if (input_.padding.defined()) {
      check_ones();
    }
    return {};
  }

  /// torch.all(mask == 1), which the host reads.
  void check_ones() {
    const Tensor ones = temporary(input_.padding.shape(), DType::kBool);
    const Tensor all = temporary({}, DType::kBool);
  }

  /// _prepare_4d_causal_attention_mask_with_cache_position: [S, S + 1], expanded to every sequence;
  /// with a mask of ones [B, 1, S, S].
  Tensor filled_mask() {
    const bool padded = input_.padding.defined();
    const std::int64_t columns = sequence_ + (padded || keys_alone_ ? 0 : 1);
    const Shape shape{1, 1, sequence_, columns};
    Tensor mask = temporary(shape, input_.dtype);
    if (!library_.ranges_masks) {
      mask = temporary(shape, input_.dtype);  // triu
    }
    {
      const Tensor range = temporary({columns}, DType::kInt64);
      const Tensor hidden = temporary(shape, DType::kBool);
    }
    return padded ? hide_padding(mask) : mask;
  }

  Tensor hide_padding(Tensor& filled) {
    const Shape shape{batch_, 1, sequence_, sequence_};
    Tensor mask = temporary(shape, input_.dtype);  // clone()
    filled.reset();
    Tensor sum = temporary(shape, DType::kFp32);  // The mask of ones is fp32.
    const Tensor hidden = temporary(shape, DType::kBool);
    sum.reset();
    const Tensor covered = temporary(shape, input_.dtype);
    return mask;
  }

  /// The index of each token's packed sequence, gathered for rows or columns.
  Tensor gathered() {
    const Shape shape{batch_, sequence_};
    const Tensor rows = temporary(shape, DType::kInt64);
    const Tensor columns = batch_ > 1 ? temporary(shape, DType::kInt64) : Tensor{};
    return temporary(shape, DType::kInt64);
  }

  /// A window's mask function: ones, a lower bound and causality combined.
  Tensor windowed(const Shape& square) {
    Tensor ones = temporary({sequence_}, DType::kBool);
    Tensor bound = temporary({sequence_}, DType::kInt64);
    Tensor inside = temporary(square, DType::kBool);
    bound.reset();
    Tensor joined = temporary(square, DType::kBool);
    inside.reset();
    ones.reset();
    const Tensor causal = temporary(square, DType::kBool);
    return temporary(square, DType::kBool);
  }

  /// sdpa_mask if no positions are passed: [1, 1, S, S].
  Tensor unpacked(bool in_window) {
    const Shape square{1, 1, sequence_, sequence_};
    Tensor keys = temporary({sequence_}, DType::kInt64);
    Tensor batches = temporary({batch_}, DType::kInt64);
    Tensor heads = temporary({1}, DType::kInt64);
    Tensor mask = in_window ? windowed(square) : temporary(square, DType::kBool);
    keys.reset();
    batches.reset();
    heads.reset();
    return mask;
  }

  /// sdpa_mask with packed_sequence_mask_function: [B, 1, S, S].
  Tensor packed(bool in_window) {
    const Shape square{1, 1, sequence_, sequence_};
    const Tensor keys = temporary({sequence_}, DType::kInt64);
    const Tensor batches = temporary({batch_}, DType::kInt64);
    const Tensor heads = temporary({1}, DType::kInt64);
    Tensor all = temporary({sequence_}, DType::kBool);
    Tensor causal = in_window ? windowed(square) : temporary(square, DType::kBool);
    Tensor joined = temporary(square, DType::kBool);
    causal.reset();
    all.reset();
    Tensor rows = gathered();
    Tensor columns = gathered();
    const Tensor same = temporary(square.with(0, batch_), DType::kBool);
    rows.reset();
    columns.reset();
    Tensor mask = temporary(square.with(0, batch_), DType::kBool);
    joined.reset();
    return mask;
  }

  /// find_packed_sequence_indices until 4.57: the indices, without a check.
  Tensor number_packed() {
    const Tensor first = temporary({batch_, 1}, DType::kInt64);
    Tensor joined = temporary({batch_, sequence_ + 1}, DType::kInt64);
    const Tensor differences = temporary({batch_, sequence_}, DType::kInt64);
    joined.reset();
    const Tensor breaks = temporary({batch_, sequence_}, DType::kBool);
    const Tensor wide = temporary({batch_, sequence_}, DType::kInt64);
    Tensor numbers = temporary({batch_, sequence_}, DType::kInt64);
    scan_scratch(eager_, batch_, DType::kInt64);
    return numbers;
  }

  /// find_packed_sequence_indices
  void check_packed() {
    Tensor first = temporary({batch_, 1}, DType::kInt64);
    Tensor joined = temporary({batch_, sequence_ + 1}, DType::kInt64);
    Tensor differences = temporary({batch_, sequence_}, DType::kInt64);
    joined.reset();
    Tensor breaks = temporary({batch_, sequence_}, DType::kBool);
    Tensor breaks_wide = temporary({batch_, sequence_}, DType::kInt64);
    Tensor indices = temporary({batch_, sequence_}, DType::kInt64);
    scan_scratch(eager_, batch_, DType::kInt64);
    breaks_wide.reset();
    breaks.reset();
    Tensor same = temporary({batch_}, DType::kBool);
    // In a batch of one, the only one is copied.
    const Tensor all = eager_.empty({}, DType::kBool, TensorRole::kTemporary);
    torch::launch_copy(eager_, same, all,
                       batch_ > 1 ? torch::CopyOrder::kOther : torch::CopyOrder::kSame);
    same.reset();
    first.reset();
    differences.reset();
    indices.reset();
  }

  /// The layers' part of the padding mask is selected before any check.
  void cut_to_window() {
    if (keys_ < tokens_) {
      Tensor range = temporary({keys_}, DType::kInt64);
      const Tensor seen = temporary({keys_}, DType::kInt64);
      range.reset();
      const Tensor part = temporary({batch_, keys_}, DType::kBool);
    }
  }

  /// fast_all: sum() == numel()
  void sum_of(const Tensor& padding) {
    Tensor sum = temporary({}, DType::kInt64);
    Tensor wide = temporary(padding.shape(), DType::kInt64);
    wide.reset();
    Tensor equal = temporary({}, DType::kBool);
    sum.reset();
    equal.reset();
  }

  /// Which keys a query sees beside those that are padding.
  struct Sight {
    bool causal = true;
    bool windowed = false;
  };

  Tensor positions(std::int64_t tokens) {
    const Tensor range = temporary({tokens}, DType::kInt64);
    return temporary({tokens}, DType::kInt64);  // Plus the offset.
  }

  /// and_masks: ones, combined by `&` with the result of each mask function. A window's function is
  /// such a pair itself.
  Tensor joint(const Sight& sight, const Tensor& padding, const Shape& square) {
    const auto join = [this](Tensor& result, Tensor part, const Shape& shape) {
      Tensor joined = temporary(shape, DType::kBool);
      part.reset();
      result = std::move(joined);
    };
    Tensor result = temporary({}, DType::kBool);
    Tensor inner = sight.windowed && padding.defined() ? temporary({}, DType::kBool) : Tensor{};
    Tensor& first = inner.defined() ? inner : result;
    if (sight.windowed) {
      Tensor bound = temporary({sequence_}, DType::kInt64);
      Tensor inside = temporary(square, DType::kBool);
      bound.reset();
      join(first, std::move(inside), square);
    }
    // In an encoder, every query sees all keys: [1, 1, S, 1].
    const Shape seen = sight.causal ? square : square.with(3, 1);
    join(first, temporary(seen, DType::kBool), seen);
    if (inner.defined()) {
      join(result, std::move(inner), square);
    }
    if (padding.defined()) {
      // Indices are expanded to one shape and made contiguous if necessary.
      Tensor batch_index = temporary({batch_, keys_}, DType::kInt64);
      Tensor key_index = batch_ > 1 ? temporary({batch_, keys_}, DType::kInt64) : Tensor{};
      Tensor present = temporary({batch_, keys_}, DType::kBool);
      batch_index.reset();
      key_index.reset();
      join(result, std::move(present), square.with(0, batch_));
    }
    return result;
  }

  /// sdpa_mask: the result of the mask functions.
  Tensor boolean(bool windowed, const Tensor& padding) {
    const Shape square{1, 1, sequence_, keys_};
    Tensor batches = temporary({batch_}, DType::kInt64);
    Tensor heads = temporary({1}, DType::kInt64);
    Tensor queries = positions(sequence_);
    Tensor keys = positions(keys_);
    Tensor result;
    if (windowed || padding.defined()) {
      result = joint({.causal = true, .windowed = windowed}, padding, square);
    } else {
      result = temporary(square, DType::kBool);
    }
    batches.reset();
    heads.reset();
    queries.reset();
    keys.reset();
    return result;
  }

  /// eager_mask: 0 where allowed, else the lowest number.
  Tensor additive(Tensor allowed) {
    Tensor zero = temporary({}, input_.dtype);
    Tensor lowest = temporary({}, input_.dtype);
    Tensor mask = temporary({batch_, 1, sequence_, keys_}, input_.dtype);
    zero.reset();
    lowest.reset();
    allowed.reset();
    return mask;
  }

  Eager& eager_;
  const MaskInput& input_;
  std::int64_t batch_;
  std::int64_t sequence_;
  std::int64_t tokens_;    ///< With a cache, including the earlier ones.
  std::int64_t keys_ = 0;  ///< Keys that the current layers see.
  bool padded_;
  bool flash_;
  bool eager_attention_;
  MaskSource source_;
  bool keys_alone_;
  LibraryTraits library_;
};

}  // namespace

Tensor inverted_mask(Eager& eager, const Tensor& present, DType dtype) {
  const Shape& shape = present.shape();
  const Tensor narrow = torch::to(eager, present, dtype);
  const Tensor hidden = torch::computed(eager, shape, dtype);
  return torch::computed(eager, {shape[0], 1, 1, shape[1]}, dtype);
}

void scan_scratch(Eager& eager, std::int64_t rows, DType dtype) {
  if (rows == 1) {  // Observed on PyTorch 2.11.
    const std::int64_t bytes = dtype == DType::kInt64 ? 1279 : 1023;
    const Tensor scratch = eager.empty({bytes}, DType::kUInt8, TensorRole::kWorkspace);
    torch::launch_kernels(eager, 0);  // Resets its state.
  }
}

Masks make_masks(Eager& eager, const Model& model, const MaskInput& input) {
  MaskMaker maker(eager, model, input);
  const auto& layers = model.spec->layers;
  const auto windowed = std::find_if(layers.begin(), layers.end(), [](const LayerSpec& layer) {
    return layer.window.has_value();
  });
  const bool full = std::any_of(layers.begin(), layers.end(),
                                [](const LayerSpec& layer) { return !layer.window.has_value(); });
  Masks masks;
  if (full) {
    masks.full = maker.make(std::nullopt);
  }
  if (windowed != layers.end()) {
    masks.window = maker.make(windowed->window);
  } else if (modeling_of(*model.spec, *model.plan).makes_both_masks) {
    masks.window = maker.make(0);
  }
  return masks;
}

Tensor make_bidirectional_mask(Eager& eager, const Model& model, const MaskInput& input) {
  HEADROOM_ASSERT(input.padding.defined());
  return MaskMaker(eager, model, input).make_bidirectional();
}

Tensor make_alibi(Eager& eager, const Model& model, DType dtype) {
  const std::int64_t heads = model.spec->heads;
  const std::int64_t batch = model.plan->workload.micro_batch;
  const std::int64_t sequence = model.plan->workload.sequence;
  const std::int64_t power =
      static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(heads)));
  Tensor base = torch::computed(eager, {}, DType::kFp32);
  Tensor powers = torch::computed(eager, {power}, DType::kInt32);
  Tensor slopes = torch::computed(eager, {power}, DType::kFp32);
  if (power != heads) {
    const std::int64_t rest = std::min(power, heads - power);
    const Tensor extra_base = torch::computed(eager, {}, DType::kFp32);
    const Tensor extra_powers = torch::computed(eager, {rest}, DType::kInt32);
    const Tensor extra = torch::computed(eager, {rest}, DType::kFp32);
    slopes = torch::computed(eager, {heads}, DType::kFp32);
  }
  Tensor counts = torch::computed(eager, {batch, sequence}, DType::kFp32);
  scan_scratch(eager, batch, DType::kFp32);
  Tensor shifted = torch::computed(eager, {batch, sequence}, DType::kFp32);
  counts.reset();
  Tensor positions = torch::computed(eager, {batch, sequence}, DType::kFp32);
  shifted.reset();
  Tensor wide = torch::computed(eager, {batch * heads, 1, sequence}, DType::kFp32);
  Tensor alibi =
      dtype == DType::kFp32 ? wide : torch::computed(eager, {batch * heads, 1, sequence}, dtype);
  base.reset();
  powers.reset();
  slopes.reset();
  positions.reset();
  return alibi;
}

}  // namespace headroom::ir::transformers
