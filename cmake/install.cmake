# Installs the program, the archive, the headers, the CMake package and the pkg-config file.
if(TARGET pare)
    install(TARGETS pare RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(TARGETS pare_archive EXPORT pare-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
foreach(module IN ITEMS kernels runtime formats recipes calib quant compress)
    install(DIRECTORY ${PROJECT_SOURCE_DIR}/${module}
            DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/pare
            FILES_MATCHING PATTERN "*.h" PATTERN "*_internal.h" EXCLUDE
            PATTERN "cli" EXCLUDE PATTERN "demo" EXCLUDE PATTERN "ref" EXCLUDE PATTERN "x86" EXCLUDE)
endforeach()
install(EXPORT pare-targets NAMESPACE pare:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/pare)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/pare-config.cmake.in
    ${PROJECT_BINARY_DIR}/pare-config.cmake
    INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/pare)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/pare-config-version.cmake
    COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/pare-config.cmake ${PROJECT_BINARY_DIR}/pare-config-version.cmake
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/pare)
configure_file(${PROJECT_SOURCE_DIR}/cmake/pare.pc.in ${PROJECT_BINARY_DIR}/pare.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/pare.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
