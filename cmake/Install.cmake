# The installed program finds its catalogue beside itself (model_ir/base/config_dir.h).
include(GNUInstallDirs)
foreach(program headroom headroom-gui)
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endforeach()
if(TARGET headroom_mpi)  # The program looks for it beside itself.
  install(TARGETS headroom_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/configs DESTINATION ${CMAKE_INSTALL_DATADIR}/headroom)
