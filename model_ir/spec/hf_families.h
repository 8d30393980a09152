#pragma once

#include "model_ir/spec/hf_fields.h"
#include "model_ir/spec/model_spec.h"

/// One function per family of model code. `model` comes in with its family set and leaves complete
/// except for `name` and `checkpoint_dtype`. Faults are noted in `fields`.
///
/// Source: huggingface/transformers 5.17.0, src/transformers/models/*/configuration_*.py (defaults)
/// and modeling_*.py (structure). Keys that change no tensor are left unread.
namespace headroom::ir::hf {

// hf_llama_like.cpp
void read_llama(const HfFields& fields, ModelSpec& model);
void read_mistral(const HfFields& fields, ModelSpec& model);
void read_qwen2(const HfFields& fields, ModelSpec& model);
void read_qwen3(const HfFields& fields, ModelSpec& model);
void read_phi3(const HfFields& fields, ModelSpec& model);
void read_granite(const HfFields& fields, ModelSpec& model);
void read_olmo2(const HfFields& fields, ModelSpec& model);
void read_cohere(const HfFields& fields, ModelSpec& model);
void read_starcoder2(const HfFields& fields, ModelSpec& model);
void read_glm4(const HfFields& fields, ModelSpec& model);
void read_stablelm(const HfFields& fields, ModelSpec& model);

// hf_gemma.cpp
void read_gemma(const HfFields& fields, ModelSpec& model);
void read_gemma2(const HfFields& fields, ModelSpec& model);
void read_gemma3_text(const HfFields& fields, ModelSpec& model);

// hf_moe.cpp
void read_mixtral(const HfFields& fields, ModelSpec& model);
void read_qwen2_moe(const HfFields& fields, ModelSpec& model);
void read_qwen3_moe(const HfFields& fields, ModelSpec& model);
void read_deepseek_v2(const HfFields& fields, ModelSpec& model);
void read_deepseek_v3(const HfFields& fields, ModelSpec& model);
void read_gpt_oss(const HfFields& fields, ModelSpec& model);

// hf_classic.cpp
void read_gpt2(const HfFields& fields, ModelSpec& model);
void read_gpt_neox(const HfFields& fields, ModelSpec& model);
void read_opt(const HfFields& fields, ModelSpec& model);
void read_bloom(const HfFields& fields, ModelSpec& model);
void read_falcon(const HfFields& fields, ModelSpec& model);
void read_bert(const HfFields& fields, ModelSpec& model);
void read_t5(const HfFields& fields, ModelSpec& model);

}  // namespace headroom::ir::hf
