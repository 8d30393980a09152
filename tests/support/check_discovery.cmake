# Compares what a test program says it holds with what CTest will run of it.
# cmake -DTESTS=PROGRAM -DENTRIES=FILE -P check_discovery.cmake
execute_process(COMMAND ${TESTS} --count OUTPUT_VARIABLE counted COMMAND_ERROR_IS_FATAL ANY)
if(NOT counted MATCHES "filters: ([0-9]+)")
  message(FATAL_ERROR "${TESTS} --count printed no number:\n${counted}")
endif()
set(cases ${CMAKE_MATCH_1})
file(STRINGS ${ENTRIES} entries REGEX "^add_test\\(")
list(LENGTH entries found)
if(NOT cases EQUAL found)
  message(FATAL_ERROR "the program holds ${cases} test cases, CTest knows ${found}: "
                      "a name holds ';' or an unpaired bracket")
endif()
message("${cases} cases, all known to CTest")
