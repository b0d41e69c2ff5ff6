// Number types, strided arrays and scalar mathematics for all generated files.
//
// Compiled by NVRTC, nvcc and host C++17 compilers. It includes no header, so that no target needs host
// headers or a C++ standard library. T is float or double here; gridgen_simd.h adds packs of both. Every
// fused multiply-add of sine and cosine is explicit and no other product is part of a sum: results are
// bitwise equal on all targets with the instruction, for any contraction by a compiler.
#ifndef GRIDGEN_MATH_CUH
#define GRIDGEN_MATH_CUH

// GRIDGEN_DEVICE marks small functions, which are inlined; GRIDGEN_LARGE marks long ones (thousands of
// statements), for which the compiler decides; GRIDGEN_PART marks a part of a function that is too long
// to compile in one piece, and is not inlined; GRIDGEN_JOINED_PART is not inlined on a CPU, but on a
// GPU, where all parts together still fit in registers; GRIDGEN_COLD marks rarely called functions,
// which must not use registers of the caller.
#if defined(__CUDACC_RTC__)
#define GRIDGEN_DEVICE __device__ __forceinline__
#define GRIDGEN_LARGE __device__ inline
#define GRIDGEN_PART __device__ __noinline__
#define GRIDGEN_JOINED_PART __device__ __forceinline__
#define GRIDGEN_COLD __device__ __noinline__
#elif defined(__CUDACC__)
#define GRIDGEN_DEVICE __host__ __device__ __forceinline__
#define GRIDGEN_LARGE __host__ __device__ inline
#define GRIDGEN_PART __host__ __device__ __noinline__
#define GRIDGEN_JOINED_PART __host__ __device__ __forceinline__
#define GRIDGEN_COLD __host__ __device__ __noinline__
#else
#define GRIDGEN_DEVICE __attribute__((always_inline)) inline
#define GRIDGEN_LARGE inline
#define GRIDGEN_PART __attribute__((noinline))
#define GRIDGEN_JOINED_PART __attribute__((noinline))
#define GRIDGEN_COLD __attribute__((noinline, cold))
#endif

// A loop that NVRTC must not unroll: unrolling those of large robots takes minutes.
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define GRIDGEN_ROLLED _Pragma("unroll 1")
#define GRIDGEN_BY_TWO _Pragma("unroll 2")  // for stores: not unrolled, they would wait for the counter
#define GRIDGEN_BY_FOUR _Pragma("unroll 4")
#else
#define GRIDGEN_ROLLED
#define GRIDGEN_BY_TWO
#define GRIDGEN_BY_FOUR
#endif

// A short loop over an array in registers, which must be unrolled: registers have no address.
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define GRIDGEN_UNROLLED _Pragma("unroll")
#else
#define GRIDGEN_UNROLLED
#endif

// Constant arrays, in the memory of the device that reads them.
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define GRIDGEN_TABLE __device__ const
#else
#define GRIDGEN_TABLE constexpr
#endif

#if defined(__CUDACC__) || defined(__FMA__) || defined(__ARM_FEATURE_FMA) || defined(__riscv_d)
#define GRIDGEN_FUSES 1  // there is a fused multiply-add instruction
#else
#define GRIDGEN_FUSES 0
#endif

namespace gridgen {

using int64 = long long;
using uint32 = unsigned int;
using uint64 = unsigned long long;

static_assert(sizeof(uint32) == 4 && sizeof(uint64) == 8, "int must have 32 bits, long long 64");

// A joined part that a GPU calls as a function in double, where values take twice the registers.
template <auto part, class... Arguments> GRIDGEN_PART void apart(Arguments... arguments) {
    part(arguments...);
}
template <class T, auto part, class... Arguments>
GRIDGEN_DEVICE void joined_float(Arguments... arguments) {
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
    if constexpr (sizeof(T) == 8) return apart<part>(arguments...);
#endif
    part(arguments...);
}

// --- Arrays -------------------------------------------------------------------------------------

// A type that is not deduced: the explicit one, or the default.
template <class T> struct Named {
    using Type = T;
};
template <class T> using Same = typename Named<T>::Type;

// The numbers 0, 1 ... n - 1; NVRTC has no header for them.
template <int... i> struct Indices {};
template <int n, int... i> struct CountTo : CountTo<n - 1, n - 1, i...> {};
template <int... i> struct CountTo<0, i...> { using type = Indices<i...>; };
template <int n> using UpTo = typename CountTo<n>::type;

// Component j of one state is data[j * component].
template <class T> struct View {
    T* data;
    int64 component;

    GRIDGEN_DEVICE T& operator[](int j) const { return data[j * component]; }
};

// A batch: component j of state i is data[i * batch + j * component]. Strides count elements.
template <class T> struct Strided {
    T* data;
    int64 batch;
    int64 component;

    GRIDGEN_DEVICE View<T> operator[](int64 state) const {
        return {data + state * batch, component};
    }
};

// The arguments of a kernel.
template <class T> using Input = Strided<const T>;
template <class T> using Output = Strided<T>;

// The view from component `start` of one state.
template <class T> GRIDGEN_DEVICE T* from(T* state, int64 start) { return state + start; }
template <class T> GRIDGEN_DEVICE View<T> from(View<T> state, int64 start) {
    return {state.data + start * state.component, state.component};
}

// Sets elements [begin, end) of a result to one value. Stores of a view are in a loop unless they are
// few: its stride is a run-time value, so that each store would compute an address of its own.
constexpr int few_elements = 4;
template <int begin, int end, class Out, class T> GRIDGEN_DEVICE void fill(Out result, T value) {
    GRIDGEN_UNROLLED
    for (int j = begin; j < end; ++j) result[j] = value;
}
template <int begin, int end, class T> GRIDGEN_DEVICE void fill(View<T> result, T value) {
    if constexpr (end - begin > few_elements) {
        GRIDGEN_ROLLED
        for (int j = begin; j < end; ++j) result[j] = value;
    } else {
        GRIDGEN_UNROLLED
        for (int j = begin; j < end; ++j) result[j] = value;
    }
}

// --- Functions ----------------------------------------------------------------------------------

// The axes of an array argument of one state.
struct Axes {
    int count;
    int extent[4];

