#pragma once

#include <string>
#include <string_view>

#include "costmodel/memory/allocator_state.h"
#include "model_ir/plan/parallel_plan.h"
#include "model_ir/plan/rank_program.h"

namespace headroom::cost {

/// One line per event, after a line of names:
/// `event,phase,step,kind,role,operator,layer,bytes,allocated,reserved`.
///
/// Units:   bytes: `bytes` as requested, `allocated` and `reserved` after the event. `step` is
///          empty outside a training step, `layer` outside the layers. `kind` is allocate, free,
///          empty_cache, or out_of_memory in the last line of a program that does not fit. Backward
///          operators end in ".backward".
[[nodiscard]] std::string timeline_csv(const ir::RankProgram& program,
                                       const ir::AllocatorSettings& settings, Bytes capacity);

/// The same in the Trace Event Format that chrome://tracing and ui.perfetto.dev open: phases and
/// operators as slices, bytes by role and reserved bytes as counters.
///
/// Units:   bytes; the clock is logical, one microsecond per event.
/// `more`:  events of other processes, as `stream_events` writes them, with their own clock.
/// Source:  "Trace Event Format", Chromium project, 2016, sections Complete, Counter and Metadata.
[[nodiscard]] std::string chrome_trace(const ir::RankProgram& program,
                                       const ir::AllocatorSettings& settings, Bytes capacity,
                                       std::string_view more = {});

/// The allocator's history and its last state in the form of torch.cuda.memory._dump_snapshot: a
/// pickle for pytorch.org/memory_viz and torch.cuda._memory_viz. Each allocation's "stack" is its
/// operator, its role and its phase.
///
/// Units:   bytes; `time_us` is the number of the event.
/// Source:  pytorch/pytorch torch/csrc/cuda/memory_snapshot.cpp and
/// torch/cuda/_memory_viz.py, 2.11.
[[nodiscard]] std::string memory_viz_pickle(const ir::RankProgram& program,
                                            const ir::AllocatorSettings& settings, Bytes capacity);

}  // namespace headroom::cost
