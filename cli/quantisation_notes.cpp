#include "cli/quantisation_notes.h"

#include "runtimes/checkpoint/loaded_weights.h"

namespace headroom::cli {

std::vector<std::string> quantisation_notes(const ir::ModelSpec& model,
                                            const ir::CheckpointQuantisation& quantisation) {
  std::string shares;
  std::string reason;
  std::string training;
  for (const ir::checkpoint::Loader loader : ir::checkpoint::kLoaders) {
    const ir::checkpoint::LoadedWeights loaded =
        ir::checkpoint::loaded_weights(model, &quantisation, loader);
    training += loaded.training;
    if (loaded.refused.empty()) {
      shares += (shares.empty() ? "" : " and ") + to_text(loaded.total) + " with " +
                std::string(name_of(loader));
    } else {
      reason = loaded.refused;
    }
  }
  std::string assumed = "the answer is for weights in the type of --precision";
  if (quantisation.method == ir::QuantMethod::kBitsAndBytes) {
    assumed += "; --qlora answers for weights in 4 or 8 bits";
  }
  return {"the weights are quantised (" + describe(quantisation) + "): " +
              (shares.empty() ? "what they take when they are loaded is not known (" + reason + ")"
                              : "loaded for inference, they take " + shares),
          assumed + (training.empty() ? "" : ". " + training)};
}

}  // namespace headroom::cli
