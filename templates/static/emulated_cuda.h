// CUDA C++ for the host compiler: declarations to compile and run a kernel file without a GPU.
//
// Include it before the kernel file. The kernel file is the same text as for NVRTC:
//
//   * `__shared__` variables of functions become static: blocks run in sequence, so that one copy is
//     enough. Before every block they are filled with a NaN pattern.
//   * Dynamic shared memory is available as `gridgen::dynamic_shared<T>()` (gridgen_shared.cuh);
//     `extern __shared__` has no meaning in C++.
//   * Each thread is a fiber, and all fibers share one OS thread. `__syncthreads`, `__syncwarp`, shuffles
//     and votes wait for the same threads as in CUDA, order memory as in CUDA, and report an error
//     instead of a deadlock. See emulated_team.h.
//   * A shuffle from an inactive lane returns the NaN pattern; in CUDA the value is undefined.
//   * `__activemask` is deliberately missing: the set of lanes that run together is not a property of the
//     program. Name the lanes in a mask.
//
// It includes no library, because every kernel compiles it: emulated_runtime.cpp, compiled once, contains
// the code that needs one.
#pragma once

#include "emulated_kernel.h"

#define GRIDGEN_EMULATED 1

// Standard headers use some of these identifiers: do not include any after this line.
#define __global__
#define __device__
#define __host__
#define __constant__
#define __shared__ static
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __launch_bounds__(...)
#define __grid_constant__

namespace gridgen {
namespace emulated {

// The value of the lane that `source(own lane, first, end)` names in the segment of `width` lanes
// from `first` to `end`.
template <class T, class Source>
T shuffle(Place place, unsigned mask, T value, int width, Source source) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "CUDA shuffles numbers of 32 and 64 bits");
    unsigned long long bits = 0;
    __builtin_memcpy(&bits, &value, sizeof value);
    const int lane = int(threadIdx.x) % warpSize;
    const int first = lane & ~(width - 1);
    bits = exchange(place, mask, bits, source(lane, first, first + width));
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

// A type that is not deduced.
template <class T>
struct Given {
    using type = T;
};

}  // namespace emulated
}  // namespace gridgen

// Hidden parameters: the source location of the call.
#define GRIDGEN_CALLER const char *file = __builtin_FILE(), int line = __builtin_LINE()

// ---- barriers ----

inline void __syncthreads(GRIDGEN_CALLER) {
    gridgen::emulated::meet_block({"__syncthreads", file, line}, false);
}

inline int __syncthreads_count(int predicate, GRIDGEN_CALLER) {
    return int(gridgen::emulated::meet_block({"__syncthreads_count", file, line}, predicate).agreed);
}

inline int __syncthreads_or(int predicate, GRIDGEN_CALLER) {
    return gridgen::emulated::meet_block({"__syncthreads_or", file, line}, predicate).agreed > 0;
}

inline int __syncthreads_and(int predicate, GRIDGEN_CALLER) {
    const auto met = gridgen::emulated::meet_block({"__syncthreads_and", file, line}, predicate);
    return met.agreed == met.arrived;
}

inline void __syncwarp(unsigned mask = 0xffffffffu, GRIDGEN_CALLER) {
    gridgen::emulated::meet_warp({"__syncwarp", file, line}, mask, true, false);
}

// Barriers for a part of the block, which CUDA provides in PTX only: bar.arrive and bar.sync.
namespace gridgen {
namespace emulated {

inline void barrier_arrive(int number, int threads, GRIDGEN_CALLER) {
    meet_some({"barrier_arrive", file, line}, number, threads, false);
}

inline void barrier_wait(int number, int threads, GRIDGEN_CALLER) {
    meet_some({"barrier_wait", file, line}, number, threads, true);
}

}  // namespace emulated
}  // namespace gridgen

// ---- shuffles ----

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32, GRIDGEN_CALLER) {
    return gridgen::emulated::shuffle(
        {"__shfl_sync", file, line}, mask, value, width,
        [=](int, int first, int) { return first + (source & (width - 1)); });
}

template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, GRIDGEN_CALLER) {
    return gridgen::emulated::shuffle(
        {"__shfl_up_sync", file, line}, mask, value, width, [=](int lane, int first, int) {
            const int from = lane - int(delta);
            return from >= first ? from : lane;
        });
}

template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, GRIDGEN_CALLER) {
    return gridgen::emulated::shuffle(
        {"__shfl_down_sync", file, line}, mask, value, width, [=](int lane, int, int end) {
            const int from = lane + int(delta);
            return from < end ? from : lane;
        });
}

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32, GRIDGEN_CALLER) {
    return gridgen::emulated::shuffle({"__shfl_xor_sync", file, line}, mask, value, width,
                                      [=](int lane, int, int end) {
                                          const int from = lane ^ lanes;
                                          return from < end ? from : lane;
                                      });
}

// ---- votes ----

inline unsigned __ballot_sync(unsigned mask, int predicate, GRIDGEN_CALLER) {
    return gridgen::emulated::meet_warp({"__ballot_sync", file, line}, mask, false, predicate)
        .lanes;
}

inline int __any_sync(unsigned mask, int predicate, GRIDGEN_CALLER) {
    const auto met =
        gridgen::emulated::meet_warp({"__any_sync", file, line}, mask, false, predicate);
    return met.agreed > 0;
}

