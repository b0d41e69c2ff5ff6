// Implementation of the C functions of a robot. With GRIDGEN_ONE_STATE they compute one state after the
// other, and contain no code for SIMD packs: for controllers, and for programs that call one state alone.
#ifndef GRIDGEN_LIBRARY_H
#define GRIDGEN_LIBRARY_H

#include "gridgen_call.h"

#define GRIDGEN_EXPORT extern "C" __attribute__((visibility("default")))

namespace gridgen {

// Consecutive states, `numbers` each.
template <class S> Array in_rows(const S* data, int64 numbers) {
    return {const_cast<S*>(data), numbers, 1};
}
// One state for the whole batch.
template <class S> Array for_all(const S* data) { return {const_cast<S*>(data), 0, 1}; }
// The same, or its default.
template <class S, int numbers> Array for_all(const S* data, const S (&fallback)[numbers]) {
    return for_all(data ? data : fallback);
}
// Consecutive states, or the default for the whole batch.
template <class S, int numbers> Array in_rows(const S* data, const S (&fallback)[numbers]) {
    return data ? in_rows(data, numbers) : for_all(fallback);
}

// Validates `count` arrays. The first ones are configurations.
template <class S>
gridgen_status checked(const Array* arrays, int count, int configurations, const int* quaternions,
                       int64 begin, int64 end, int64 batch) {
    if (begin < 0 || end < begin || batch < end) return gridgen_bad_count;
    if (begin == end) return gridgen_done;
    for (int i = 0; i < count; ++i)
        if (!arrays[i].data) return gridgen_no_array;
    for (int i = 0; i < configurations; ++i)
        if (!has_unit_quaternions<S>(arrays[i], quaternions, begin, end)) return gridgen_no_rotation;
    return gridgen_done;
}

template <class S, class F>
GRIDGEN_DEVICE gridgen_status checked(const Array* arrays, int64 begin, int64 end, int64 batch) {
    return checked<S>(
        arrays, array_count<F>, F::configurations, F::quaternions, begin, end, batch);
}

// Computes states [begin, end) of a batch of any layout.
template <class S, class F>
gridgen_status compute_strided(const Array* arrays, int64 begin, int64 end, int64 batch) {
    if (!arrays) return gridgen_no_array;
    const gridgen_status status = checked<S, F>(arrays, begin, end, batch);
    if (status != gridgen_done || begin == end) return status;
#if defined(GRIDGEN_ONE_STATE)
    const bool is_done = run_lanes<S, F>(arrays, begin, end, batch);
#else
    const bool is_done = end - begin == 1 ? run_lanes<S, F>(arrays, begin, end, batch)
                                          : run_lanes<Pack<S>, F>(arrays, begin, end, batch);
#endif
    return is_done ? gridgen_done : gridgen_no_memory;
}

// Computes n states of the arrays of F: pointers to rows, or arrays.
template <class S> GRIDGEN_DEVICE Array array_of(const S* data, int64 numbers) {
    return in_rows(data, numbers);
}
GRIDGEN_DEVICE Array array_of(const Array& array, int64) { return array; }

template <class S, class F, int... k, class... Arrays>
GRIDGEN_DEVICE gridgen_status compute(Indices<k...>, int64 n, const Arrays&... given) {
    const Array arrays[] = {array_of(given, size_of<F, k>)...};
    return compute_strided<S, F>(arrays, 0, n, n);
}
template <class S, class F, class... Arrays>
GRIDGEN_DEVICE gridgen_status compute(int64 n, const Arrays&... given) {
    return compute<S, F>(UpTo<array_count<F>>(), n, given...);
}

// In gridgen_search_simd.h.
template <class T, class F> void run_searches(const Array* arrays, int64 begin, int64 end);

// Searches for n solutions. Of the settings of F, the first four are given; the others depend on whether
// the first start and the rest posture, the first two arrays, are given.
template <class S, class F, int... k, class... Arrays>
gridgen_status search(Indices<k...>, int64 n, bool has_start, bool has_rest,
                      const Arrays&... given) {
    Array arrays[] = {array_of(given, size_of<F, k>)...};
    if (!has_start && has_rest) arrays[0] = arrays[1];
    if (!has_rest) arrays[1] = arrays[0];
    const gridgen_status status = checked<S, F>(arrays, 0, n, n);
    if (status != gridgen_done || n == 0) return status;
    const S* const own = static_cast<const S*>(arrays[4].data);
    const S settings[] = {own[0], own[1], own[2], own[3], S(!has_start && !has_rest),
                          S(has_rest ? F::to_rest : 0.0), S(F::floors[sizeof(S) == 8])};
    arrays[4] = for_all(settings);
#if !defined(GRIDGEN_ONE_STATE)
    if (n > 1) {
        run_searches<Pack<S>, F>(arrays, 0, n);
        return gridgen_done;
    }
#endif
    run_searches<S, F>(arrays, 0, n);
    return gridgen_done;
}
template <class S, class F, class... Arrays>
gridgen_status search(int64 n, bool has_start, bool has_rest, const Arrays&... given) {
    return search<S, F>(UpTo<array_count<F>>(), n, has_start, has_rest, given...);
}

}  // namespace gridgen

#endif  // GRIDGEN_LIBRARY_H
