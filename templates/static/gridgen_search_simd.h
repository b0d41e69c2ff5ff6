// Searches over SIMD packs, or for one state: a lane whose problem is solved takes the next one.
#ifndef GRIDGEN_SEARCH_SIMD_H
#define GRIDGEN_SEARCH_SIMD_H

#include "gridgen_search.cuh"
#include "gridgen_simd.h"

namespace gridgen {

template <class T, class F, int... k>
GRIDGEN_DEVICE void run_searches(Indices<k...>, const Array* arrays, int64 begin, int64 end) {
    using S = Real<T>;
    constexpr int lanes = Lanes<T>::count;
    Search<T, F> search(
        {static_cast<S*>(arrays[k].data), arrays[k].batch, arrays[k].component}...);
    bool is_busy[lanes];
    int64 next = begin;
    int busy = 0;
    for (int lane = 0; lane < lanes; ++lane) {
        is_busy[lane] = next < end;
        busy += is_busy[lane];
        search.begin(lane, is_busy[lane] ? next++ : begin);
    }
    while (busy) {
        search.advance();
        if (!search.iterate()) continue;
        for (int lane = 0; lane < lanes; ++lane) {
            if (!is_busy[lane] || !search.has_ended(lane) || !search.finish(lane)) continue;
            if (next < end) {
                search.begin(lane, next++);
            } else {
                is_busy[lane] = false;
                --busy;
            }
        }
    }
}

// Searches for problems [begin, end) of a batch, one per lane of T. arrays: those of F.
template <class T, class F>
void run_searches(const Array* arrays, int64 begin, int64 end) {
    const NoSubnormals<Real<T>> no_subnormals;
    if (begin < end) run_searches<T, F>(UpTo<array_count<F>>(), arrays, begin, end);
}

}  // namespace gridgen

#endif  // GRIDGEN_SEARCH_SIMD_H
