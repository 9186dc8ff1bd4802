// CHX_HD: a function for host and device, inlined on both. Inlining is forced on the host because
// some files are compiled for several instruction sets: an out-of-line copy of a shared function
// would be merged by the linker, and run on processors that lack its instructions.
#ifndef CHX_SERVER_KERNELS_HOST_DEVICE_H_
#define CHX_SERVER_KERNELS_HOST_DEVICE_H_

#ifdef __CUDACC__
#define CHX_HD __host__ __device__ __forceinline__
#else
#define CHX_HD inline __attribute__((always_inline))
#endif

#endif  // CHX_SERVER_KERNELS_HOST_DEVICE_H_
