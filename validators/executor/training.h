#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "validators/executor/execution.h"
#include "validators/executor/stage.h"

namespace headroom::exec {

/// The steps of one rank: 1F1B over the micro-batches (Narayanan et al. 2021, PipeDream-2BW,
/// arXiv:2006.09503, figure 3), gradients of all of them, one AdamW step.
///
/// Model:   a data-parallel rank d of n runs the micro-batches d, d + n, d + 2 n, ... of a step, so
///          that one rank with n times as many micro-batches runs the same ones.
///          A step whose gradients are not finite is skipped and halves the loss scale, which
///          doubles after 2000 steps without one (torch.amp.GradScaler's defaults).
class Training {
 public:
  /// `context` outlives it.
  Training(Context& context, const Execution& execution);
  ~Training();
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  /// Runs the phase "load".
  void load();
  /// Runs the phases "stepN.forward" and so on. Numbers count from 1.
  void step(int number);

  /// Mean loss of the last step, over all ranks; on the last stage alone.
  [[nodiscard]] std::optional<double> loss() const { return loss_; }
  /// Norm of all gradients in the last step, before clipping, as the optimizer saw it; 0 if nobody
  /// asked for it.
  [[nodiscard]] std::optional<double> gradient_norm() const { return norm_; }
  /// Whether the optimizer's step was skipped, because gradients were not finite.
  [[nodiscard]] bool skipped() const { return skipped_; }
  [[nodiscard]] double loss_scale() const { return loss_scale_; }
  [[nodiscard]] const Stage& stage() const { return stage_; }

 private:
  /// A micro-batch between its forward and its backward.
  struct Running {
    std::unique_ptr<Tape> tape;
    Stage::Batch batch;
    Slot input = Slot::kNone;
    Slot output = Slot::kNone;
    ActivationOffload::Pass offload;
  };

  [[nodiscard]] Stage::Batch make_batch(std::int64_t micro_batch) const;
  void run_forward(std::int64_t micro_batch);
  void run_backward(std::int64_t micro_batch);
  void run_micro_batches();
  void begin_phase(ir::PhaseKind kind, std::int64_t micro_batch);
  void run_optimizer();
  void read_norm();
  void count_update();
  void make_codes();
  /// Rows of the residual stream that this rank has.
  [[nodiscard]] std::int64_t rows() const;

  Context& context_;
  const Execution& execution_;
  std::unique_ptr<CopyStream> copies_;
  std::optional<ActivationOffload> offload_;
  Stage stage_;
  std::deque<std::unique_ptr<Running>> running_;
  Tensor loss_sum_;
  Tensor factor_;
  Tensor squares_;
  Tensor partial_;
  Tensor signed_code_;
  Tensor unsigned_code_;
  int step_ = 0;
  std::int64_t updates_ = 0;  ///< Steps that were not skipped.
  std::int64_t since_skip_ = 0;
  double loss_scale_ = 1;
  bool skipped_ = false;
  std::optional<double> loss_;
  std::optional<double> norm_;
};

}  // namespace headroom::exec
