// The sines and cosines of all angles of a function.
//
// Threads in lockstep reduce all angles at the start of a function, with one test for large angles: a
// test in each sincos would separate instructions that can be in flight at the same time. If a program
// would exceed the instruction caches, each is a call instead. A processor with branch prediction
// reduces an angle where its sine is needed.
#ifndef GRIDGEN_ANGLES_CUH
#define GRIDGEN_ANGLES_CUH

#include "gridgen_math.cuh"

// Whether threads run in lockstep, without branch prediction.
#if defined(__CUDACC__) || defined(__CUDACC_RTC__) || defined(GRIDGEN_EMULATED)
#define GRIDGEN_IN_STEP 1
#else
#define GRIDGEN_IN_STEP 0
#endif

namespace gridgen {

// The reduction of any angle; large angles are rare.
template <class T> GRIDGEN_COLD Reduced<T> reduce(T x) {
    const T numbers[] = {x};
    Reduced<T> angle[1];
    reduce_near(numbers, angle);
    return Lanes<T>::any_beyond(x, fast_reduction_limit) ? reduce_far(x, angle[0]) : angle[0];
}

template <class T, int count> struct Numbers {
    T x[count];

    GRIDGEN_DEVICE T operator[](int i) const { return x[i]; }
};

template <class T> GRIDGEN_PART Numbers<T, 2> called_sincos(T x) {
    Numbers<T, 2> both;
    sincos(x, both.x[0], both.x[1]);
    return both;
}

// All angles of a function, as `numbers` returns them.
template <class T, int count, bool are_called = false> struct Angles {
#if GRIDGEN_IN_STEP
    T sines[count], cosines[count];

    template <class F> GRIDGEN_DEVICE explicit Angles(F numbers) {
        Numbers<T, count> next = numbers();
        settle(next.x);
        if constexpr (are_called) {
            GRIDGEN_UNROLLED
            for (int k = 0; k < count; ++k) {
                const Numbers<T, 2> both = called_sincos(next.x[k]);
                sines[k] = both.x[0];
                cosines[k] = both.x[1];
            }
        } else {
            compute_together(next.x);
        }
    }
    GRIDGEN_DEVICE void compute_together(T (&x)[count]) {
        Reduced<T> reduced[count];
        reduce_near(x, reduced);
        bool any_far = false;
        GRIDGEN_UNROLLED
        for (int k = 0; k < count; ++k)
            any_far |= Lanes<T>::any_beyond(x[k], fast_reduction_limit);
        if (__builtin_expect(any_far, false)) {
            // A single call site: the loop shifts the values through the registers, without indexing them.
            GRIDGEN_ROLLED
            for (int k = 0; k < count; ++k) {
                const Reduced<T> last = reduce(x[0]);
                GRIDGEN_UNROLLED
                for (int i = 1; i < count; ++i) {
                    x[i - 1] = x[i];
                    reduced[i - 1] = reduced[i];
                }
                reduced[count - 1] = last;
            }
        }
        gridgen::sincos(reduced, sines, cosines);
    }
    GRIDGEN_DEVICE void sincos(int k, T, T& sine, T& cosine) const {
        sine = sines[k];
        cosine = cosines[k];
    }
#else
    template <class F> GRIDGEN_DEVICE explicit Angles(F) {}
    GRIDGEN_DEVICE void sincos(int, T x, T& sine, T& cosine) const {
        gridgen::sincos<T>(x, sine, cosine);
    }
#endif
};

}  // namespace gridgen

#endif  // GRIDGEN_ANGLES_CUH
