// NVRTC: programs are accepted and not compiled. PyTorch compiles some element-wise kernels at run
// time (jiterator: erfinv, which truncated normal initialisation uses).
#include <cstring>
#include <string>

#include "validators/dryrun/standin/device.h"

namespace headroom::standin {
namespace {

/// What stands for the compiled code.
constexpr char kCode[] = "// headroom dryrun: not compiled\n";

}  // namespace
}  // namespace headroom::standin

using namespace headroom::standin;  // NOLINT: this file defines C functions

extern "C" {

const char* nvrtcGetErrorString(int status) {
  return status == 0 ? "NVRTC_SUCCESS" : "NVRTC_ERROR_INTERNAL_ERROR";
}
int nvrtcCreateProgram(void** program, const char* /*source*/, const char* /*name*/,
                       int /*headers*/, const char* const* /*texts*/,
                       const char* const* /*names*/) {
  *program = new_handle();
  return 0;
}
int nvrtcDestroyProgram(void** program) {
  *program = nullptr;
  return 0;
}
int nvrtcGetLoweredName(void* /*program*/, const char* /*expression*/, const char** lowered) {
  *lowered = "kernel";
  return 0;
}
int nvrtcGetPTXSize(void* /*program*/, std::size_t* bytes) {
  *bytes = sizeof kCode;
  return 0;
}
int nvrtcGetPTX(void* /*program*/, char* code) {
  std::memcpy(code, kCode, sizeof kCode);
  return 0;
}
int nvrtcGetCUBINSize(void* program, std::size_t* bytes) {
  return nvrtcGetPTXSize(program, bytes);
}
int nvrtcGetCUBIN(void* program, char* code) {
  return nvrtcGetPTX(program, code);
}
int nvrtcGetProgramLogSize(void* /*program*/, std::size_t* bytes) {
  *bytes = 1;
  return 0;
}
int nvrtcGetProgramLog(void* /*program*/, char* log) {
  *log = '\0';
  return 0;
}
int nvrtcGetNumSupportedArchs(int* count) {
  *count = 1;
  return 0;
}
int nvrtcGetSupportedArchs(int* capabilities) {
  const Profile& profile = device().profile;
  *capabilities = 10 * profile.capability_major + profile.capability_minor;
  return 0;
}
}
