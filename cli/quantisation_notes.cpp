#include "cli/quantisation_notes.h"

#include "runtimes/checkpoint/loaded_weights.h"

namespace headroom::cli {
namespace {

using ir::checkpoint::Loader;

/// "34.2 GiB with vLLM"; nothing if the bytes are not known.
std::string share_text(const ir::checkpoint::LoadedWeights& loaded) {
  return loaded.refused.empty()
             ? to_text(loaded.total) + " with " + std::string(name_of(loaded.loader))
             : std::string();
}

std::string loaded_text(const ir::checkpoint::LoadedWeights& transformers,
                        const ir::checkpoint::LoadedWeights& vllm) {
  const std::string first = share_text(transformers);
  const std::string second = share_text(vllm);
  if (first.empty() && second.empty()) {
    return "what they take when they are loaded is not known (" + vllm.refused + ")";
  }
  return "loaded for inference, they take " + first +
         (first.empty() || second.empty() ? "" : " and ") + second;
}

}  // namespace

std::vector<std::string> quantisation_notes(const ir::ModelSpec& model,
                                            const ir::CheckpointQuantisation& quantisation) {
  const auto transformers =
      ir::checkpoint::loaded_weights(model, &quantisation, Loader::kTransformers);
  const auto vllm = ir::checkpoint::loaded_weights(model, &quantisation, Loader::kVllm);
  std::string second = "the answer is for weights in the type of --precision";
  if (quantisation.method == ir::QuantMethod::kBitsAndBytes) {
    second += "; --qlora answers for weights in 4 or 8 bits";
  }
  return {"the weights are quantised (" + describe(quantisation) +
              "): " + loaded_text(transformers, vllm),
          second + ". " + transformers.training};
}

}  // namespace headroom::cli
