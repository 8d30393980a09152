#pragma once

#include <string>

#include <QWidget>

#include "gui/charts/timeline_data.h"
#include "gui/whatif/estimate_worker.h"

namespace headroom::gui::test {

/// The catalogue in the source tree.
[[nodiscard]] const std::string& catalogue();

/// GPT-2 with short sequences, fully fine-tuned on one A100 with transformers: small enough to be
/// answered within milliseconds.
[[nodiscard]] Scenario small_scenario();
/// The program's own answer to `small_scenario`, computed once.
[[nodiscard]] const Answer& small_answer();
/// The answer for a Llama of 16 layers with Megatron-Core on as many pipeline stages.
[[nodiscard]] Answer megatron_answer(std::int64_t stages);
/// The replay of `small_answer`, computed once.
[[nodiscard]] std::shared_ptr<const TimelineData> small_timeline();

/// A program of `count` events that allocates and frees blocks of random sizes and roles, with
/// phases of 1,000 events.
[[nodiscard]] ir::RankProgram random_program(std::size_t count, std::uint64_t seed);
/// Its estimate on a device without a limit.
[[nodiscard]] std::shared_ptr<const cost::StepEstimate> random_estimate(std::size_t count,
                                                                        std::uint64_t seed);

/// Whether a picture of `widget` has at least `least` colours: that of an empty chart has a few.
[[nodiscard]] bool has_colours(QWidget& widget, int least);

}  // namespace headroom::gui::test
