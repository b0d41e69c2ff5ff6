// Dynamic shared memory, with the same syntax for CUDA and the emulated target.
#ifndef GRIDGEN_SHARED_CUH
#define GRIDGEN_SHARED_CUH

namespace gridgen {

// The block's dynamic shared memory: the number of bytes of the launch, aligned to 16.
template <class T>
__device__ __forceinline__ T* dynamic_shared() {
#if defined(GRIDGEN_EMULATED)
    return static_cast<T*>(emulated::dynamic_shared());
#else
    // One name for every T: CUDA rejects a name declared with two types.
    extern __shared__ __align__(16) unsigned char gridgen_dynamic_shared[];
    return reinterpret_cast<T*>(gridgen_dynamic_shared);
#endif
}

}  // namespace gridgen

#endif  // GRIDGEN_SHARED_CUH
