// What the tests call of gridgen_math.cuh and gridgen_simd.h, through ctypes.
#include "gridgen_simd.h"

using gridgen::Array;
using gridgen::Block;
using gridgen::int64;
using gridgen::Pack;

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
        Block<S, 1> input, sines, cosines, signs;
        input.load(array(const_cast<S*>(x)), i, states);
        gridgen::sincos(input[0], sines[0], cosines[0]);
        signs[0] = gridgen::sign(input[0]);
        sines.store(array(sine), i, states);
        cosines.store(array(cosine), i, states);
        signs.store(array(sign), i, states);
    }
}

template <class S, int N> void copy(const Array* arrays, int64 begin, int64 end) {
    const int64 width = gridgen::pack_size<S>;
    for (int64 i = begin; i < end; i += width) {
        const int64 states = end - i < width ? end - i : width;
        Block<S, N> block;
        block.load(arrays[0], i, states);
        block.store(arrays[1], i, states);
    }
}

// All lanes of the last block of a batch, the spare ones included.
template <class S, int N> void load(const Array* arrays, int64 begin, int64 count) {
    Block<S, N> block;
    block.load(arrays[0], begin, count);
    for (int j = 0; j < N; ++j)
        for (int i = 0; i < gridgen::pack_size<S>; ++i)
            static_cast<S*>(arrays[1].data)[j * gridgen::pack_size<S> + i] = block[j][i];
}

// Constants in every lane, -0 included, by the names that generated code uses.
template <class T> void constants(gridgen::Real<T>* out) {
    using R = gridgen::Real<T>;
    const T values[] = {gridgen::broadcast<T>(R(-0.0)), gridgen::broadcast<T>(R(0.25)) * R(3)};
    __builtin_memcpy(out, values, sizeof values);
}

#define GRIDGEN_EXPORT_SIZE(S, name, N)                                              \
    extern "C" void copy_##name##_##N(const Array* arrays, int64 begin, int64 end) { \
        copy<S, N>(arrays, begin, end);                                              \
    }                                                                                \
    extern "C" void load_##name##_##N(const Array* arrays, int64 begin, int64 n) {   \
        load<S, N>(arrays, begin, n);                                                \
    }
#define GRIDGEN_EXPORT(S, name)                                                                 \
    extern "C" int width_##name() { return gridgen::pack_size<S>; }                             \
    extern "C" void scalar_##name(const S* x, S* sine, S* cosine, S* sign, int64 count) {       \
        apply_scalar(x, sine, cosine, sign, count);                                             \
    }                                                                                           \
    extern "C" void pack_##name(const S* x, S* sine, S* cosine, S* sign, int64 count) {         \
        apply_pack(x, sine, cosine, sign, count);                                               \
    }                                                                                           \
    extern "C" void constants_##name(S* out) { constants<Pack<S>>(out); }                       \
    GRIDGEN_EXPORT_SIZE(S, name, 1)                                                             \
    GRIDGEN_EXPORT_SIZE(S, name, 3)                                                             \
    GRIDGEN_EXPORT_SIZE(S, name, 4)                                                             \
    GRIDGEN_EXPORT_SIZE(S, name, 7)                                                             \
    GRIDGEN_EXPORT_SIZE(S, name, 18)

GRIDGEN_EXPORT(float, float32)
GRIDGEN_EXPORT(double, float64)
extern "C" int fuses() { return GRIDGEN_FUSES; }
