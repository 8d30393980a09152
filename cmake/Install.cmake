# `cmake --install build/release --prefix FOLDER`. The prefix can be moved afterwards: a program finds
# its catalogue in ../share/headroom/configs (model_ir/base/config_dir.h), the MPI module in
# ../lib/headroom (cli/ranks.cpp) and the files of dry runs in headroom/dryrun below both
# (validators/dryrun/dry_run_files.h). Package.cmake makes one Debian package of each component.
include(GNUInstallDirs)
set(HEADROOM_COMPONENTS program)
install(TARGETS headroom RUNTIME DESTINATION bin COMPONENT program)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/configs DESTINATION share/headroom COMPONENT program)
install(FILES ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CHANGELOG.md
        DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/headroom COMPONENT program)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs
        DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/headroom COMPONENT program)

if(TARGET headroom-gui)
  list(APPEND HEADROOM_COMPONENTS gui)
  install(TARGETS headroom-gui RUNTIME DESTINATION bin COMPONENT gui)
  # The measured runs that the window's page "Evidence" predicts anew (gui/models/evidence.h).
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/tests/measured/ DESTINATION share/headroom/measured
          COMPONENT gui FILES_MATCHING PATTERN "*.json*")
  install(FILES ${PROJECT_SOURCE_DIR}/gui/desktop/headroom-gui.desktop
          DESTINATION share/applications COMPONENT gui)
  install(FILES ${PROJECT_SOURCE_DIR}/gui/desktop/headroom.svg
          DESTINATION share/icons/hicolor/scalable/apps COMPONENT gui)
endif()
if(TARGET headroom_mpi)
  list(APPEND HEADROOM_COMPONENTS mpi)
  install(TARGETS headroom_mpi LIBRARY DESTINATION lib/headroom COMPONENT mpi)
endif()

if(TARGET headroom_cuda)  # OPTIONAL: the build of the program alone does not make it.
  install(FILES $<TARGET_FILE:headroom_cuda> DESTINATION ${CMAKE_INSTALL_LIBDIR}/headroom
          COMPONENT program OPTIONAL)
endif()

# The package of `program` is headroom, that of another component headroom-COMPONENT. Debian wants a
# file `copyright` in each, and has the text of the licence in one place for all packages.
function(headroom_package_name component result)
  if(component STREQUAL "program")
    set(${result} headroom PARENT_SCOPE)
  else()
    set(${result} headroom-${component} PARENT_SCOPE)
  endif()
endfunction()
foreach(component ${HEADROOM_COMPONENTS})
  headroom_package_name(${component} package)
  install(FILES ${PROJECT_SOURCE_DIR}/cmake/copyright
          DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/${package} COMPONENT ${component})
endforeach()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/headroom
        COMPONENT licence)  # not packaged

# Everything that is installed, and no tests.
add_custom_target(programs DEPENDS headroom)
foreach(target headroom-gui headroom_mpi)
  if(TARGET ${target})
    add_dependencies(programs ${target})
  endif()
endforeach()
