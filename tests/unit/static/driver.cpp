// What the tests call of gridgen_math.cuh and gridgen_simd.h, through ctypes.
#include "gridgen_simd.h"

using gridgen::Argument;
using gridgen::Array;
using gridgen::int64;
using gridgen::Pack;
using gridgen::Result;

template <class S> void apply_scalar(const S* x, S* sine, S* cosine, S* sign, int64 count) {
    for (int64 i = 0; i < count; ++i) {
        gridgen::sincos(x[i], sine[i], cosine[i]);
        sign[i] = gridgen::sign(x[i]);
    }
}

template <class S> void apply_pack(const S* x, S* sine, S* cosine, S* sign, int64 count) {
    const int64 width = gridgen::pack_size<S>;
    const auto array = [](S* data) { return Array{data, 1, 0}; };
    for (int64 i = 0; i < count; i += width) {
        const int64 states = count - i < width ? count - i : width;
        Argument<S, 1> input;
        Result<S, 1> sines, cosines, signs;
        input.load(array(const_cast<S*>(x)), i, states);
        gridgen::sincos(input.x[0], sines.x[0], cosines.x[0]);
        signs.x[0] = gridgen::sign(input.x[0]);
        sines.store(array(sine), i, states, false);
        cosines.store(array(cosine), i, states, false);
        signs.store(array(sign), i, states, false);
    }
}

// Square root of |x|, angle of (x, y), and x where y is negative, elsewhere 2.
template <class S> void choose_scalar(const S* x, const S* y, S* root, S* angle, S* chosen, int64 n) {
    for (int64 i = 0; i < n; ++i) {
        root[i] = gridgen::sqrt<S>(x[i] < 0 ? -x[i] : x[i]);
        angle[i] = gridgen::atan2<S>(y[i], x[i]);
        chosen[i] = gridgen::select<S>(y[i], x[i], S(2));
    }
}

template <class S> void choose_pack(const S* x, const S* y, S* root, S* angle, S* chosen, int64 n) {
    constexpr int width = gridgen::pack_size<S>;
    for (int64 i = 0; i + width <= n; i += width) {
        Pack<S> a, b;
        __builtin_memcpy(&a, x + i, sizeof a);
        __builtin_memcpy(&b, y + i, sizeof b);
        const Pack<S> size = a < S(0) ? -a : a;
        const Pack<S> results[] = {gridgen::sqrt<Pack<S>>(size), gridgen::atan2<Pack<S>>(b, a),
                                   gridgen::select<Pack<S>>(b, a, S(2))};
        __builtin_memcpy(root + i, &results[0], sizeof a);
        __builtin_memcpy(angle + i, &results[1], sizeof a);
        __builtin_memcpy(chosen + i, &results[2], sizeof a);
    }
}

template <class T> void power(const gridgen::Real<T>* x, gridgen::Real<T>* power,
                              gridgen::Real<T>* logarithm, int64 n) {
    for (int64 i = 0; i + gridgen::Lanes<T>::count <= n; i += gridgen::Lanes<T>::count) {
        T number;
        __builtin_memcpy(&number, x + i, sizeof number);
        const T results[] = {gridgen::exp<T>(number), gridgen::log<T>(number)};
        __builtin_memcpy(power + i, &results[0], sizeof number);
        __builtin_memcpy(logarithm + i, &results[1], sizeof number);
    }
}

template <class S, int N>
void copy(const Array* arrays, int64 begin, int64 end, bool streamed) {
    const int64 width = gridgen::pack_size<S>;
    for (int64 i = begin; i < end; i += width) {
        const int64 states = end - i < width ? end - i : width;
        Argument<S, N> source;
        Result<S, N> target;
        source.load(arrays[0], i, states);
        for (int j = 0; j < N; ++j) target.elements()[j] = source.x[j];
        target.store(arrays[1], i, states, streamed);
    }
    if (streamed) gridgen::finish_streams();
}

