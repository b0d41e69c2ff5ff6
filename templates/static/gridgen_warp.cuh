// Teams of lanes that exchange values through shared memory.
//
// A team of up to 32 lanes is a part of a warp, a larger one a block of threads. Records in shared memory
// are aligned to 16 bytes, and accessed 16 bytes at a time.
#ifndef GRIDGEN_WARP_CUH
#define GRIDGEN_WARP_CUH

#include "gridgen_angles.cuh"
#include "gridgen_math.cuh"
#include "gridgen_shared.cuh"

namespace gridgen {

// Sixteen bytes.
template <class T> struct alignas(16) Wide {
    static constexpr int count = 16 / sizeof(T);
    T x[count];
};

template <class T> __device__ __forceinline__ Wide<T> load_wide(const T* from) {
#if defined(GRIDGEN_EMULATED)
    Wide<T> wide;
    __builtin_memcpy(&wide, __builtin_assume_aligned(from, 16), sizeof wide);
    return wide;
#else
    return *reinterpret_cast<const Wide<T>*>(from);
#endif
}

template <class T> __device__ __forceinline__ void store_wide(T* to, const Wide<T>& wide) {
#if defined(GRIDGEN_EMULATED)
    __builtin_memcpy(__builtin_assume_aligned(to, 16), &wide, sizeof wide);
#else
    *reinterpret_cast<Wide<T>*>(to) = wide;
#endif
}

// Loads a record.
template <class T, int count>
__device__ __forceinline__ Numbers<T, count> load_record(const T* from) {
    constexpr int wide = Wide<T>::count;
    Numbers<T, count> numbers;
    GRIDGEN_UNROLLED
    for (int k = 0; k < count; k += wide) {
        const Wide<T> loaded = load_wide(from + k);
        GRIDGEN_UNROLLED
        for (int i = 0; i < wide && k + i < count; ++i) numbers.x[k + i] = loaded.x[i];
    }
    return numbers;
}

// Stores a record, and zeros up to a multiple of 16 bytes.
template <class T, int count>
__device__ __forceinline__ void store_record(T* to, const Numbers<T, count>& numbers) {
    constexpr int wide = Wide<T>::count;
    GRIDGEN_UNROLLED
    for (int k = 0; k < count; k += wide) {
        Wide<T> stored;
        GRIDGEN_UNROLLED
        for (int i = 0; i < wide; ++i) stored.x[i] = k + i < count ? numbers.x[k + i] : T(0);
        store_wide(to + k, stored);
    }
}

// Calls a function for the multiples of step * width below count, from the lane's own place: with those
// multiples as constants if there are few.
template <int width, int count, int step, class Function>
__device__ __forceinline__ void each_of(int lane, Function function) {
    constexpr int rounds = count / (step * width);
    if constexpr (rounds <= 64) {
        GRIDGEN_UNROLLED
        for (int k = 0; k < rounds; ++k) function(step * width * k);
    } else {
        GRIDGEN_BY_FOUR
        for (int k = 0; k < rounds; ++k) function(step * width * k);
    }
    if (step * (lane + width * rounds) < count) function(step * width * rounds);
}

// Fills a matrix in shared memory with zeros; count is rounded up to 16 bytes.
template <int width, int count, class T> __device__ __forceinline__ void clear(int lane, T* matrix) {
    T* const own = matrix + Wide<T>::count * lane;
    each_of<width, count, Wide<T>::count>(lane, [&](int k) { store_wide(own + k, Wide<T>{}); });
}

// Fills an output with zeros.
template <int width, int count, class T>
__device__ __forceinline__ void clear_output(int lane, View<T> output) {
    GRIDGEN_ROLLED
    for (int k = lane; k < count; k += width) output[k] = T(0);
}

// Copies the first rows and columns of a matrix to an output, row by row.
template <int width, int size, int pitch, class T>
__device__ __forceinline__ void deliver(int lane, const T* matrix, View<T> output) {
    const auto place = [](int k) { return pitch == size ? k : k + k / size * (pitch - size); };
    if (output.component == 1) {
        const T* const from = matrix + lane;
        T* const to = output.data + lane;
        each_of<width, size * size, 1>(lane, [&](int k) {
            to[k] = pitch == size ? from[k] : matrix[place(lane + k)];
        });
    } else {
        GRIDGEN_ROLLED
        for (int k = lane; k < size * size; k += width) output[k] = matrix[place(k)];
    }
}

// The entries of a column, from the first to the last.
template <class T> struct Column {
    T* place;
    int64 step;

    __device__ __forceinline__ T& next() {
        T* const own = place;
        place += step;
        return *own;
    }
};

// A column of matrices side by side, of the given widths.
template <int width, int... widths, class T, class... More>
__device__ __forceinline__ Column<T> column(int index, View<T> first, More... more) {
    if constexpr (sizeof...(More) > 0) {
        if (index >= width) return column<widths...>(index - width, more...);
    }
    return {first.data + index * first.component, width * first.component};
}

}  // namespace gridgen

#endif  // GRIDGEN_WARP_CUH
