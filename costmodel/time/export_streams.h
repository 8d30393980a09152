#pragma once

#include <string>

#include "costmodel/time/pipeline_makespan.h"
#include "costmodel/time/stream_replay.h"
#include "model_ir/plan/rank_program.h"

namespace headroom::cost {

/// Rows of streams and stages in the Trace Event Format, for `chrome_trace`: one event per line,
/// separated by commas, without a final comma.
///
/// Model:   process 2 has a row for every stream of one rank, consecutive items of one operator as
///          one slice; process 3 has one for every stage of `pipeline`, if there is one: "forward
///          3", "backward 3", with the chunk if a stage has several.
/// Units:   microseconds.
[[nodiscard]] std::string stream_events(const ir::RankProgram& program,
                                        const StreamTimeline& timeline,
                                        const PipelineTimeline* pipeline);

}  // namespace headroom::cost
