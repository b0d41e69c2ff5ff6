// Kernels of teams of threads, right and wrong ones, for the emulated backend.
#include "gridgen_math.cuh"
#include "gridgen_shared.cuh"

namespace toy {

using gridgen::Strided;

__constant__ int offsets[2] = {0, 1};

// One state per block: the sum of its components, by halving, in dynamic shared memory.
template <class T>
__global__ void __launch_bounds__(1024)
block_sum_kernel(Strided<T> x, Strided<T> sum, long long n) {
    T* terms = gridgen::dynamic_shared<T>();
    const int t = threadIdx.x;
    const long long state = blockIdx.x;
    terms[t] = x.data[state * x.batch + t * x.component];
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if (t < half) terms[t] += terms[t + half];
    }
    if (t == 0 && state < n) sum.data[state * sum.batch] = terms[0];
}

// One state per warp: running sums by shuffles.
template <class T>
__global__ void warp_scan_kernel(Strided<T> x, Strided<T> sums, long long n) {
    const int lane = threadIdx.x % warpSize;
    const long long state = (blockIdx.x * (long long)blockDim.x + threadIdx.x) / warpSize;
    if (state >= n) return;
    T sum = x.data[state * x.batch + lane * x.component];
    for (int step = 1; step < warpSize; step *= 2) {
        const T before = __shfl_up_sync(0xffffffffu, sum, step);
        if (lane >= step) sum += before;
    }
    sums.data[state * sums.batch + lane * sums.component] = sum;
}

// Two groups of lanes go different ways, each with its own mask; shuffles of every kind.
template <class T>
__global__ void partial_masks_kernel(Strided<T> x, Strided<T> y, long long n) {
    const int lane = threadIdx.x;
    const T value = x.data[lane];
    T result[4] = {0, 0, 0, 0};
    if (lane < 20) {
        const unsigned mask = 0xfffffu;
        result[0] = __shfl_down_sync(mask, value, lane < 19 ? 1 : 0);
        __syncwarp(mask);
        result[1] = T(__ballot_sync(mask, lane % 3 == 0));
        result[2] = T(__all_sync(mask, lane < 20) + 2 * __any_sync(mask, lane == 25));
        result[3] = __shfl_sync(mask, value, lane / 4, 4);
    } else {
        const unsigned mask = 0xfff00000u;
        result[0] = __shfl_xor_sync(mask, value, 1);
        result[1] = T(__popc(__ballot_sync(mask, lane % 2)));
        result[2] = T(__shfl_sync(mask, (long long)lane << 40, 31) >> 40);
        result[3] = T(__shfl_up_sync(mask, lane, 2, 4));
    }
    for (int k = 0; k < 4 && n > 0; ++k) y.data[lane * y.batch + k] = result[k];
}

// Threads beyond the batch leave at once; those that stay still meet.
template <class T>
__global__ void early_exit_kernel(Strided<T> x, Strided<T> y, long long n) {
    __shared__ T last;
    const long long state = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (state >= n) return;
    const T value = x[state][0];
    if (threadIdx.x == blockDim.x - 1 || state == n - 1) last = value;
    __syncthreads();
    y[state][0] = value - last;
    y[state][1] = T(__syncthreads_count(threadIdx.x % 2) + 1000 * __syncthreads_or(state == 0));
}

template <class T> __device__ __noinline__ T neighbor(T value) {
    __shared__ T slots[128];
    slots[threadIdx.x] = value;
    __syncwarp();
    const T result = slots[threadIdx.x ^ offsets[1]];
    __syncwarp();
    return result;
}

// Exchanges through static shared memory, twice through the same slots.
template <class T>
__global__ void warp_exchange_kernel(Strided<T> x, Strided<T> y, long long n) {
    const long long state = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    T value = neighbor(state < n ? x[state][0] : T(0));
    value += T(10) * neighbor(value);
    if (state < n) y[state][0] = value;
}

// What shared memory holds before anyone has written to it.
template <class T>
__global__ void uninitialized_kernel(Strided<T> y, long long n) {
    __shared__ T slots[33];
    __shared__ int index;
    T* dynamic = gridgen::dynamic_shared<T>();
    const int t = threadIdx.x;
    if (blockIdx.x < n && t == 32) {
        y[blockIdx.x][0] = slots[t];
        y[blockIdx.x][1] = dynamic[t];
        y[blockIdx.x][2] = T(index);
    }
    __syncthreads();
    slots[t] = dynamic[t] = T(t);
    index = 0;
}

template <class T>
__global__ void histogram_kernel(Strided<T> x, Strided<T> counts, long long n) {
    const long long state = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (state < n) atomicAdd(&counts.data[int(__ldg(&x.data[state]))], T(1));
}

template <class T>
__global__ void out_of_bounds_kernel(Strided<T> y, long long n) {
    __shared__ T slots[32];
    slots[threadIdx.x + n] = T(1);
    __syncthreads();
    y[0][0] = slots[0];
}

// Lanes 16 to 31 of the first warp never come to the meeting of all 32.
template <class T>
__global__ void stuck_kernel(Strided<T> y, long long n) {
    if (threadIdx.x < 16) __syncwarp();
    __syncthreads();
    y[0][0] = T(n);
}

template <class T>
__global__ void divergent_kernel(Strided<T> y, long long n) {
    if (threadIdx.x < 16) {
        __syncthreads();
    } else {
        __syncthreads();
    }
    y[0][0] = T(n);
}

// The first warp fills a slot, the second one reads it.
template <class T>
__global__ void handed_over_kernel(Strided<T> x, Strided<T> y, long long n) {
    using gridgen::emulated::barrier_arrive;
    using gridgen::emulated::barrier_wait;
    __shared__ T slot[32];
    const int lane = threadIdx.x % 32;
    for (long long state = 0; state < n; ++state) {
        if (threadIdx.x < 32) {
            if (state > 0) barrier_wait(2, 64);
            slot[lane] = x.data[state * x.batch + lane];
            barrier_arrive(1, 64);
        } else {
            barrier_wait(1, 64);
            y.data[state * y.batch + lane] = slot[31 - lane];
            if (state + 1 < n) barrier_arrive(2, 64);
        }
    }
}

}  // namespace toy
