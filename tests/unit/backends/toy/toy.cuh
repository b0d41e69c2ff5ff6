// y = x0 * x0 + 3 x1, for any scalar.
#pragma once
#include "gridgen_math.cuh"

#ifdef __CUDACC__
#define TOY_FUNCTION __device__ inline
#else
#define TOY_FUNCTION inline
#endif

namespace toy {

template <class T>
TOY_FUNCTION T polynomial(const T& x0, const T& x1) {
    return x0 * x0 + T(3) * x1;
}

}  // namespace toy
