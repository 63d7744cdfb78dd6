# What the system provides; scripts/packages.txt lists the Debian packages. Used by the build and by
# the installed package alike.
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(dnnl 2.6 REQUIRED)
find_package(Boost 1.74 REQUIRED COMPONENTS context)
find_package(nlohmann_json 3.9 REQUIRED)
find_package(CLI11 2.1 REQUIRED)
find_package(ZLIB REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
find_package(CURL REQUIRED)
find_package(LibArchive REQUIRED)
