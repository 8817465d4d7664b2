# Kernels for NVIDIA GPUs. Only nvcc and bin2c of a CUDA toolkit are used: the driver's library is
# opened at run time, nothing is linked.
set(PARE_CUDA AUTO CACHE STRING "kernels for NVIDIA GPUs: AUTO (where nvcc is found), ON or OFF")
set_property(CACHE PARE_CUDA PROPERTY STRINGS AUTO ON OFF)
if(NOT PARE_CUDA STREQUAL "OFF" AND NOT CMAKE_CROSSCOMPILING)
    find_program(PARE_NVCC nvcc HINTS ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
    cmake_path(GET PARE_NVCC PARENT_PATH pare_cuda_bin)
    find_program(PARE_BIN2C bin2c HINTS ${pare_cuda_bin})
    set(PARE_CUDA_INCLUDE ${pare_cuda_bin}/../include) # for a test
endif()
if(PARE_NVCC AND PARE_BIN2C AND NOT PARE_CUDA STREQUAL "OFF")
    set(PARE_CUDA_FOUND ON)
    execute_process(COMMAND ${PARE_NVCC} --version OUTPUT_VARIABLE pare_nvcc_version)
    string(REGEX MATCH "release ([0-9.]+)" pare_nvcc_version "${pare_nvcc_version}")
    set(PARE_CUDA_VERSION ${CMAKE_MATCH_1})
    message(STATUS "CUDA: kernels by ${PARE_NVCC}, ${PARE_CUDA_VERSION}")
elseif(PARE_CUDA STREQUAL "ON")
    message(FATAL_ERROR "PARE_CUDA=ON needs nvcc and bin2c of a CUDA toolkit; put them into PATH")
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

# pare_cuda_images(<list> <file>.cu...): compiles each file to a module inside a C array, and writes
# the table of all of them, kernels/cuda/cuda_images.h. <list> becomes the C files. Beside a module
# lies <file>.ptx, which tests interpret: target pare_ptx makes them, its property PARE_FILES lists them.
# Without CUDA there are none, and the table is empty.
function(pare_cuda_images list)
    set(declarations "")
    set(names "")
    set(files "")
    set(ptx "")
    foreach(source IN LISTS ARGN)
        if(NOT PARE_CUDA_FOUND)
            break()
        endif()
        cmake_path(GET source STEM name)
        cmake_path(ABSOLUTE_PATH source OUTPUT_VARIABLE path)
        set(base ${pare_cuda_folder}/${name})
        set(image ${CMAKE_CURRENT_BINARY_DIR}/${name}_image.c)
        if(NOT PARE_GOLDEN)
            add_custom_command(OUTPUT ${base}.fatbin DEPENDS ${path} DEPFILE ${base}.fatbin.d VERBATIM
                BYPRODUCTS ${base}.ptxas
                COMMAND sh -c "\"$@\" 2> \"$0\" || { cat \"$0\" >&2; exit 1; }" ${base}.ptxas
                        ${PARE_NVCC} ${pare_nvcc_flags} ${pare_nvcc_targets} -Xptxas -v -fatbin
                        -MD -MF ${base}.fatbin.d -o ${base}.fatbin ${path})
            add_custom_command(OUTPUT ${base}.ptx DEPENDS ${path} DEPFILE ${base}.ptx.d VERBATIM
                COMMAND ${PARE_NVCC} ${pare_nvcc_flags} -arch=compute_80 -ptx -MD -MF ${base}.ptx.d
                        -o ${base}.ptx ${path})
        endif()
        add_custom_command(OUTPUT ${image} DEPENDS ${base}.fatbin VERBATIM
            COMMAND sh -c "\"$0\" --const --type longlong --name \"pare__image_$1\" \"$2\" > \"$3\""
                    ${PARE_BIN2C} ${name} ${base}.fatbin ${image})
        string(APPEND declarations "extern const unsigned long long pare__image_${name}[];\n")
        string(APPEND names "    pare__image_${name},\n")
        list(APPEND files ${image})
        list(APPEND ptx ${base}.ptx)
    endforeach()
    file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/cuda_images.c @ONLY CONTENT
"#include \"kernels/cuda/cuda_images.h\"

@declarations@
const void *const pare_cuda_images[] = {
@names@    0};
const char pare_cuda_version[] = \"${PARE_CUDA_VERSION}\";
")
    add_custom_target(pare_ptx DEPENDS ${ptx})
    set_target_properties(pare_ptx PROPERTIES PARE_FILES "${ptx}")
    set(${list} ${files} ${CMAKE_CURRENT_BINARY_DIR}/cuda_images.c PARENT_SCOPE)
endfunction()
