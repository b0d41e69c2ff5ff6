// CUDA C++ for the host compiler: what a kernel file needs to compile and run without a GPU.
//
// Include it before the kernel file. The file itself is the text that NVRTC gets, unchanged:
//
//   * `__shared__` variables of functions become static ones: blocks run one after another, so one
//     copy serves them all. Before every block they are filled with a NaN pattern.
//   * Dynamic shared memory is asked for as `gridgen::dynamic_shared<T>()` (gridgen_shared.cuh);
//     `extern __shared__` has no meaning in C++.
//   * Each thread is an OS thread. `__syncthreads`, `__syncwarp`, shuffles and votes wait for the
//     threads CUDA waits for, order memory where CUDA orders it, and say so when they cannot
//     complete, instead of waiting for ever. See emulated_team.h.
//   * A shuffle from a lane that takes no part yields the NaN pattern; CUDA leaves it undefined.
//   * `__activemask` is missing on purpose: which lanes happen to run together is no property of
//     the text. Name the lanes in a mask.
#pragma once

#include "emulated_team.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cassert>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <math.h>
#include <source_location>
#include <type_traits>

#define GRIDGEN_EMULATED 1

// Standard headers use some of these words: none may be included after this line.
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

struct uint3 {
    unsigned x, y, z;
};

struct dim3 {
    unsigned x = 1, y = 1, z = 1;
};

inline thread_local constinit uint3 threadIdx{0, 0, 0};
inline thread_local constinit uint3 blockIdx{0, 0, 0};
inline thread_local constinit dim3 blockDim{};
inline thread_local constinit dim3 gridDim{};
constexpr int warpSize = gridgen::emulated::warp_lanes;

namespace gridgen {
namespace emulated {

using Place = std::source_location;

inline thread_local constinit Team* team = nullptr;
inline thread_local constinit const Lane* self = nullptr;

// The value of the lane that `source(own lane, first, end)` names; the own value if that is no lane
// of the segment of `width` lanes from `first` to `end`.
template <class T, class Source>
T shuffle(const char* operation, unsigned mask, T value, int width, Place place, Source source) {
    static_assert(std::is_arithmetic_v<T> && (sizeof(T) == 4 || sizeof(T) == 8),
                  "CUDA shuffles numbers of 32 and 64 bits");
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    const Exchange exchange =
        team->meet_warp(*self, operation, mask, false, bits, false, place);
    const int lane = static_cast<int>(self->lane);
    const int first = lane & ~(width - 1);
    const int from = source(lane, first, first + width);
    std::memcpy(&value, &exchange.values[from], sizeof value);
    return value;
}

// What the lanes of a mask say about a predicate.
inline Exchange vote(const char* operation, unsigned mask, bool predicate, Place place) {
    return team->meet_warp(*self, operation, mask, false, 0, predicate, place);
}

}  // namespace emulated
}  // namespace gridgen

// ---- barriers ----

inline void __syncthreads(gridgen::emulated::Place place = std::source_location::current()) {
    gridgen::emulated::team->meet_block("__syncthreads", false, place);
}

inline int __syncthreads_count(int predicate, gridgen::emulated::Place place =
                                                  std::source_location::current()) {
    const auto met =
        gridgen::emulated::team->meet_block("__syncthreads_count", predicate != 0, place);
    return static_cast<int>(met.agreed);
}

inline int __syncthreads_or(int predicate, gridgen::emulated::Place place =
                                               std::source_location::current()) {
    const auto met = gridgen::emulated::team->meet_block("__syncthreads_or", predicate != 0, place);
    return met.agreed > 0;
}

inline int __syncthreads_and(int predicate, gridgen::emulated::Place place =
                                                std::source_location::current()) {
    const auto met =
        gridgen::emulated::team->meet_block("__syncthreads_and", predicate != 0, place);
    return met.agreed == met.arrived;
}

inline void __syncwarp(unsigned mask = 0xffffffffu, gridgen::emulated::Place place =
                                                        std::source_location::current()) {
    using namespace gridgen::emulated;
    team->meet_warp(*self, "__syncwarp", mask, true, 0, false, place);
}

