# How every target of the project is compiled.
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CUDA_STANDARD 17)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

find_program(RINGGRAD_CCACHE ccache)
if(RINGGRAD_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${RINGGRAD_CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${RINGGRAD_CCACHE})
endif()

add_library(ringgrad_flags INTERFACE)
# Without contraction, so that optimizer and buffer updates have the same bits on every instruction set.
target_compile_options(ringgrad_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wconversion;-Wshadow;-Wnon-virtual-dtor;-ffp-contract=off>
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${RINGGRAD_WARNINGS_AS_ERRORS}>>:-Werror>
  $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall;--fmad=false>)
if(RINGGRAD_SANITIZE)
  add_compile_options(-fsanitize=${RINGGRAD_SANITIZE} -fno-omit-frame-pointer
                      -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${RINGGRAD_SANITIZE})
endif()

# ringgrad_library(NAME SOURCES ... DEPENDS ...): the static library of one folder, ringgrad::NAME.
function(ringgrad_library name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "" "SOURCES;DEPENDS;PRIVATE_DEPENDS")
  set(target ringgrad_${name})
  add_library(${target} STATIC ${ARG_SOURCES})
  add_library(ringgrad::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  target_include_directories(${target} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/ringgrad>)
  target_compile_features(${target} PUBLIC cxx_std_17)
  target_link_libraries(${target} PUBLIC ${ARG_DEPENDS}
    PRIVATE $<BUILD_INTERFACE:ringgrad_flags> ${ARG_PRIVATE_DEPENDS})
  set_property(GLOBAL APPEND PROPERTY RINGGRAD_LIBRARIES ${target})
endfunction()
