# What is installed beside the libraries: the CMake package and the pkg-config files.
