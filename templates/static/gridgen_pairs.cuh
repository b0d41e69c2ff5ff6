// Two states per thread, on GPUs with packed instructions for two floats: compute capabilities 10.0 and
// 10.3. Others execute them as two instructions. A thread's states are 32 apart, so that neighboring
// threads access neighboring states as with one state per thread.
#ifndef GRIDGEN_PAIRS_CUH
#define GRIDGEN_PAIRS_CUH

#include "gridgen_states.cuh"

namespace gridgen {

// Two floats: a T of functions, like the packs of a CPU. Both have the bits of one.
struct alignas(8) Two {
    uint64 both;

    Two() = default;
    GRIDGEN_DEVICE Two(float x, float y) {
        asm("mov.b64 %0, {%1, %2};" : "=l"(both) : "f"(x), "f"(y));
    }
    GRIDGEN_DEVICE Two(float x) : Two(x, x) {}
    GRIDGEN_DEVICE float first() const { return __uint_as_float(uint32(both)); }
    GRIDGEN_DEVICE float second() const { return __uint_as_float(uint32(both >> 32)); }
};

GRIDGEN_DEVICE Two operator+(Two a, Two b) {
    asm("add.rn.f32x2 %0, %0, %1;" : "+l"(a.both) : "l"(b.both));
    return a;
}
GRIDGEN_DEVICE Two operator*(Two a, Two b) {
    asm("mul.rn.f32x2 %0, %0, %1;" : "+l"(a.both) : "l"(b.both));
    return a;
}
GRIDGEN_DEVICE Two operator-(Two a) { return a * Two(-1.0f); }
GRIDGEN_DEVICE Two operator/(Two a, Two b) {
    return {a.first() / b.first(), a.second() / b.second()};
}

template <> struct Lanes<Two> {
    static constexpr int count = 2;
    using Real = float;
    struct Bits {
        uint32 first, second;
    };

    static GRIDGEN_DEVICE Two broadcast(float value) { return value; }
    static GRIDGEN_DEVICE bool any_beyond(Two x, float limit) {
        return Lanes<float>::any_beyond(x.first(), limit) || Lanes<float>::any_beyond(x.second(), limit);
    }
    static GRIDGEN_DEVICE Two fma(Two a, Two b, Two c) {
        asm("fma.rn.f32x2 %0, %1, %2, %0;" : "+l"(c.both) : "l"(a.both), "l"(b.both));
        return c;
    }
    static GRIDGEN_DEVICE Two fnma(Two a, Two b, Two c) { return fma(-a, b, c); }
    static GRIDGEN_DEVICE void settle(Two& x) { asm volatile("" : "+l"(x.both)); }
    static GRIDGEN_DEVICE Two sqrt(Two x) {
        return {Lanes<float>::sqrt(x.first()), Lanes<float>::sqrt(x.second())};
    }
    static GRIDGEN_DEVICE Bits bits(Two x) {
        return {Lanes<float>::bits(x.first()), Lanes<float>::bits(x.second())};
    }
};
GRIDGEN_DEVICE Two operator-(Two a, Two b) { return Lanes<Two>::fma(b, Two(-1.0f), a); }

template <> GRIDGEN_DEVICE Two reciprocal<Two>(Two x) {
    return {reciprocal(x.first()), reciprocal(x.second())};
}

template <>
GRIDGEN_DEVICE void turn<Two>(Lanes<Two>::Bits quadrant, Two s, Two c, Two& sine, Two& cosine) {
    float sines[2], cosines[2];
    turn<float>(quadrant.first, s.first(), c.first(), sines[0], cosines[0]);
    turn<float>(quadrant.second, s.second(), c.second(), sines[1], cosines[1]);
    sine = {sines[0], sines[1]};
    cosine = {cosines[0], cosines[1]};
}

template <> GRIDGEN_COLD Reduced<Two> reduce_far<Two>(Two x, Reduced<Two> angle) {
    Reduced<float> first{angle.rest.first(), angle.quadrant.first};
    Reduced<float> second{angle.rest.second(), angle.quadrant.second};
    if (Lanes<float>::any_beyond(x.first(), fast_reduction_limit)) first = reduce_exactly(x.first());
    if (Lanes<float>::any_beyond(x.second(), fast_reduction_limit)) second = reduce_exactly(x.second());
    return {{first.rest, second.rest}, {first.quadrant, second.quadrant}};
}

// An argument of two states.
template <class State> struct InputPair {
    State first, second;

    GRIDGEN_DEVICE Two operator[](int j) const { return {first[j], second[j]}; }
};

// A result of two states; the second one may not exist.
template <class State> struct ResultPair {
    State first, second;
    bool has_second;

    struct Element {
        const ResultPair& pair;
        int j;

        GRIDGEN_DEVICE void operator=(Two value) const {
            pair.first[j] = value.first();
            if (pair.has_second) pair.second[j] = value.second();
        }
    };
    GRIDGEN_DEVICE Element operator[](int j) const { return {*this, j}; }
};

// Array k of a function for two states.
template <bool is_input, class State>
GRIDGEN_DEVICE auto pair_of(const State& first, const State& second, bool has_second) {
    if constexpr (is_input) return InputPair<decltype(given(first))>{given(first), given(second)};
    else return ResultPair<const State&>{first, second, has_second};
}

template <class T, class F, int... k, class... Arrays>
GRIDGEN_DEVICE void run_state_pairs(Indices<k...>, int64 n, const Arrays&... arrays) {
    using In = InputPair<decltype(given(state_of<T, F, 0>(Input<T>(), 0)))>;
    const Warp first(n, 2 * Warp::own_number());
    const int64 i = first.begin() + first.lane, j = i + warp_states;
    if (i >= n) return;
    const bool has_second = j < n;
    compute<Two, In, F>(0, pair_of<is_input<F, k>>(
        state_of<T, F, k>(arrays, i), state_of<T, F, k>(arrays, has_second ? j : i), has_second)...);
}

// Array k of a function for rows, for two states.
template <class T, class F, int k> struct RowPair {
    using Row = RowOf<T, F, k, is_input<F, k>, is_staged<F>(k)>;

    Row first, second;

    template <class Array>
    GRIDGEN_DEVICE RowPair(const Array& array, T* shared, const Warp& one, const Warp& other)
        : first(array, shared, one), second(array, shared + warp_states * F::staged, other) {}

    struct Pieces {
        decltype(static_cast<const Row*>(nullptr)->pieces()) first, second;

        GRIDGEN_DEVICE void store() const {
            first.store();
            second.store();
        }
    };
    GRIDGEN_DEVICE Pieces pieces() const { return {first.pieces(), second.pieces()}; }
    GRIDGEN_DEVICE void store_number(uint32 i) const {
        first.store_number(i);
        second.store_number(i);
    }
    GRIDGEN_DEVICE void load() {
        first.load();
        second.load();
    }
    GRIDGEN_DEVICE auto state() const {
        return pair_of<is_input<F, k>>(first.state(), second.state(), true);
    }
};

template <class T, class F, int... k, class... Arrays>
GRIDGEN_DEVICE void run_row_pairs(Indices<k...>, int64 n, const Arrays&... arrays) {
    const Warp first(n, 2 * Warp::own_number());
    if (first.states <= 0) return;
    // Without a second state, it reads the first again, and writes nothing.
    const bool has_second = first.begin() + warp_states < n;
    Warp second(n, first.number + has_second);
    if (!has_second) second.states = 0;
    T* const shared = first.shared<T>(2 * F::staged);
    compute_rows<Two, InputPair<const T*>, F>(
        first, second, RowPair<T, F, k>(arrays, shared, first, second)...);
}

}  // namespace gridgen

#endif  // GRIDGEN_PAIRS_CUH
