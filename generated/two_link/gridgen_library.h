// What the C functions of a robot are made of.
#ifndef GRIDGEN_LIBRARY_H
#define GRIDGEN_LIBRARY_H

#include "gridgen_call.h"

#define GRIDGEN_EXPORT extern "C" __attribute__((visibility("default")))

namespace gridgen {

// States one behind the other, `numbers` each.
template <class S> Array in_rows(const S* data, int64 numbers) {
    return {const_cast<S*>(data), numbers, 1};
}
// One state for the whole batch.
template <class S> Array for_all(const S* data) { return {const_cast<S*>(data), 0, 1}; }

// What must be known before `count` arrays are computed with, the first ones configurations.
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

}  // namespace gridgen

#endif  // GRIDGEN_LIBRARY_H
