// A batch that several threads compute: each takes the next part until none is left, so that a thread
// that starts late or is interrupted does not delay the others.
#ifndef GRIDGEN_SHARE_H
#define GRIDGEN_SHARE_H

#include "gridgen_simd.h"

namespace gridgen {

// Computes states [begin, end) of a batch of `batch` states.
using Kernel = void (*)(const Array* arrays, int64 begin, int64 end, int64 batch);

// Data that the threads share.
struct Share {
    int64 next;  // the first state that no thread has taken
    int64 end;
    int64 part;  // states taken at once
    int64 left;  // states that are not computed yet
    int64 off;   // whether one of their quaternions is not of unit norm, if validated
};

// Computes parts, states [begin, end) each, until none is left.
template <class Compute> void take_parts(Share& share, Compute compute) {
    for (;;) {
        const int64 begin = __atomic_fetch_add(&share.next, share.part, __ATOMIC_RELAXED);
        if (begin >= share.end) break;
        const int64 end = share.end - begin < share.part ? share.end : begin + share.part;
        compute(begin, end);
        __atomic_fetch_sub(&share.left, end - begin, __ATOMIC_RELEASE);
    }
}

// Declares a function of the C library: its header would define macros, which may clash with robot names.
extern "C" int usleep(unsigned microseconds);

// Withdraws the parts that no thread has taken, and waits for those in progress. Then no thread accesses
// the arrays any more, and a late thread finds nothing to take. The remaining parts take microseconds,
// and sleeping would take longer: the thread sleeps only after a long wait.
inline void close(Share& share) {
    const int64 next = __atomic_exchange_n(&share.next, share.end, __ATOMIC_RELAXED);
    if (next < share.end) __atomic_fetch_sub(&share.left, share.end - next, __ATOMIC_RELAXED);
    int64 patience = 4000;
    while (__atomic_load_n(&share.left, __ATOMIC_ACQUIRE)) {
        if (patience > 0) {
            --patience;
#if GRIDGEN_HAS_BUILTIN(__builtin_ia32_pause)
            __builtin_ia32_pause();
#endif
        } else {
            usleep(50);
        }
    }
}

}  // namespace gridgen

#endif  // GRIDGEN_SHARE_H
