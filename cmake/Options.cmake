option(HEADROOM_BUILD_TESTS "Build the tests" ON)
option(HEADROOM_BUILD_BENCHMARKS "Build the benchmarks in tests/bench" OFF)
option(HEADROOM_WERROR "Treat warnings as errors" OFF)
set(HEADROOM_BUILD_GUI AUTO CACHE STRING "Build the window: AUTO (when Qt 6 is found), ON, OFF")
set_property(CACHE HEADROOM_BUILD_GUI PROPERTY STRINGS AUTO ON OFF)
option(HEADROOM_UNITY_BUILD "Compile several sources of a library at once; OFF: each alone" ON)
set(HEADROOM_SANITIZE "" CACHE STRING
    "Sanitizers for every target: \"\", \"address,undefined\" or \"thread\"")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release, RelWithDebInfo" FORCE)
endif()

find_program(HEADROOM_CCACHE ccache DOC "Compiler cache; used when found")
if(HEADROOM_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${HEADROOM_CCACHE})
endif()

# Every target of ours links this: the language level, the include root and the sanitizers.
add_library(headroom_options INTERFACE)
target_compile_features(headroom_options INTERFACE cxx_std_20)
target_include_directories(headroom_options INTERFACE ${PROJECT_SOURCE_DIR})
set(CMAKE_CXX_EXTENSIONS OFF)
if(HEADROOM_SANITIZE)
  target_compile_options(headroom_options INTERFACE -fsanitize=${HEADROOM_SANITIZE}
                         -fno-sanitize-recover=all -fno-omit-frame-pointer)
  # A null or wild pointer ends in a report of the address sanitizer anyway. Without these three
  # checks, a source of the command line compiles in 17 instead of 28 seconds.
  if(HEADROOM_SANITIZE MATCHES undefined)
    target_compile_options(headroom_options INTERFACE
                           -fno-sanitize=null,alignment,object-size)
  endif()
  target_link_options(headroom_options INTERFACE -fsanitize=${HEADROOM_SANITIZE})
endif()

# Code that runs briefly, such as the command line and the window: under sanitizers, it compiles in
# two thirds of the time this way. The engine stays optimised, because tests are slower without.
function(headroom_runs_briefly target)
  if(HEADROOM_SANITIZE)
    target_compile_options(${target} PRIVATE -Og)
  endif()
endfunction()

# Most of a source's compile time is its headers. Twelve of ours in one translation unit halve the
# build; more would make a change of one source slow. Names in anonymous namespaces are therefore
# unique within a library.
set(CMAKE_UNITY_BUILD ${HEADROOM_UNITY_BUILD})
set(CMAKE_UNITY_BUILD_BATCH_SIZE 12)
if(HEADROOM_SANITIZE) # these builds are made whole, so changes of one source matter less
  set(CMAKE_UNITY_BUILD_BATCH_SIZE 24)
endif()
