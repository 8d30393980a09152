#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "validators/executor/copy_stream.h"
#include "validators/executor/execution.h"
#include "validators/executor/experts.h"
#include "validators/executor/loss.h"
#include "validators/executor/operators.h"

namespace headroom::exec {

/// The layers [first, end) of a pipeline stage.
struct LayerRange {
  std::int64_t first = 0;
  std::int64_t end = 0;
};
/// Layers as evenly as possible; earlier stages have one more.
[[nodiscard]] LayerRange layers_of_stage(std::int64_t layers, int stages, int stage);

/// Activations that layers have saved, on their way to the host and back.
///
/// Model:  when a layer's forward has ended, its saved blocks are copied on the copy stream; they
///         are freed when the next layer's forward has ended. In backward, a layer's blocks are
///         taken again and filled while the layer behind it runs. The last layer stays.
class ActivationOffload {
 public:
  ActivationOffload(Context& context, CopyStream& copies) : context_(context), copies_(copies) {}

  using Saved = std::vector<std::shared_ptr<Storage>>;
  /// A micro-batch begins in forward: its layers follow, and are asked for in reverse order.
  struct Pass {
    struct Layer {
      Saved saved;
      std::vector<std::byte*> host;
      std::vector<HeadroomEvent> events;
      bool on_host = false;
    };
    std::vector<Layer> layers;
  };
  /// The layer that has just ended, and that is not the last, has saved `saved`.
  void leave(Pass& pass, Saved saved);
  /// Frees the blocks of the layer before the last that was left.
  void settle(Pass& pass);
  /// Backward of layer `index` of the pass begins.
  void enter(Pass& pass, std::size_t index);

 private:
  void free_blocks(Pass::Layer& layer);
  void fetch(Pass::Layer& layer);
  [[nodiscard]] std::byte* host_block(std::int64_t bytes);

  Context& context_;
  CopyStream& copies_;
  std::multimap<std::int64_t, std::byte*> unused_;  ///< Host blocks by size.
};

/// A rank's part of the model: the layers of its pipeline stage, each divided over the
/// tensor-parallel ranks.
class Stage {
 public:
  Stage(Context& context, const Execution& execution);

  /// Makes parameters, states, gradients and tables.
  void load(CopyStream* copies);

  struct Batch {
    Tensor tokens;  ///< Tokens of the first stage: [1, T] int32.
    LossSpec loss;  ///< Loss of the last stage.
  };
  /// One micro-batch. `input`: what the stage before has sent, [T, H]; empty on the first stage.
  /// Returns what the next stage needs; on the last stage, the loss is a part of the tape.
  [[nodiscard]] Var forward(Tape& tape, const Batch& batch, const Var& input,
                            ActivationOffload::Pass* pass);

  [[nodiscard]] const std::vector<std::unique_ptr<Unit>>& units() const { return units_; }
  [[nodiscard]] bool is_first() const { return execution_.division.stage() == 0; }
  [[nodiscard]] bool is_last() const {
    return execution_.division.stage() + 1 == execution_.division.pipeline;
  }
  [[nodiscard]] std::int64_t vocabulary_first() const { return vocabulary_.first; }
  void set_offload(ActivationOffload* offload) { offload_ = offload; }

 private:
  /// Parameters of a layer by what they are for; the index within its unit.
  struct LayerWeights {
    Unit* unit = nullptr;
    Weight norm1, bias1, norm2, bias2;
    Weight q, k, v, o, q_bias, k_bias, v_bias, o_bias, q_norm, k_norm;
    Weight gate, up, down, up_bias, down_bias, gate_bias;
    Weight router;
  };
  struct Names;  // Collects the parameters of a unit.

  [[nodiscard]] Unit& add_unit(std::uint64_t seed);
  void build_embedding();
  void build_layer(std::int64_t index);
  void build_head();
  void add_attention(Names& names, LayerWeights& layer);
  void add_mlp(Names& names, LayerWeights& layer, bool moe);

  [[nodiscard]] Var embed(Tape& tape, const Tensor& tokens);
  [[nodiscard]] Var run_layer(Tape& tape, const Var& x, std::int64_t index);
  [[nodiscard]] Var layer_body(Tape& tape, const Var& x, std::int64_t index);
  [[nodiscard]] Var attention(Tape& tape, const Var& x, const LayerWeights& layer,
                              std::int64_t index);
  [[nodiscard]] Var mlp(Tape& tape, const Var& x, const LayerWeights& layer, std::int64_t index);
  void head(Tape& tape, const LossSpec& loss, const Var& x);
  [[nodiscard]] const LayerWeights& layer_at(std::int64_t index) const {
    return layers_[static_cast<std::size_t>(index - range_.first)];
  }

  Context& context_;
  const Execution& execution_;
  LayerRange range_;
  LayerRange vocabulary_;  ///< This rank's rows of the embedding and of the head.
  NormSpec norm_;
  RopeSpec rope_;
  std::vector<std::unique_ptr<Unit>> units_;
  std::vector<std::uint64_t> seeds_;  ///< Seeds of the units.
  Unit* embedding_ = nullptr;
  Unit* head_ = nullptr;
  Weight table_, positions_, final_norm_, final_bias_, output_;
  std::vector<LayerWeights> layers_;
  ActivationOffload* offload_ = nullptr;
};

}  // namespace headroom::exec
