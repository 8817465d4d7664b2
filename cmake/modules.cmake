# How every module is compiled, here and for other processors (tests/kernels/cross).
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

# -ffp-contract=off: a multiply and an add stay two operations unless the code says fma, so that the
# bytes of a result do not depend on the compiler. gcc cannot know that pare_fail never returns
# PARE_OK, so it takes what a failed call leaves unset for used; valgrind runs a whole job instead.
add_library(pare_flags INTERFACE)
target_compile_options(pare_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes
    -Wmissing-prototypes -Wvla -Wconversion -Wsign-conversion -ffp-contract=off -fno-math-errno
    $<$<C_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
target_compile_definitions(pare_flags INTERFACE _XOPEN_SOURCE=700 _FILE_OFFSET_BITS=64
    PARE_VERSION="${PROJECT_VERSION}")

get_filename_component(pare_root ${CMAKE_CURRENT_LIST_DIR} DIRECTORY)

# pare_module(<name> DEPENDS <module>... USES <library>... SOURCES <file>...): the only way to add a
# module. USES libraries are seen by this module alone.
set(PARE_OBJECTS "" CACHE INTERNAL "")
set(PARE_LIBRARIES "" CACHE INTERNAL "")
function(pare_module name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "DEPENDS;USES;SOURCES")
    add_library(pare_${name} OBJECT ${arg_SOURCES})
    target_include_directories(pare_${name} PUBLIC ${pare_root})
    target_link_libraries(pare_${name} PRIVATE pare_flags ${arg_USES})
    foreach(module IN LISTS arg_DEPENDS)
        target_link_libraries(pare_${name} PUBLIC pare_${module})
    endforeach()
    set(PARE_OBJECTS ${PARE_OBJECTS} $<TARGET_OBJECTS:pare_${name}> CACHE INTERNAL "")
    set(PARE_LIBRARIES ${PARE_LIBRARIES} ${arg_USES} CACHE INTERNAL "")
endfunction()