inline int __all_sync(unsigned mask, int predicate, GRIDGEN_CALLER) {
    const auto met =
        gridgen::emulated::meet_warp({"__all_sync", file, line}, mask, false, predicate);
    return met.agreed == met.arrived;
}

#undef GRIDGEN_CALLER

// ---- memory ----

template <class T>
T __ldg(const T* address) {
    return *address;
}

// Atomic, but ordering nothing else, as in CUDA.
template <class T>
T atomicCAS(T* address, typename gridgen::emulated::Given<T>::type expected,
            typename gridgen::emulated::Given<T>::type value) {
    __atomic_compare_exchange(address, &expected, &value, false, __ATOMIC_RELAXED,
                              __ATOMIC_RELAXED);
    return expected;
}

template <class T>
T atomicExch(T* address, typename gridgen::emulated::Given<T>::type value) {
    T before;
    __atomic_exchange(address, &value, &before, __ATOMIC_RELAXED);
    return before;
}

template <class T>
T atomicAdd(T* address, typename gridgen::emulated::Given<T>::type value) {
    T before;
    __atomic_load(address, &before, __ATOMIC_RELAXED);
    T after = before + value;
    while (!__atomic_compare_exchange(address, &before, &after, true, __ATOMIC_RELAXED,
                                      __ATOMIC_RELAXED)) {
        after = before + value;
    }
    return before;
}

// ---- arithmetic ----

// The functions of <math.h>: for double, for float under CUDA's names, and overloaded.
#define GRIDGEN_FUNCTION(name)                                       \
    inline float name##f(float x) { return __builtin_##name##f(x); } \
    inline double name(double x) { return __builtin_##name(x); }     \
    inline float name(float x) { return __builtin_##name##f(x); }
#define GRIDGEN_FUNCTION_OF_TWO(name)                                            \
    inline float name##f(float x, float y) { return __builtin_##name##f(x, y); } \
    inline double name(double x, double y) { return __builtin_##name(x, y); }    \
    inline float name(float x, float y) { return __builtin_##name##f(x, y); }

GRIDGEN_FUNCTION(acos)
GRIDGEN_FUNCTION(asin)
GRIDGEN_FUNCTION(atan)
GRIDGEN_FUNCTION(ceil)
GRIDGEN_FUNCTION(cos)
GRIDGEN_FUNCTION(exp)
GRIDGEN_FUNCTION(fabs)
GRIDGEN_FUNCTION(floor)
GRIDGEN_FUNCTION(log)
GRIDGEN_FUNCTION(rint)
GRIDGEN_FUNCTION(round)
GRIDGEN_FUNCTION(sin)
GRIDGEN_FUNCTION(sqrt)
GRIDGEN_FUNCTION(tan)
GRIDGEN_FUNCTION(trunc)
GRIDGEN_FUNCTION_OF_TWO(atan2)
GRIDGEN_FUNCTION_OF_TWO(copysign)
GRIDGEN_FUNCTION_OF_TWO(fmax)
GRIDGEN_FUNCTION_OF_TWO(fmin)
GRIDGEN_FUNCTION_OF_TWO(fmod)
GRIDGEN_FUNCTION_OF_TWO(hypot)
GRIDGEN_FUNCTION_OF_TWO(pow)

#undef GRIDGEN_FUNCTION
#undef GRIDGEN_FUNCTION_OF_TWO

inline float fmaf(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
inline double fma(double x, double y, double z) { return __builtin_fma(x, y, z); }
inline float fma(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline float rsqrt(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline bool isnan(double x) { return __builtin_isnan(x); }
inline bool isinf(double x) { return __builtin_isinf(x); }
inline bool isfinite(double x) { return __builtin_isfinite(x); }

// In the common arithmetic type of both; ignores a NaN.
template <class T, class U>
constexpr auto min(T a, U b) -> decltype(a + b) {
    const decltype(a + b) x = a, y = b;
    return y < x || x != x ? y : x;
}

template <class T, class U>
constexpr auto max(T a, U b) -> decltype(a + b) {
    const decltype(a + b) x = a, y = b;
    return x < y || x != x ? y : x;
}

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(unsigned(x)); }
inline int __ffs(int x) { return __builtin_ffs(x); }

namespace gridgen {
namespace emulated {

template <class To, class From>
To same_bits(From x) {
    static_assert(sizeof(To) == sizeof(From), "as many bits");
    To y;
    __builtin_memcpy(&y, &x, sizeof y);
    return y;
}

}  // namespace emulated
}  // namespace gridgen

inline int __float_as_int(float x) { return gridgen::emulated::same_bits<int>(x); }
inline unsigned __float_as_uint(float x) { return gridgen::emulated::same_bits<unsigned>(x); }
inline float __int_as_float(int x) { return gridgen::emulated::same_bits<float>(x); }
inline float __uint_as_float(unsigned x) { return gridgen::emulated::same_bits<float>(x); }
inline long long __double_as_longlong(double x) {
    return gridgen::emulated::same_bits<long long>(x);
}
inline double __longlong_as_double(long long x) {
    return gridgen::emulated::same_bits<double>(x);
}
