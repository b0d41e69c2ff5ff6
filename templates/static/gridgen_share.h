// A batch that several threads compute: each takes the next part until none is left, so that one
// that starts late or is interrupted holds nobody up.
#ifndef GRIDGEN_SHARE_H
#define GRIDGEN_SHARE_H

#include "gridgen_simd.h"

namespace gridgen {

// Computes states [begin, end) of a batch of `batch` states.
using Kernel = void (*)(const Array* arrays, int64 begin, int64 end, int64 batch);

// What the threads share.
struct Share {
    int64 next;  // the first state that nobody has taken
    int64 end;
    int64 part;  // states taken at once
    int64 left;  // states that have not been computed yet
};

// Computes parts until none is left, then looks up to `patience` times whether the other threads
// have computed theirs: they need microseconds, and to be woken by the system would take longer.
// Returns whether every state has been computed.
inline bool take_parts(Kernel kernel, const Array* arrays, Share& share, int64 batch,
                       int64 patience) {
    for (;;) {
        const int64 begin = __atomic_fetch_add(&share.next, share.part, __ATOMIC_RELAXED);
        if (begin >= share.end) break;
        const int64 end = share.end - begin < share.part ? share.end : begin + share.part;
        kernel(arrays, begin, end, batch);
        __atomic_fetch_sub(&share.left, end - begin, __ATOMIC_RELEASE);
    }
    for (; patience > 0 && __atomic_load_n(&share.left, __ATOMIC_RELAXED); --patience) {
#if GRIDGEN_HAS_BUILTIN(__builtin_ia32_pause)
        __builtin_ia32_pause();
#endif
    }
    return __atomic_load_n(&share.left, __ATOMIC_ACQUIRE) == 0;
}

}  // namespace gridgen

#endif  // GRIDGEN_SHARE_H
