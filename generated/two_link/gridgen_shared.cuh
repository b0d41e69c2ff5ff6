// Dynamic shared memory, spelt alike for CUDA and for the emulated target.
#ifndef GRIDGEN_SHARED_CUH
#define GRIDGEN_SHARED_CUH

namespace gridgen {

// The block's dynamic shared memory: as many bytes as the launch asked for, aligned to 16.
template <class T>
__device__ __forceinline__ T* dynamic_shared() {
#if defined(GRIDGEN_EMULATED)
    return static_cast<T*>(emulated::dynamic_shared());
#else
    // One name for every T: CUDA refuses a name declared with two types.
    extern __shared__ __align__(16) unsigned char gridgen_dynamic_shared[];
    return reinterpret_cast<T*>(gridgen_dynamic_shared);
#endif
}

}  // namespace gridgen

#endif  // GRIDGEN_SHARED_CUH
