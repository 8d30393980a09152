# Linked PRIVATE by every target of ours. gui/ drops the two conversion flags, which Qt's own
# inline functions set off.
add_library(headroom_gui_warnings INTERFACE)
target_compile_options(headroom_gui_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wold-style-cast -Wnon-virtual-dtor -Woverloaded-virtual
  -Wcast-align -Wformat=2 -Wdouble-promotion -Wimplicit-fallthrough
  $<$<CXX_COMPILER_ID:GNU>:-Wduplicated-cond -Wduplicated-branches -Wlogical-op>
  # GCC 12 sees overlapping copies in plain string concatenation (gcc.gnu.org/PR105651).
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>
  $<$<BOOL:${HEADROOM_WERROR}>:-Werror>)
add_library(headroom_warnings INTERFACE)
target_link_libraries(headroom_warnings INTERFACE headroom_gui_warnings)
target_compile_options(headroom_warnings INTERFACE -Wconversion -Wsign-conversion)
if(HEADROOM_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Instrumented code sets off false alarms (GCC manual, -Wmaybe-uninitialized and -fsanitize).
  target_compile_options(headroom_gui_warnings INTERFACE -Wno-maybe-uninitialized)
endif()
