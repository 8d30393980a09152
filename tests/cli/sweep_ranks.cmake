# A sweep by three processes has the lines of one, also after one of the three was killed.
# PROGRAM, MPIRUN, NUMBER (its option for the number of processes), FOLDER (for files).
set(sweep sweep gpt2 llama-3.2-1b --gpu a100-80gb,h100 --gpus 1,2 --runtime megatron --tp 1
    --micro-batch 1 --threads 1)
# Open MPI refuses root and more processes than cores unless told otherwise.
set(ENV{OMPI_ALLOW_RUN_AS_ROOT} 1)
set(ENV{OMPI_ALLOW_RUN_AS_ROOT_CONFIRM} 1)
set(ENV{OMPI_MCA_rmaps_base_oversubscribe} 1)
set(ENV{PRTE_MCA_rmaps_default_mapping_policy} ":oversubscribe")
file(REMOVE_RECURSE ${FOLDER})
file(MAKE_DIRECTORY ${FOLDER})

function(expect_same expected got)
  file(READ ${expected} one)
  file(READ ${got} other)
  if(NOT one STREQUAL other)
    message(FATAL_ERROR "${got} differs from ${expected}:\n${one}\n${other}")
  endif()
endfunction()

foreach(form jsonl csv)
  set(options --format ${form})
  execute_process(COMMAND ${PROGRAM} ${sweep} ${options} OUTPUT_FILE ${FOLDER}/one.${form}
                  COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${MPIRUN} ${NUMBER} 3 ${PROGRAM} ${sweep} ${options} --output
                          ${FOLDER}/three.${form} COMMAND_ERROR_IS_FATAL ANY)
  expect_same(${FOLDER}/one.${form} ${FOLDER}/three.${form})
  execute_process(COMMAND ${MPIRUN} ${NUMBER} 3 ${PROGRAM} ${sweep} ${options}
                  OUTPUT_FILE ${FOLDER}/printed.${form} COMMAND_ERROR_IS_FATAL ANY)
  expect_same(${FOLDER}/one.${form} ${FOLDER}/printed.${form})
endforeach()

# Whenever the one is killed, the rerun by two ends the same.
set(kill_one [[
test "x$OMPI_COMM_WORLD_RANK$PMI_RANK" != x1 || exec timeout -s KILL 0.8 "$@"
exec "$@"]])
execute_process(COMMAND ${MPIRUN} ${NUMBER} 3 sh -c "${kill_one}" sh ${PROGRAM} ${sweep} --output
                        ${FOLDER}/killed.jsonl OUTPUT_QUIET ERROR_QUIET)
execute_process(COMMAND ${MPIRUN} ${NUMBER} 2 ${PROGRAM} ${sweep} --output ${FOLDER}/killed.jsonl
                COMMAND_ERROR_IS_FATAL ANY)
expect_same(${FOLDER}/one.jsonl ${FOLDER}/killed.jsonl)
file(GLOB left ${FOLDER}/killed.jsonl.rank*)
if(left)
  message(FATAL_ERROR "left behind: ${left}")
endif()
