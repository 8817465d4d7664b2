# Installs the program with its completion in shells and its pages for man, its licence, the recipes with the demo model, the archive,
# the headers, the CMake package and the pkg-config file.
install(TARGETS pare RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
if(NOT CMAKE_CROSSCOMPILING)
    set(pare_shells ${CMAKE_INSTALL_DATADIR})
    install(FILES ${PROJECT_BINARY_DIR}/completion.bash RENAME pare
            DESTINATION ${pare_shells}/bash-completion/completions)
    install(FILES ${PROJECT_BINARY_DIR}/completion.zsh RENAME _pare
            DESTINATION ${pare_shells}/zsh/site-functions)
    install(FILES ${PROJECT_BINARY_DIR}/completion.fish RENAME pare.fish
            DESTINATION ${pare_shells}/fish/vendor_completions.d)
    install(FILES ${PROJECT_BINARY_DIR}/pare.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
    install(FILES ${PROJECT_BINARY_DIR}/pare-recipe.5 DESTINATION ${CMAKE_INSTALL_MANDIR}/man5)
endif()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/recipes/ DESTINATION ${CMAKE_INSTALL_DATADIR}/pare/recipes
        FILES_MATCHING PATTERN "*.yaml" PATTERN "config.json" PATTERN "out" EXCLUDE
        PATTERN "demo" EXCLUDE)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/recipes/demo DESTINATION ${CMAKE_INSTALL_DATADIR}/pare/recipes
        PATTERN "out" EXCLUDE)
if(TARGET pare-hdf5)
    install(TARGETS pare-hdf5 RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/pare)
endif()
install(TARGETS pare_archive EXPORT pare-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
foreach(module IN ITEMS kernels runtime solve formats recipes calib quant prune distill compress)
    install(DIRECTORY ${PROJECT_SOURCE_DIR}/${module}
            DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/pare
            FILES_MATCHING PATTERN "*.h" PATTERN "*_internal.h" EXCLUDE PATTERN "version.h" EXCLUDE
            PATTERN "cli" EXCLUDE PATTERN "demo" EXCLUDE PATTERN "ref" EXCLUDE PATTERN "x86" EXCLUDE
            PATTERN "arm" EXCLUDE)
endforeach()
install(EXPORT pare-targets NAMESPACE pare:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/pare)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/pare-config.cmake.in
    ${PROJECT_BINARY_DIR}/pare-config.cmake
    INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/pare)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/pare-config-version.cmake
    COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/pare-config.cmake ${PROJECT_BINARY_DIR}/pare-config-version.cmake
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/pare)
# Relative to the file itself, so that an installed tree may be moved (cmake --install --prefix).
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}" OR IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
    set(pare_pc_prefix ${CMAKE_INSTALL_PREFIX})
    set(pare_pc_libdir ${CMAKE_INSTALL_FULL_LIBDIR})
    set(pare_pc_includedir ${CMAKE_INSTALL_FULL_INCLUDEDIR})
else()
    file(RELATIVE_PATH pare_pc_up /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
    string(REGEX REPLACE "/$" "" pare_pc_prefix "\${pcfiledir}/${pare_pc_up}")
    set(pare_pc_libdir "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
    set(pare_pc_includedir "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
endif()
if(PARE_MPI)
    set(pare_pc_mpi " ompi-c")
endif()
configure_file(${PROJECT_SOURCE_DIR}/cmake/pare.pc.in ${PROJECT_BINARY_DIR}/pare.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/pare.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
