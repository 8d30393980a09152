#include "runtimes/deepspeed/launch.h"

#include <algorithm>
#include <string>

#include "runtimes/transformers/launch.h"

namespace headroom::ir::deepspeed {

Launch deepspeed_launch(const ModelSpec& model, const ParallelPlan& plan, const LaunchSite& site) {
  const std::int64_t local = std::min(plan.world, site.gpus_per_node);
  const std::int64_t nodes = (plan.world + local - 1) / local;
  // Source: deepspeedai/DeepSpeed deepspeed/launcher/runner.py, parse_args.
  Launch launch{.command = {"deepspeed"},
                .code = transformers::script_lines(model, plan, site.model)};
  if (nodes > 1) {
    append_words(launch.command, {"--hostfile", "hostfile", "--num_nodes", std::to_string(nodes)});
  }
  append_words(launch.command,
               {"--num_gpus", std::to_string(local), "train.py", "--deepspeed", "ds_config.json"});
  append_words(launch.command, transformers::training_arguments(plan));
  return launch;
}

}  // namespace headroom::ir::deepspeed
