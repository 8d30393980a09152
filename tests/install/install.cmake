# An installed program answers from any folder and takes the catalogue that was installed with it.
# FORM (prefix: cmake --install; package: Debian packages by CPack), BUILD (the build folder), PROGRAM
# (built there), GUI (1 with the window), VERSION, SANITIZE, CPACK, FOLDER (for files).
cmake_policy(SET CMP0054 NEW)
file(REMOVE_RECURSE ${FOLDER})
file(MAKE_DIRECTORY ${FOLDER}/elsewhere)

# Runs COMMAND... in a folder that has no catalogue and leaves what it printed in `out`.
function(run)
  execute_process(COMMAND ${CMAKE_COMMAND} -E env --unset=HEADROOM_CONFIG_DIR
                          QT_QPA_PLATFORM=offscreen ${ARGN}
                  WORKING_DIRECTORY ${FOLDER}/elsewhere RESULT_VARIABLE result
                  OUTPUT_VARIABLE printed ERROR_VARIABLE said)
  list(JOIN ARGN " " command)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "`${command}` ended with ${result}:\n${printed}${said}")
  endif()
  set(out "${printed}" PARENT_SCOPE)
endfunction()

function(expect_file path)
  if(NOT EXISTS ${path})
    message(FATAL_ERROR "not installed: ${path}")
  endif()
endfunction()

function(expect_headroom prefix)
  set(question fit gpt2 --gpu a100-80gb)
  run(${PROGRAM} ${question})
  set(expected "${out}")
  run(${prefix}/bin/headroom ${question})
  if(NOT out STREQUAL expected)
    message(FATAL_ERROR "the installed program answers\n${out}\nand the built one\n${expected}")
  endif()
  run(${prefix}/bin/headroom catalog gpus --filter h100 --json)
  string(JSON catalogue GET "${out}" config_dir)
  string(JSON origin GET "${out}" config_dir_origin)
  if(NOT catalogue STREQUAL "${prefix}/share/headroom/configs" OR NOT origin STREQUAL "installed")
    message(FATAL_ERROR "the catalogue is not that of ${prefix}: ${catalogue} (${origin})")
  endif()
  expect_file(${prefix}/share/doc/headroom/copyright)
  expect_file(${prefix}/share/doc/headroom/README.md)
  expect_file(${prefix}/share/doc/headroom/docs/architecture.md)
endfunction()

function(expect_window prefix)
  run(${prefix}/bin/headroom-gui gpt2 --gpu a100-80gb --grab ${FOLDER}/window.png)
  expect_file(${FOLDER}/window.png)
  expect_file(${prefix}/share/applications/headroom-gui.desktop)
  expect_file(${prefix}/share/icons/hicolor/scalable/apps/headroom.svg)
  expect_file(${prefix}/share/doc/headroom-gui/copyright)
endfunction()

# --- cmake --install ----------------------------------------------------------------------------

if(FORM STREQUAL "prefix")
  run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${FOLDER}/first)
  file(RENAME ${FOLDER}/first ${FOLDER}/moved)  # an installation is not tied to its place
  expect_headroom(${FOLDER}/moved)
  expect_file(${FOLDER}/moved/share/doc/headroom/LICENSE)
  if(GUI)
    expect_window(${FOLDER}/moved)
  endif()
  return()
endif()

# --- Debian packages ----------------------------------------------------------------------------

find_program(DPKG_DEB dpkg-deb)
if(SANITIZE)
  message("skipped: programs with sanitizers are not packaged")
  return()
elseif(NOT CPACK OR NOT DPKG_DEB)
  message("skipped: cpack or dpkg-deb is missing")
  return()
endif()
# Compressing well takes longer than all the rest.
run(${CPACK} -G DEB --config ${BUILD}/CPackConfig.cmake -B ${FOLDER}/packages
    -D CPACK_DEBIAN_COMPRESSION_TYPE=gzip)

# Unpacks the package NAME and leaves its field FIELD in `out`.
function(unpack name field)
  file(GLOB package ${FOLDER}/packages/${name}_${VERSION}_*.deb)
  list(LENGTH package count)
  if(NOT count EQUAL 1)
    message(FATAL_ERROR "expected one package ${name}, got ${count}: ${package}")
  endif()
  run(${DPKG_DEB} -x ${package} ${FOLDER}/root)
  run(${DPKG_DEB} -f ${package} ${field})
  set(out "${out}" PARENT_SCOPE)
endfunction()

unpack(headroom Depends)
find_program(DPKG_SHLIBDEPS dpkg-shlibdeps)
find_program(FILE_UTILITY file)
if(DPKG_SHLIBDEPS AND FILE_UTILITY AND NOT out MATCHES "libc6")
  message(FATAL_ERROR "the package names no libraries that it needs: Depends: ${out}")
endif()
expect_headroom(${FOLDER}/root/usr)
if(GUI)
  unpack(headroom-gui Depends)
  if(NOT out MATCHES "headroom \\(= ${VERSION}\\)")
    message(FATAL_ERROR "the window needs the catalogue of its own version: Depends: ${out}")
  endif()
  expect_window(${FOLDER}/root/usr)
endif()
