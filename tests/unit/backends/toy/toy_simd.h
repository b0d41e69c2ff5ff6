#pragma once
#include "gridgen_call.h"
#include "toy.cuh"

namespace toy {

struct evaluate_traits {
    static constexpr gridgen::Axes axes[] = {{2}, {1}};
    static constexpr int inputs = 1, configurations = 0, quaternions[] = {-1};
};
using evaluate_slowly_traits = evaluate_traits;

namespace simd {

template <class T>
bool evaluate(const gridgen::Array* arrays, long long begin, long long end, long long) {
    const T* x = static_cast<const T*>(arrays[0].data);
    T* y = static_cast<T*>(arrays[1].data);
    for (long long i = begin; i < end; ++i) {
        const T* xi = x + i * arrays[0].batch;
        y[i * arrays[1].batch] = polynomial(xi[0], xi[arrays[0].component]);
    }
    return true;
}

// Takes long enough for a batch to be worth dividing.
template <class T>
bool evaluate_slowly(const gridgen::Array* arrays, long long begin, long long end, long long) {
    const T* x = static_cast<const T*>(arrays[0].data);
    T* y = static_cast<T*>(arrays[1].data);
    for (long long i = begin; i < end; ++i) {
        const T* xi = x + i * arrays[0].batch;
        volatile T sum = T(0);
        for (int k = 0; k < 2000; ++k) {
            sum = sum + T(1);
        }
        y[i * arrays[1].batch] = polynomial(xi[0], xi[arrays[0].component]) + (sum - T(2000));
    }
    return true;
}

}  // namespace simd
}  // namespace toy
