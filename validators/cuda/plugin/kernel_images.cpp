#include "validators/cuda/plugin/kernel_images.h"

// The assembler reads the files that nvcc has written; HEADROOM_KERNEL_FOLDER is theirs.
#define HEADROOM_IMAGE(name)                              \
  extern "C" const unsigned char headroom_image_##name[]; \
  asm(".section .rodata\n"                                \
      ".balign 16\n"                                      \
      ".hidden headroom_image_" #name                     \
      "\n"                                                \
      ".global headroom_image_" #name                     \
      "\n"                                                \
      "headroom_image_" #name                             \
      ":\n"                                               \
      ".incbin \"" HEADROOM_KERNEL_FOLDER "/" #name       \
      ".fatbin\"\n"                                       \
      ".previous\n");

HEADROOM_IMAGE(attention_rows)
HEADROOM_IMAGE(attention_tiles)
HEADROOM_IMAGE(data)
HEADROOM_IMAGE(elementwise)
HEADROOM_IMAGE(experts)
HEADROOM_IMAGE(fp8)
HEADROOM_IMAGE(loss)
HEADROOM_IMAGE(norm)
HEADROOM_IMAGE(optimizer)

namespace headroom::cuda {

const std::array<const void*, kKernelImages>& kernel_images() {
  static const std::array<const void*, kKernelImages> images = {
      headroom_image_attention_rows, headroom_image_attention_tiles,
      headroom_image_data,           headroom_image_elementwise,
      headroom_image_experts,        headroom_image_fp8,
      headroom_image_loss,           headroom_image_norm,
      headroom_image_optimizer};
  return images;
}

}  // namespace headroom::cuda
