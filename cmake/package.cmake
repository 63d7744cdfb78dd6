# The umbrella target, installation, and the package that find_package(ringgrad) reads.
include(CMakePackageConfigHelpers)

get_property(libraries GLOBAL PROPERTY RINGGRAD_LIBRARIES)
add_library(ringgrad INTERFACE)
add_library(ringgrad::ringgrad ALIAS ringgrad)
# The emulator stands behind the kernels; its cuda_runtime.h is nothing to include.
set(offered ${libraries})
list(REMOVE_ITEM offered ringgrad_emulator)
target_link_libraries(ringgrad INTERFACE ${offered})

install(TARGETS ringgrad ${libraries} EXPORT ringgrad-targets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS ringgrad_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
foreach(folder runtime kernels engine models data comm training)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${folder}
          DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/ringgrad FILES_MATCHING PATTERN "*.h")
endforeach()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ringgrad)
install(EXPORT ringgrad-targets NAMESPACE ringgrad:: DESTINATION ${package_dir})
configure_package_config_file(cmake/ringgrad-config.cmake.in
                              ${PROJECT_BINARY_DIR}/ringgrad-config.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/ringgrad-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/ringgrad-config.cmake
              ${PROJECT_BINARY_DIR}/ringgrad-config-version.cmake
              third_party/dependencies.cmake
        DESTINATION ${package_dir})
