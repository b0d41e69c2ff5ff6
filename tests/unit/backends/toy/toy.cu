#include "toy.cuh"

namespace toy {

template <class T>
__global__ void evaluate_kernel(gridgen::Strided<T> x, gridgen::Strided<T> y, long long n) {
    const long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
    if (i < n) {
        const T* xi = x.data + i * x.batch;
        y.data[i * y.batch] = polynomial(xi[0], xi[x.component]);
    }
}

// Uses shared memory, and a stack that no register can hold.
template <class T>
__global__ void shuffle_kernel(gridgen::Strided<T> x, gridgen::Strided<T> y, long long n) {
    __shared__ T shared[64];
    const long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
    T values[40];
    for (int k = 0; k < 40; ++k) {
        values[k] = x.data[i + k * n];
    }
    shared[threadIdx.x & 63] = values[3];
    __syncthreads();
    for (int k = 0; k < 40; ++k) {
        y.data[i + k * n] = values[static_cast<int>(x.data[k])] + shared[(threadIdx.x + 1) & 63];
    }
}

}  // namespace toy
