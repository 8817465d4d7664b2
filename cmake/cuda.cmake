# Kernels for NVIDIA GPUs. Only nvcc of a CUDA toolkit is used: the driver's library is opened at run
# time, nothing is linked.
set(PARE_CUDA AUTO CACHE STRING "kernels for NVIDIA GPUs: AUTO (where nvcc is found), ON or OFF")
set_property(CACHE PARE_CUDA PROPERTY STRINGS AUTO ON OFF)
if(NOT PARE_CUDA STREQUAL "OFF" AND NOT CMAKE_CROSSCOMPILING)
    find_program(PARE_NVCC nvcc HINTS ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
    cmake_path(GET PARE_NVCC PARENT_PATH pare_cuda_bin)
    set(PARE_CUDA_INCLUDE ${pare_cuda_bin}/../include) # for a test
endif()
if(PARE_NVCC AND NOT PARE_CUDA STREQUAL "OFF")
    set(PARE_CUDA_FOUND ON)
    execute_process(COMMAND ${PARE_NVCC} --version OUTPUT_VARIABLE pare_nvcc_version)
    string(REGEX MATCH "release ([0-9.]+)" pare_nvcc_version "${pare_nvcc_version}")
    set(PARE_CUDA_VERSION ${CMAKE_MATCH_1})
    message(STATUS "CUDA: kernels by ${PARE_NVCC}, ${PARE_CUDA_VERSION}")
elseif(PARE_CUDA STREQUAL "ON")
    message(FATAL_ERROR "PARE_CUDA=ON needs nvcc of a CUDA toolkit; put it into PATH")
else()
    set(PARE_CUDA_FOUND OFF)
    message(STATUS "CUDA: no kernels")
endif()

# Where what nvcc makes lies. It does not depend on the flags of the C compiler, so a build that takes
# the golden tests of another one (PARE_GOLDEN) takes the kernels of that one, too.
set(pare_cuda_folder ${PROJECT_BINARY_DIR}/kernels)
if(PARE_GOLDEN)
    cmake_path(SET pare_cuda_folder NORMALIZE ${PARE_GOLDEN}/../../kernels)
endif()

# --fmad=false: as -ffp-contract=off of the C compiler.
set(pare_nvcc_flags -O3 -std=c++17 --fmad=false -lineinfo -I${pare_root})
set(pare_nvcc_targets -gencode=arch=compute_80,code=[sm_80,compute_80] -gencode=arch=compute_90a,code=sm_90a)

# pare_cuda_images(<source> <file>.cu...): compiles each file to a module, <file>.fatbin, and writes the C
# file with all of them and their table, kernels/cuda/cuda_images.h. <source> becomes its path. Beside a
# module lies <file>.ptx, which tests interpret: target pare_ptx makes them, its property PARE_FILES lists
# them. Without CUDA there are none, and the table is empty.
function(pare_cuda_images variable)
    set(source ${CMAKE_CURRENT_BINARY_DIR}/cuda_images.c)
    set(declarations "")
    set(names "")
    set(modules "")
    set(ptx "")
    foreach(kernel IN LISTS ARGN)
        if(NOT PARE_CUDA_FOUND)
            break()
        endif()
        cmake_path(GET kernel STEM name)
        cmake_path(ABSOLUTE_PATH kernel OUTPUT_VARIABLE path)
        set(base ${pare_cuda_folder}/${name})
        if(NOT PARE_GOLDEN)
            # The PTX is what nvcc keeps of its own steps, under a name that no manual promises.
            set(compile ${PARE_NVCC} ${pare_nvcc_flags} ${pare_nvcc_targets} -Xptxas -v -fatbin
                        --keep --keep-dir ${base}.steps -MD -MF ${base}.fatbin.d -o ${base}.fatbin ${path})
            set(kept ${base}.steps/${name}.compute_80.ptx)
            add_custom_command(OUTPUT ${base}.fatbin ${base}.ptx DEPENDS ${path} DEPFILE ${base}.fatbin.d
                BYPRODUCTS ${base}.ptxas VERBATIM
                COMMAND ${CMAKE_COMMAND} -E make_directory ${base}.steps
                COMMAND sh -c "\"$@\" 2> \"$0\" || { cat \"$0\" >&2; exit 1; }" ${base}.ptxas ${compile}
                COMMAND sh -c "test -f \"$0\" || { echo \"no $0: nvcc names the PTX that it keeps otherwise; \
it keeps\" \"\${0%/*}\"/*.ptx \"after: $*\" >&2; exit 1; }" ${kept} ${compile}
                COMMAND ${CMAKE_COMMAND} -E rename ${kept} ${base}.ptx
                COMMAND ${CMAKE_COMMAND} -E rm -r ${base}.steps)
        endif()
        # The compiler would need seconds for each as an array.
        string(APPEND declarations "extern const char pare__image_${name}[];\n"
            "__asm__(\".section .rodata\\n.balign 16\\n.globl pare__image_${name}\\n\"\n"
            "        \"pare__image_${name}: .incbin \\\"${base}.fatbin\\\"\\n.previous\");\n")
        string(APPEND names "    pare__image_${name},\n")
        list(APPEND modules ${base}.fatbin)
        list(APPEND ptx ${base}.ptx)
    endforeach()
    file(CONFIGURE OUTPUT ${source} @ONLY CONTENT
"#include \"kernels/cuda/cuda_images.h\"

@declarations@
const void *const pare_cuda_images[] = {
@names@    0};
const char pare_cuda_version[] = \"${PARE_CUDA_VERSION}\";
")
    set_source_files_properties(${source} PROPERTIES OBJECT_DEPENDS "${modules}")
    add_custom_target(pare_ptx DEPENDS ${ptx})
    set_target_properties(pare_ptx PROPERTIES PARE_FILES "${ptx}")
    set(${variable} ${source} PARENT_SCOPE)
endfunction()