// ---- shuffles ----

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32,
              gridgen::emulated::Place place = std::source_location::current()) {
    return gridgen::emulated::shuffle(
        "__shfl_sync", mask, value, width, place,
        [=](int, int first, int) { return first + (source & (width - 1)); });
}

template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                 gridgen::emulated::Place place = std::source_location::current()) {
    return gridgen::emulated::shuffle(
        "__shfl_up_sync", mask, value, width, place, [=](int lane, int first, int) {
            const int from = lane - static_cast<int>(delta);
            return from >= first ? from : lane;
        });
}

template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                   gridgen::emulated::Place place = std::source_location::current()) {
    return gridgen::emulated::shuffle(
        "__shfl_down_sync", mask, value, width, place, [=](int lane, int, int end) {
            const int from = lane + static_cast<int>(delta);
            return from < end ? from : lane;
        });
}

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32,
                  gridgen::emulated::Place place = std::source_location::current()) {
    return gridgen::emulated::shuffle("__shfl_xor_sync", mask, value, width, place,
                                      [=](int lane, int, int end) {
                                          const int from = lane ^ lanes;
                                          return from < end ? from : lane;
                                      });
}

// ---- votes ----

inline unsigned __ballot_sync(unsigned mask, int predicate, gridgen::emulated::Place place =
                                                                std::source_location::current()) {
    return gridgen::emulated::vote("__ballot_sync", mask, predicate != 0, place).votes;
}

inline int __any_sync(unsigned mask, int predicate, gridgen::emulated::Place place =
                                                        std::source_location::current()) {
    return gridgen::emulated::vote("__any_sync", mask, predicate != 0, place).agreed > 0;
}

inline int __all_sync(unsigned mask, int predicate, gridgen::emulated::Place place =
                                                        std::source_location::current()) {
    const auto met = gridgen::emulated::vote("__all_sync", mask, predicate != 0, place);
    return met.agreed == met.arrived;
}

// ---- memory ----

template <class T>
T __ldg(const T* address) {
    return *address;
}

// Atomic, but ordering nothing else, as in CUDA.
template <class T>
T atomicAdd(T* address, std::type_identity_t<T> value) {
    return std::atomic_ref<T>(*address).fetch_add(value, std::memory_order_relaxed);
}

template <class T>
T atomicExch(T* address, std::type_identity_t<T> value) {
    return std::atomic_ref<T>(*address).exchange(value, std::memory_order_relaxed);
}

template <class T>
T atomicCAS(T* address, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
    std::atomic_ref<T>(*address).compare_exchange_strong(expected, value,
                                                         std::memory_order_relaxed);
    return expected;
}

// ---- arithmetic that CUDA has beyond <math.h> ----

template <class T, class U>
    requires std::is_arithmetic_v<T> && std::is_arithmetic_v<U>
constexpr std::common_type_t<T, U> min(T a, U b) {
    if constexpr (std::is_floating_point_v<std::common_type_t<T, U>>) {
        return fmin(std::common_type_t<T, U>(a), std::common_type_t<T, U>(b));  // ignores a NaN
    } else {
        return std::min<std::common_type_t<T, U>>(a, b);
    }
}

template <class T, class U>
    requires std::is_arithmetic_v<T> && std::is_arithmetic_v<U>
constexpr std::common_type_t<T, U> max(T a, U b) {
    if constexpr (std::is_floating_point_v<std::common_type_t<T, U>>) {
        return fmax(std::common_type_t<T, U>(a), std::common_type_t<T, U>(b));  // ignores a NaN
    } else {
        return std::max<std::common_type_t<T, U>>(a, b);
    }
}

inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline float rsqrt(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }

inline int __popc(unsigned x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __ffs(int x) { return x == 0 ? 0 : std::countr_zero(static_cast<unsigned>(x)) + 1; }

inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline long long __double_as_longlong(double x) { return std::bit_cast<long long>(x); }
inline double __longlong_as_double(long long x) { return std::bit_cast<double>(x); }
