# Every outside library, once, as an imported target PkgConfig::NAME. The specification is kept in
# SPEECHSHARD_DEPENDENCY_NAME: the installed CMake package and the .pc file repeat it.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)

macro(speechshard_find_dependency name specification)
    set(SPEECHSHARD_DEPENDENCY_${name} "${specification}")
    pkg_check_modules(${name} REQUIRED IMPORTED_TARGET "${specification}")
endmacro()

speechshard_find_dependency(FLAC "flac>=1.3")
speechshard_find_dependency(JANSSON "jansson>=2.13")
speechshard_find_dependency(LIBARCHIVE "libarchive>=3.6")
speechshard_find_dependency(LIBLZ4 "liblz4>=1.9")
speechshard_find_dependency(LIBPNG "libpng>=1.6.37")
speechshard_find_dependency(LIBURING "liburing>=2.2")
speechshard_find_dependency(LIBUTF8PROC "libutf8proc>=2.6")
speechshard_find_dependency(LIBXXHASH "libxxhash>=0.8.0")
speechshard_find_dependency(MPG123 "libmpg123>=1.26")
speechshard_find_dependency(NETTLE "nettle>=3.4")
speechshard_find_dependency(OGG "ogg>=1.3")
speechshard_find_dependency(SNDFILE "sndfile>=1.1")
speechshard_find_dependency(SOXR "soxr>=0.1.3")
speechshard_find_dependency(VORBIS "vorbis>=1.3")
speechshard_find_dependency(YAML "yaml-0.1>=0.2.5")
speechshard_find_dependency(ZLIB "zlib>=1.2.11")

# The Fourier transforms of dedup's correlations. FFTW is faster, and under the GPL. KISS FFT keeps
# the libraries under their own license, for packages that others link (docs/ARCHITECTURE.md).
set(SPEECHSHARD_FFT fftw CACHE STRING "Library for Fourier transforms: fftw (GPL) or kissfft")
set_property(CACHE SPEECHSHARD_FFT PROPERTY STRINGS fftw kissfft)
if(SPEECHSHARD_FFT STREQUAL "fftw")
    speechshard_find_dependency(FFT "fftw3>=3.3.8")
elseif(SPEECHSHARD_FFT STREQUAL "kissfft")
    speechshard_find_dependency(FFT "kissfft-float>=131")
else()
    message(FATAL_ERROR "SPEECHSHARD_FFT is '${SPEECHSHARD_FFT}', not fftw or kissfft")
endif()

# For wheels: libarchive's shared library needs libxml2 and ICU, 13 MB compressed, for formats that
# we do not read. When the linker uses the static library, it leaves those formats out, because we
# do not call the function that lists all formats.
option(SPEECHSHARD_STATIC_LIBARCHIVE "Link libarchive statically, only the formats that are used" OFF)
if(SPEECHSHARD_STATIC_LIBARCHIVE)
    set(_libraries "")
    foreach(_name libarchive.a nettle lzma zstd lz4 bz2 z)
        find_library(SPEECHSHARD_ARCHIVE_${_name} ${_name} REQUIRED)
        list(APPEND _libraries "${SPEECHSHARD_ARCHIVE_${_name}}")
    endforeach()
    set_target_properties(PkgConfig::LIBARCHIVE PROPERTIES
        INTERFACE_LINK_LIBRARIES "${_libraries}" INTERFACE_LINK_OPTIONS "LINKER:--gc-sections")
endif()

# MPI carries a training run of several processes; without it train is one process.
option(SPEECHSHARD_MPI "Training on several processes, over MPI where it is there" ON)
set(SPEECHSHARD_MPI_LIBRARY "")
if(SPEECHSHARD_MPI)
    set(SPEECHSHARD_DEPENDENCY_MPI "mpi-c")
    pkg_check_modules(MPI IMPORTED_TARGET "${SPEECHSHARD_DEPENDENCY_MPI}")
    if(MPI_FOUND)
        set(SPEECHSHARD_MPI_LIBRARY PkgConfig::MPI)
    else()
        message(STATUS "no MPI: mpirun and srun start a training only with --rendezvous")
    endif()
endif()