    template <class... Extents>
    GRIDGEN_DEVICE constexpr Axes(Extents... extents)
        : count(sizeof...(extents)), extent{extents...} {}

    GRIDGEN_DEVICE constexpr int size() const {
        int size = 1;
        for (int i = 0; i < count; ++i) size *= extent[i];
        return size;
    }
};

// A part of a result's row: its offset among the staged numbers of a state in shared memory, negative if
// it is not staged; and the element that is stored last.
struct Tile {
    int begin;
    int last;
};

// Traits of a function F for kernels and entry points. Those of a robot's functions derive from this:
//
//   axes, inputs    axes of its arrays, -1 for one of any length; number of inputs, which are the first arrays
//   configurations  number of inputs, the first ones, that are configurations
//   compute         the function
//   scratch         numbers of scratch memory for its loops
//   stored, parked  values that its parts exchange; long-lived values
//
// On a GPU:
//
//   staged, begins  numbers of shared memory per state for arrays in rows, and the offset of each
//                   input there, -1 for inputs that are not staged
//   widths, tiles   widths of the tiles of each result's rows; tiles of all results
//   is_loaded       whether a thread loads all inputs into registers at once
//   is_read         whether it also does so with inputs in shared memory
//   is_apart        whether a separate function copies tiles to global memory
//
// On a CPU:
//
//   distinct, places if it `repeats`: number of distinct elements of every result and, for results with
//                   equal ones, the distinct element of each element
//   parts, packs    its parts, and the number of packs that each computes before the next one
//   compute_part    a part
struct FunctionTraits {
    static constexpr int scratch = 0, stored = 0, parked = 0, staged = 0, packs = 0;
    static constexpr bool is_loaded = false, is_read = false, is_apart = false, repeats = false;
    static constexpr bool pairs = false;  // whether threads of some GPUs compute two states
};

template <class F> constexpr int array_count = sizeof(F::axes) / sizeof(Axes);
template <class F, int k> constexpr int size_of = F::axes[k].size();
template <class F, int k> constexpr bool is_input = k < F::inputs;

// --- Number types -------------------------------------------------------------------------------

// Constants of T for the routines below: Real is its scalar type, Bits and Signed are integers
// (or packs of them) of the same width, count is its number of lanes.
template <class T> struct Lanes;

template <> struct Lanes<float> {
    static constexpr int count = 1;
    using Real = float;
    using Bits = uint32;
    using Signed = int;
    static constexpr Bits sign_bit = Bits(1) << 31;

    static GRIDGEN_DEVICE float broadcast(float value) { return value; }
    static GRIDGEN_DEVICE bool any_negative(float x) { return x < 0; }
    static GRIDGEN_DEVICE bool any_beyond(float x, float limit) {  // a NaN is
#if defined(__CUDA_ARCH__)
        return !(fabsf(x) <= limit);
#else
        return !(__builtin_fabsf(x) <= limit);
#endif
    }
    static GRIDGEN_DEVICE float fma(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
        return __fmaf_rn(a, b, c);
#elif GRIDGEN_FUSES
        return __builtin_fmaf(a, b, c);
#else
        return float(double(a) * double(b) + double(c));  // the product is exact
#endif
    }
#if defined(__CUDA_ARCH__)
    static GRIDGEN_DEVICE void settle(float& x) { asm volatile("" : "+f"(x)); }
#else
    static GRIDGEN_DEVICE void settle(float&) {}
#endif
    static GRIDGEN_DEVICE float fnma(float a, float b, float c) { return fma(-a, b, c); }
    static GRIDGEN_DEVICE float sqrt(float x) {
#if defined(__CUDA_ARCH__)
        return __fsqrt_rn(x);
#else
        return __builtin_sqrtf(x);
#endif
    }
    static GRIDGEN_DEVICE Bits bits(float x) {
#if defined(__CUDA_ARCH__)
        return __float_as_uint(x);
#else
        Bits result;
        __builtin_memcpy(&result, &x, sizeof x);
        return result;
#endif
    }
    static GRIDGEN_DEVICE bool is_negative(Bits x) { return x >> 31; }
    static GRIDGEN_DEVICE float from_bits(Bits x) {
#if defined(__CUDA_ARCH__)
        return __uint_as_float(x);
#else
        float result;
        __builtin_memcpy(&result, &x, sizeof x);
        return result;
#endif
    }
};

template <> struct Lanes<double> {
    static constexpr int count = 1;
    using Real = double;
    using Bits = uint64;
    using Signed = int64;
    static constexpr Bits sign_bit = Bits(1) << 63;

    static GRIDGEN_DEVICE double broadcast(double value) { return value; }
    static GRIDGEN_DEVICE bool any_negative(double x) { return x < 0; }
    static GRIDGEN_DEVICE bool any_beyond(double x, double limit) {  // a NaN is
#if defined(__CUDA_ARCH__)
        return !(fabs(x) <= limit);
#else
        return !(__builtin_fabs(x) <= limit);
#endif
    }
    static GRIDGEN_DEVICE double fma(double a, double b, double c) {
#if defined(__CUDA_ARCH__)
        return __fma_rn(a, b, c);
#elif GRIDGEN_FUSES
        return __builtin_fma(a, b, c);
#else
        return a * b + c;  // sincos chose its constants so that the product is exact where it must
#endif
    }
#if defined(__CUDA_ARCH__)
    static GRIDGEN_DEVICE void settle(double& x) { asm volatile("" : "+d"(x)); }
#else
    static GRIDGEN_DEVICE void settle(double&) {}
#endif
    static GRIDGEN_DEVICE double fnma(double a, double b, double c) { return fma(-a, b, c); }
    static GRIDGEN_DEVICE double sqrt(double x) {
#if defined(__CUDA_ARCH__)
        return __dsqrt_rn(x);
#else
        return __builtin_sqrt(x);
#endif
    }
    static GRIDGEN_DEVICE Bits bits(double x) {
#if defined(__CUDA_ARCH__)
        return Bits(__double_as_longlong(x));
#else
        Bits result;
        __builtin_memcpy(&result, &x, sizeof x);
        return result;
#endif
    }
    static GRIDGEN_DEVICE bool is_negative(Bits x) { return x >> 63; }
    static GRIDGEN_DEVICE double from_bits(Bits x) {
#if defined(__CUDA_ARCH__)
        return __longlong_as_double(int64(x));
#else
        double result;
        __builtin_memcpy(&result, &x, sizeof x);
        return result;
#endif
    }
};

// The scalar type of T, for constants in generated code.
template <class T> using Real = typename Lanes<T>::Real;

// A T with this value in every lane.
template <class T> GRIDGEN_DEVICE T broadcast(Real<T> value) { return Lanes<T>::broadcast(value); }

template <class A, class B> constexpr bool are_same = false;
template <class A> constexpr bool are_same<A, A> = true;

// T itself; a real number in every lane.
template <class T, class S> GRIDGEN_DEVICE T widened(S value) {
    if constexpr (are_same<T, S>) {
        return value;
    } else {
        return broadcast<T>(value);
    }
}

// a b + c, rounded once if there is an instruction for it; a and c may be real numbers.
template <class A, class T, class C> GRIDGEN_DEVICE T fma(A a, T b, C c) {
#if GRIDGEN_FUSES
    return Lanes<T>::fma(widened<T>(a), b, widened<T>(c));
#else
    return a * b + c;
#endif
}

// c - a b, likewise.
template <class A, class T, class C> GRIDGEN_DEVICE T fnma(A a, T b, C c) {
#if GRIDGEN_FUSES
    return Lanes<T>::fnma(widened<T>(a), b, widened<T>(c));
#else
    return c - a * b;
#endif
}

// Forces the loads of a GPU before any computation with their values: compilers move each load to its
// first use, which serializes the waits. Compiles to no instruction.
template <class T, int count> GRIDGEN_DEVICE void settle(T (&numbers)[count]) {
    GRIDGEN_UNROLLED
    for (int k = 0; k < count; ++k) Lanes<T>::settle(numbers[k]);
}

// -1, 0 or 1; NaN and signed zeros are unchanged.
template <class T> GRIDGEN_DEVICE T sign(T x) {
    const T one = broadcast<T>(1);
    return x > Real<T>(0) ? one : (x < Real<T>(0) ? -one : x);
}

// a if the test is negative, else b; either may be a real number.
template <class T, class A, class B> GRIDGEN_DEVICE T select(T test, A a, B b) {
    return test < Real<T>(0) ? widened<T>(a) : widened<T>(b);
}

// Whether the number of any lane is negative; NaN is not.
template <class T> GRIDGEN_DEVICE bool any_negative(T test) {
    return Lanes<T>::any_negative(test);
}

// Lists the tests that are negative in some lane; returns their number.
template <class T, class Tests> GRIDGEN_DEVICE int choose(int count, const Tests& tests, int* chosen) {
    int found = 0;
    for (int i = 0; i < count; ++i)
        if (any_negative<T>(tests[i])) chosen[found++] = i;
    return found;
}

// Ends a loop before all lanes have converged, and reports it on a CPU.
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
GRIDGEN_DEVICE bool has_not_converged() { return false; }
#else
inline int not_converged = 0;
inline bool has_not_converged() {
    __atomic_store_n(&not_converged, 1, __ATOMIC_RELAXED);
    return false;
}
#endif

// The square root, correctly rounded.
template <class T> GRIDGEN_DEVICE T sqrt(T x) { return Lanes<T>::sqrt(x); }

// 1 / x, correctly rounded. In float on a GPU, subnormal x and results count as zero: NVIDIA's compiler
// takes the same steps, and a branch for these.
template <class T> GRIDGEN_DEVICE T reciprocal(T x) {
#if defined(__CUDA_ARCH__)
    if constexpr (are_same<T, float>) {
        float y;
        asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
        const float rest = Lanes<float>::fnma(x, y, 1);
        return Lanes<float>::any_beyond(rest, 0x1p-20f) ? y : Lanes<float>::fma(y, rest, y);
    }
#endif
    return Real<T>(1) / x;
}

// --- Sine and cosine ----------------------------------------------------------------------------

// x = n pi/2 + r, with |r| <= pi/4 and a little for the rounding of n. pi/2 is the sum of three
// numbers, positive because n = 0 must leave x = -0 as it is; the last still counts where x is as
// near to a multiple of pi/2 as numbers of its type come. The polynomials in u = r^2 are minimax on
// that interval (Remez), the coefficients rounded one by one from the constant up and the others
// fitted anew: sine is (sin r / r - 1) / u with a relative error of sin r of 2^-27.9 and 2^-57.8
// (float and double), cosine is (cos r - 1) / u with 2^-32.9 and 2^-63.9 of cos r.
template <class S> struct Trigonometry;

template <> struct Trigonometry<float> {
    static constexpr int mantissa_bits = 23;
    static constexpr int exponent_bias = 127;
    static constexpr float round_to_integer = 12582912.0f;  // 1.5 * 2^23: the sum's low bits are n
    static constexpr float two_over_pi = 0.636619772f;
    static constexpr float half_pi_0 = 0x1.921fb4p+0f;
    static constexpr float half_pi_1 = 0x1.4442d0p-24f;
    static constexpr float half_pi_2 = 0x1.846988p-48f;
    static constexpr float smallest = 0x1p-126f;

    static constexpr float sine[] = {-0x1.9952fap-13f, 0x1.110776p-7f, -0x1.555546p-3f};
    static constexpr float cosine[] = {0x1.99e80cp-16f, -0x1.6c0c28p-10f, 0x1.55554ap-5f, -0.5f};
};

template <> struct Trigonometry<double> {
    static constexpr int mantissa_bits = 52;
    static constexpr int exponent_bias = 1023;
    static constexpr double round_to_integer = 6755399441055744.0;  // 1.5 * 2^52
    static constexpr double two_over_pi = 0.63661977236758134;
    static constexpr double half_pi_0 = 0x1.921fb54442p+0;  // 40 bits: its product with n, of 13
    static constexpr double half_pi_1 = 0x1.a308d31318p-41;  // bits, is exact without an fma too
    static constexpr double half_pi_2 = 0x1.8a2e03707344ap-81;
    static constexpr double smallest = 0x1p-1022;

    static constexpr double sine[] = {0x1.5d8b55a682ac6p-33,  -0x1.ae5e4b8418ee8p-26,
                                      0x1.71de35552b852p-19,  -0x1.a01a019be9219p-13,
                                      0x1.111111110f730p-7,   -0x1.5555555555548p-3};
    static constexpr double cosine[] = {-0x1.8fa5ec6ebc234p-37, 0x1.1ee9dacb65a65p-29,
                                        -0x1.27e4f7f04ffa0p-22, 0x1.a01a019c8dd1cp-16,
                                        -0x1.6c16c16c1500dp-10, 0x1.555555555554bp-5, -0.5};
};

// An angle as its quadrant n (only the two low bits matter) and the rest r.
template <class T> struct Reduced {
    T rest;
    typename Lanes<T>::Bits quadrant;
};

// Up to here n has 13 bits and the three numbers suffice.
constexpr float fast_reduction_limit = 1e4f;

// The upper half of the 128-bit product.
GRIDGEN_DEVICE uint64 multiply_high(uint64 a, uint64 b) {
    const uint64 low = 0xffffffff;
    const uint64 a0 = a & low, a1 = a >> 32, b0 = b & low, b1 = b >> 32;
    const uint64 middle = a1 * b0 + (a0 * b0 >> 32);
    return a1 * b1 + (middle >> 32) + ((a0 * b1 + (middle & low)) >> 32);
}

// Any angle of at least 2, by the 192 bits of 2/pi that matter at its exponent (Payne and Hanek):
// the bits before them contribute whole turns, those after them less than 2^-126 quadrants.
template <class S> GRIDGEN_LARGE Reduced<S> reduce_exactly(S x) {
    using C = Trigonometry<S>;
    using Bits = typename Lanes<S>::Bits;
    static constexpr uint64 two_over_pi[20] = {
        0,
        0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561,
        0xb7246e3a424dd2e0, 0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484,
        0xe99c7026b45f7e41, 0x3991d639835339f4, 0x9c845f8bbdf9283b, 0x1ff897ffde05980f,
        0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d, 0x7527bac7ebe5f17b,
        0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab};
    const uint64 half_pi = 0xc90fdaa22168c235;  // 2^63 pi/2

    const Bits bits = Lanes<S>::bits(x);
    const int biased = int(bits >> C::mantissa_bits) & (2 * C::exponent_bias + 1);
    if (biased == 2 * C::exponent_bias + 1) return {x - x, 0};  // infinity or NaN: NaN

    // |x| = mantissa 2^(exponent - 63), hence |x| 2/pi = mantissa window / 2^190 modulo 4.
    const int exponent = biased - C::exponent_bias;
    const uint64 fraction = uint64(bits) & ((uint64(1) << C::mantissa_bits) - 1);
    const uint64 mantissa = ((uint64(1) << C::mantissa_bits) | fraction) << (63 - C::mantissa_bits);
    const uint64* words = two_over_pi + (exponent - 1) / 64;
    const int shift = (exponent - 1) % 64;
    uint64 window[3];
    for (int k = 0; k < 3; ++k)
        window[k] = (words[k] << shift) | (words[k + 1] >> 1 >> (63 - shift));

    const uint64 product_1 = mantissa * window[1];
    uint64 low = product_1 + multiply_high(mantissa, window[2]);
    uint64 high = mantissa * window[0] + multiply_high(mantissa, window[1]) + (low < product_1);

    // The quadrant is the nearest one; [high, low] becomes the distance to it, at most 1/2.
    int quadrant = int(high >> 62);
    high = (high << 2) | (low >> 62);
    low <<= 2;
    const bool beyond = high >> 63;
    if (beyond) {
        ++quadrant;
        low = ~low + 1;
        high = ~high + (low == 0);
    }
    int scale = C::exponent_bias - 63;
    for (; !(high >> 63); --scale) {  // ends: no double is within 2^-62 of a multiple of pi/2
        high = (high << 1) | (low >> 63);
        low <<= 1;
    }
    const S unit = Lanes<S>::from_bits(Bits(scale) << C::mantissa_bits);
    const S rest = S(multiply_high(high, half_pi)) * unit;
    return {beyond != (x < 0) ? -rest : rest, Bits(x < 0 ? -quadrant : quadrant)};
}

// The reduction of angles up to the limit; reduce_far replaces those beyond. Here and below, a step
// processes all angles before the next step starts: no operation waits for the previous result.
template <class T, int count>
GRIDGEN_DEVICE void reduce_near(const T (&x)[count], Reduced<T> (&angle)[count]) {
    using L = Lanes<T>;
    using C = Trigonometry<Real<T>>;
    constexpr Real<T> half_pi[] = {-C::half_pi_0, -C::half_pi_1, -C::half_pi_2};
    T n[count];
    GRIDGEN_UNROLLED
    for (int k = 0; k < count; ++k) {
        n[k] = L::fma(x[k], broadcast<T>(C::two_over_pi), broadcast<T>(C::round_to_integer));
        angle[k].quadrant = L::bits(n[k]);
        angle[k].rest = x[k];
    }
    GRIDGEN_UNROLLED
    for (int k = 0; k < count; ++k) n[k] = n[k] - C::round_to_integer;
    GRIDGEN_UNROLLED
    for (int part = 0; part < 3; ++part) {
        GRIDGEN_UNROLLED
        for (int k = 0; k < count; ++k)
            angle[k].rest = L::fma(n[k], broadcast<T>(half_pi[part]), angle[k].rest);
    }
}

// Replaces the fast reduction of lanes beyond its limit.
template <class T> GRIDGEN_COLD Reduced<T> reduce_far(T x, Reduced<T> angle) {
    if constexpr (Lanes<T>::count == 1) {
        return reduce_exactly(x);
    } else {
        for (int lane = 0; lane < Lanes<T>::count; ++lane) {
            const Real<T> number = x[lane];
            if (!Lanes<Real<T>>::any_beyond(number, fast_reduction_limit)) continue;
            const Reduced<Real<T>> exact = reduce_exactly(number);
            angle.rest[lane] = exact.rest;
            angle.quadrant[lane] = exact.quadrant;
        }
        return angle;
    }
}

// The polynomials of several numbers u, one step for all of them before the next step.
template <class C, int step, class T, int count>
GRIDGEN_DEVICE void add_terms(const T (&u)[count], T (&sine)[count], T (&cosine)[count]) {
    using L = Lanes<T>;
    constexpr int sines = sizeof C::sine / sizeof C::sine[0] - 1;
    constexpr int cosines = sizeof C::cosine / sizeof C::cosine[0] - 1;
    if constexpr (step < sines) {
        constexpr Real<T> term = C::sine[step + 1];
        GRIDGEN_UNROLLED
        for (int k = 0; k < count; ++k) sine[k] = L::fma(u[k], sine[k], broadcast<T>(term));
    }
    if constexpr (step < cosines) {
        constexpr Real<T> term = C::cosine[step + 1];
        GRIDGEN_UNROLLED
        for (int k = 0; k < count; ++k) cosine[k] = L::fma(u[k], cosine[k], broadcast<T>(term));
        add_terms<C, step + 1>(u, sine, cosine);
    }
}

// An odd quadrant swaps sine s and cosine c, quadrants 2 and 3 negate both. The bits move to the sign
// bit, which SIMD selections test.
template <class T>
GRIDGEN_DEVICE void turn(typename Lanes<T>::Bits quadrant, T s, T c, T& sine, T& cosine) {
    using L = Lanes<T>;
    using Bits = typename L::Bits;
    constexpr int top = 8 * sizeof(Real<T>) - 1;
    const Bits half = quadrant << (top - 1);
#if defined(__CUDA_ARCH__)
    // Saves three instructions: one tests a masked bit, one masks and flips a sign if the masked value has
    // no other use. The cosine is the sine one quadrant later.
    bool is_odd = quadrant & 1;
    if constexpr (are_same<T, float>) {
        Bits bit;
        asm("and.b32 %0, %1, 1;" : "=r"(bit) : "r"(quadrant));
        is_odd = bit != 0;
    }
    const Bits next = half + (Bits(1) << (top - 1));
    sine = L::from_bits(L::bits(is_odd ? c : s) ^ (half & L::sign_bit));
    cosine = L::from_bits(L::bits(is_odd ? s : c) ^ (next & L::sign_bit));
#else
    const auto odd = L::is_negative(quadrant << top);
    const Bits flip = half & Lanes<Real<T>>::sign_bit;
    sine = L::from_bits(L::bits(odd ? c : s) ^ flip);
    cosine = L::from_bits(L::bits(odd ? -s : c) ^ flip);
#endif
}

// Sines and cosines of reduced angles.
template <class T, int count>
GRIDGEN_DEVICE void sincos(const Reduced<T> (&angle)[count], T (&sine)[count], T (&cosine)[count]) {
    using L = Lanes<T>;
    using C = Trigonometry<Real<T>>;

    T u[count];
    constexpr Real<T> first_sine = C::sine[0], first_cosine = C::cosine[0];
    GRIDGEN_UNROLLED
    for (int k = 0; k < count; ++k) {
        u[k] = angle[k].rest * angle[k].rest;
        sine[k] = broadcast<T>(first_sine);
        cosine[k] = broadcast<T>(first_cosine);
    }
    add_terms<C, 0>(u, sine, cosine);

    // The sine of -0 is -0: without the smallest number, the sum of r and the product would be +0.
    GRIDGEN_UNROLLED
    for (int k = 0; k < count; ++k)
        sine[k] = L::fma(angle[k].rest, sine[k], broadcast<T>(-C::smallest));
    GRIDGEN_UNROLLED
    for (int k = 0; k < count; ++k) cosine[k] = L::fma(u[k], cosine[k], broadcast<T>(1));
    GRIDGEN_UNROLLED
    for (int k = 0; k < count; ++k) sine[k] = L::fma(u[k], sine[k], angle[k].rest);

    GRIDGEN_UNROLLED
    for (int k = 0; k < count; ++k)
        turn(angle[k].quadrant, T(sine[k]), T(cosine[k]), sine[k], cosine[k]);
}

// Sine and cosine of any angle within 1.6 ulp; NaN of infinities. Lanes are independent.
template <class T> GRIDGEN_DEVICE void sincos(T x, T& sine, T& cosine) {
    const T numbers[] = {x};
    Reduced<T> angles[1];
    T sines[1], cosines[1];
    reduce_near(numbers, angles);
    if (__builtin_expect(Lanes<T>::any_beyond(x, fast_reduction_limit), false))
        angles[0] = reduce_far(x, angles[0]);
    sincos(angles, sines, cosines);
    sine = sines[0];
    cosine = cosines[0];
}

// --- Exponential and logarithm -------------------------------------------------------------------

// e^x = 2^n e^r with |r| <= ln 2 / 2. The polynomial in r is (e^r - 1 - r) / r^2, minimax as those
// above, with a relative error of e^r of 2^-28.2 and 2^-56.4 (float and double). Beyond `highest` and
// `lowest`, e^x is infinite and zero.
//
// log x = k ln 2 + log m with m from sqrt(1/2) to sqrt(2). With s = (m - 1) / (m + 1) and u = s^2, the
// polynomial is (log m / s - 2) / u; relative errors of log m of 2^-30.2 and 2^-59.2.
template <class S> struct Exponential;

template <> struct Exponential<float> {
    static constexpr float log2_e = 0x1.715476p+0f, highest = 89, lowest = -105;
    static constexpr float ln2_high = 0x1.62e4p-1f, ln2_low = 0x1.7f7d1cp-20f;  // high: 16 bits
    static constexpr uint32 root_of_half = 0x3f3504f3;

    static constexpr float power[] = {0x1.6ac4a2p-10f, 0x1.123dc6p-7f, 0x1.555858p-5f,
                                      0x1.55548cp-3f, 0x1.fffffcp-2f};
    static constexpr float logarithm[] = {0x1.31e03ep-2f, 0x1.995ed8p-2f, 0x1.55557ap-1f};
};

template <> struct Exponential<double> {
    static constexpr double log2_e = 0x1.71547652b82fep+0, highest = 710, lowest = -750;
    static constexpr double ln2_high = 0x1.62e42fefa3p-1;  // 41 bits: exact products with n and k
    static constexpr double ln2_low = 0x1.3de6af278ece6p-42;
    static constexpr uint64 root_of_half = 0x3fe6a09e667f3bcd;

    static constexpr double power[] = {
        0x1.ad7f6655530e7p-26, 0x1.28ad72d3fa16fp-22, 0x1.71df255761396p-19, 0x1.a0199a0c5affdp-16,
        0x1.a01a012a559b1p-13, 0x1.6c16c1842a18fp-10, 0x1.1111111127beap-7,  0x1.555555555087cp-5,
        0x1.55555555554fap-3,  0x1.000000000000ap-1};
    static constexpr double logarithm[] = {
        0x1.2f03b4bc9fe6fp-3, 0x1.39a1e815b80f1p-3, 0x1.74663d0aac319p-3, 0x1.c71c521305e9ep-3,
        0x1.24924941e4827p-2, 0x1.999999997feabp-2, 0x1.5555555555592p-1};
};

// The value of a polynomial, whose first term is that of the highest power.
template <const auto& terms, int last = sizeof terms / sizeof terms[0] - 1, class T>
GRIDGEN_DEVICE T polynomial(T u) {
    constexpr Real<T> term = terms[last];
    if constexpr (last == 0) {
        return broadcast<T>(term);
    } else {
        return Lanes<T>::fma(u, polynomial<terms, last - 1>(u), broadcast<T>(term));
    }
}

// e to the power of x, within 1 ulp.
template <class T> GRIDGEN_DEVICE T exp(T x) {
    using L = Lanes<T>;
    using S = Real<T>;
    using C = Exponential<S>;
    using F = Trigonometry<S>;
    x = x > C::highest ? broadcast<T>(C::highest) : x;
    x = x < C::lowest ? broadcast<T>(C::lowest) : x;
    const T shifted = L::fma(x, broadcast<T>(C::log2_e), broadcast<T>(F::round_to_integer));
    const T n = shifted - F::round_to_integer;
    T r = L::fma(n, broadcast<T>(-C::ln2_high), x);
    r = L::fma(n, broadcast<T>(-C::ln2_low), r);
    const T y = L::fma(r * r, polynomial<C::power>(r), r) + S(1);

    // 2^n is the product of two normal numbers, also where the result is not one.
    const auto twice = L::bits(shifted) - (Lanes<S>::bits(F::round_to_integer) - 2 * F::exponent_bias);
    const auto half = twice >> 1;
    return y * L::from_bits(half << F::mantissa_bits) *
           L::from_bits((twice - half) << F::mantissa_bits);
}

// The natural logarithm, within 1 ulp; -infinity of zero, NaN of negative numbers.
template <class T> GRIDGEN_DEVICE T log(T x) {
    using L = Lanes<T>;
    using S = Real<T>;
    using C = Exponential<S>;
    using F = Trigonometry<S>;
    using Bits = typename Lanes<S>::Bits;
    constexpr Bits one = Bits(F::exponent_bias) << F::mantissa_bits;
    constexpr Bits mantissa = (Bits(1) << F::mantissa_bits) - 1;
    constexpr S scale = S(Bits(1) << F::mantissa_bits);

    const auto is_small = x < F::smallest;
    const auto bits = L::bits(is_small ? x * scale : x) + (one - C::root_of_half);
    // The sum of the number whose low bits are an integer, and k.
    const T count = L::from_bits((bits >> F::mantissa_bits) +
                                 (Lanes<S>::bits(F::round_to_integer) - F::exponent_bias));
    T k = count - F::round_to_integer;
    k = is_small ? k - S(F::mantissa_bits) : k;

    const T f = L::from_bits((bits & mantissa) + C::root_of_half) - S(1);
    const T s = f / (f + S(2)), u = s * s, half = f * S(0.5);
    const T sum = L::fma(u, polynomial<C::logarithm>(u), half * f);
    const T rest = L::fma(half, f, -L::fma(s, sum, k * C::ln2_low));
    const T result = L::fma(k, broadcast<T>(C::ln2_high), f - rest);

    constexpr Bits top = Bits(2 * F::exponent_bias + 1) << F::mantissa_bits;
    const S infinity = Lanes<S>::from_bits(top);
    const S undefined = Lanes<S>::from_bits(top | (Bits(1) << (F::mantissa_bits - 1)));  // a NaN
    const T outside = x == S(0) ? broadcast<T>(-infinity) : broadcast<T>(undefined);
    return x > S(0) ? (x < infinity ? result : x) : outside;
}

// --- The angle of a vector ----------------------------------------------------------------------

// The polynomial in u = r^2 is (atan r / r - 1) / u for r up to tan(pi/8), minimax as those above,
// with a relative error of atan r of 2^-30.4 and 2^-57.2 (float and double).
template <class S> struct Arctangent;

template <> struct Arctangent<float> {
    template <class T> static GRIDGEN_DEVICE T polynomial(T u) {
        using L = Lanes<T>;
        T p = L::fma(u, broadcast<T>(-0x1.f2acb4p-5f), broadcast<T>(0x1.b21adep-4f));
        p = L::fma(u, p, broadcast<T>(-0x1.23b924p-3f));
        p = L::fma(u, p, broadcast<T>(0x1.9991dep-3f));
        return L::fma(u, p, broadcast<T>(-0x1.55554ap-2f));
    }
};

template <> struct Arctangent<double> {
    template <class T> static GRIDGEN_DEVICE T polynomial(T u) {
        using L = Lanes<T>;
        T p = L::fma(u, broadcast<T>(-0x1.252da5199acb8p-6), broadcast<T>(0x1.37a7dac487e82p-5));
        p = L::fma(u, p, broadcast<T>(-0x1.9cbb53f059c62p-5));
        p = L::fma(u, p, broadcast<T>(0x1.df094fad675f0p-5));
        p = L::fma(u, p, broadcast<T>(-0x1.10eb47f83496ap-4));
        p = L::fma(u, p, broadcast<T>(0x1.3b110f100ad9ap-4));
        p = L::fma(u, p, broadcast<T>(-0x1.745cf84c6677bp-4));
        p = L::fma(u, p, broadcast<T>(0x1.c71c70e10da03p-4));
        p = L::fma(u, p, broadcast<T>(-0x1.24924922a0744p-3));
        p = L::fma(u, p, broadcast<T>(0x1.999999999564fp-3));
        return L::fma(u, p, broadcast<T>(-0x1.555555555553cp-2));
    }
};

// The angle of the vector (x, y), from -pi to pi; NaN where both are infinite.
template <class T> GRIDGEN_DEVICE T atan2(T y, T x) {
    using L = Lanes<T>;
    using S = Real<T>;
    const T across = L::from_bits(L::bits(x) & ~Lanes<S>::sign_bit);
    const T up = L::from_bits(L::bits(y) & ~Lanes<S>::sign_bit);

    // The vector is mirrored until its angle is at most pi/4, and rotated by -pi/4 if the angle exceeds
    // pi/8.
    const auto is_steep = up > across;
    const T low = is_steep ? across : up, high = is_steep ? up : across;
    const auto is_middle = low > high * S(0x1.a827999fcef32p-2);  // tan(pi/8)
    const T length = high == S(0) ? broadcast<T>(1) : high;
    const T r = (is_middle ? low - high : low) / (is_middle ? low + high : length);

    const T u = r * r;
    T angle = L::fma(r * u, Arctangent<S>::polynomial(u), r);
    angle = is_middle ? angle + S(0x1.921fb54442d18p-1) : angle;
    angle = is_steep ? S(0x1.921fb54442d18p+0) - angle : angle;
    angle = L::is_negative(L::bits(x)) ? S(0x1.921fb54442d18p+1) - angle : angle;
    return L::from_bits(L::bits(angle) ^ (L::bits(y) & Lanes<S>::sign_bit));
}

}  // namespace gridgen

#endif  // GRIDGEN_MATH_CUH
