#include "model_ir/graph/param_table.h"

#include "model_ir/graph/param_writer.h"

namespace headroom::ir {

std::vector<ModelParameter> parameter_table(const ModelSpec& model, ExpertWeights experts) {
  ParameterWriter writer(model, experts);
  switch (model.family) {
    case Family::kLlama:
    case Family::kMistral:
    case Family::kMixtral:
    case Family::kQwen2:
    case Family::kQwen2Moe:
    case Family::kQwen3:
    case Family::kQwen3Moe:
    case Family::kGemma:
    case Family::kGemma2:
    case Family::kGemma3Text:
    case Family::kPhi3:
    case Family::kDeepseekV2:
    case Family::kDeepseekV3:
    case Family::kGptOss:
    case Family::kGranite:
    case Family::kOlmo2:
    case Family::kCohere:
    case Family::kStarcoder2:
    case Family::kGlm4:
    case Family::kStablelm:
      write_llama_like(writer);
      break;
    case Family::kGpt2:
      write_gpt2(writer);
      break;
    case Family::kGptNeox:
      write_gpt_neox(writer);
      break;
    case Family::kOpt:
      write_opt(writer);
      break;
    case Family::kBloom:
      write_bloom(writer);
      break;
    case Family::kFalcon:
      write_falcon(writer);
      break;
    case Family::kBert:
      write_bert(writer);
      break;
    case Family::kT5:
      write_t5(writer);
      break;
    case Family::kRecorded:
      break;  // recorded_graph lists its parameters.
  }
  return writer.take();
}

}  // namespace headroom::ir