// Three components of the source into seven, of which some are the same.
struct Shared {
    static constexpr gridgen::Axes axes[] = {{3}, {7}};
    static constexpr int inputs = 1, distinct[] = {3}, places[] = {0, 1, 1, 2, 0, 1, 2};
};
template <class S> void share(const Array* arrays, int64 begin, int64 end) {
    const int64 width = gridgen::pack_size<S>;
    for (int64 i = begin; i < end; i += width) {
        const int64 states = end - i < width ? end - i : width;
        Argument<S, 3> source;
        Result<S, 7, gridgen::SharedPacks<Shared, 1>> target;
        source.load(arrays[0], i, states);
        const int components[] = {4, 1, 6};
        for (int j = 0; j < 3; ++j) target.elements()[components[j]] = source.x[j];
        target.store(arrays[1], i, states, false);
    }
}

// All lanes of the last block of a batch, the spare ones included.
template <class S, int N> void load(const Array* arrays, int64 begin, int64 count) {
    Argument<S, N> block;
    block.load(arrays[0], begin, count);
    for (int j = 0; j < N; ++j)
        for (int i = 0; i < gridgen::pack_size<S>; ++i)
            static_cast<S*>(arrays[1].data)[j * gridgen::pack_size<S> + i] = block.x[j][i];
}

// Constants in every lane, -0 included, by the names that generated code uses.
template <class T> void constants(gridgen::Real<T>* out) {
    using R = gridgen::Real<T>;
    const T values[] = {gridgen::broadcast<T>(R(-0.0)), gridgen::broadcast<T>(R(0.25)) * R(3)};
    __builtin_memcpy(out, values, sizeof values);
}

#define GRIDGEN_EXPORT_SIZE(S, name, N)                                                \
    extern "C" void copy_##name##_##N(const Array* arrays, int64 begin, int64 end) {   \
        copy<S, N>(arrays, begin, end, false);                                         \
    }                                                                                  \
    extern "C" void stream_##name##_##N(const Array* arrays, int64 begin, int64 end) { \
        copy<S, N>(arrays, begin, end, true);                                          \
    }                                                                                  \
    extern "C" void load_##name##_##N(const Array* arrays, int64 begin, int64 n) {     \
        load<S, N>(arrays, begin, n);                                                  \
    }
#define GRIDGEN_EXPORT(S, name)                                                                 \
    extern "C" int width_##name() { return gridgen::pack_size<S>; }                             \
    extern "C" void scalar_##name(const S* x, S* sine, S* cosine, S* sign, int64 count) {       \
        apply_scalar(x, sine, cosine, sign, count);                                             \
    }                                                                                           \
    extern "C" void pack_##name(const S* x, S* sine, S* cosine, S* sign, int64 count) {         \
        apply_pack(x, sine, cosine, sign, count);                                               \
    }                                                                                           \
    extern "C" void choose_scalar_##name(const S* x, const S* y, S* root, S* angle, S* chosen,  \
                                         int64 n) {                                             \
        choose_scalar(x, y, root, angle, chosen, n);                                            \
    }                                                                                           \
    extern "C" void choose_pack_##name(const S* x, const S* y, S* root, S* angle, S* chosen,    \
                                       int64 n) {                                               \
        choose_pack(x, y, root, angle, chosen, n);                                              \
    }                                                                                           \
    extern "C" void power_scalar_##name(const S* x, S* power_, S* logarithm, int64 n) {         \
        power<S>(x, power_, logarithm, n);                                                      \
    }                                                                                           \
    extern "C" void power_pack_##name(const S* x, S* power_, S* logarithm, int64 n) {           \
        power<Pack<S>>(x, power_, logarithm, n);                                                \
    }                                                                                           \
    extern "C" void constants_##name(S* out) { constants<Pack<S>>(out); }                       \
    extern "C" void share_##name##_3(const Array* arrays, int64 begin, int64 end) {             \
        share<S>(arrays, begin, end);                                                           \
    }                                                                                           \
    GRIDGEN_EXPORT_SIZE(S, name, 1)                                                             \
    GRIDGEN_EXPORT_SIZE(S, name, 3)                                                             \
    GRIDGEN_EXPORT_SIZE(S, name, 4)                                                             \
    GRIDGEN_EXPORT_SIZE(S, name, 7)                                                             \
    GRIDGEN_EXPORT_SIZE(S, name, 18)

GRIDGEN_EXPORT(float, float32)
GRIDGEN_EXPORT(double, float64)
extern "C" int fuses() { return GRIDGEN_FUSES; }
