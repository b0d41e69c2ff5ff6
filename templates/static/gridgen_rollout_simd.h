// Rollouts over SIMD packs: what a pack of states reads and writes in each step.
#ifndef GRIDGEN_ROLLOUT_SIMD_H
#define GRIDGEN_ROLLOUT_SIMD_H

#include "gridgen_rollout.cuh"
#include "gridgen_simd.h"

namespace gridgen {

// An argument that holds two integers.
inline Pair pair(const Array& argument) {
    return {reinterpret_cast<int64>(argument.data), argument.batch, argument.component};
}

// An argument of a pack of states: what it holds at a time; see InTime.
template <class S> class PacksInTime {
    Array array_;
    int64 time_, begin_, count_;

public:
    // States [begin, begin + count); if `in_time` the next argument has the stride of time.
    PacksInTime(const Array* array, bool in_time, int64 begin, int64 count)
        : array_(*array),
          time_(in_time ? pair(array[1]).first : 0),
          begin_(begin),
          count_(count) {}

    template <int count> GRIDGEN_DEVICE Argument<S, count> at(int64 t, int first = 0) const {
        S* const data = static_cast<S*>(array_.data) + t * time_ + first * array_.component;
        Argument<S, count> numbers;
        numbers.load({data, array_.batch, array_.component}, begin_, count_);
        return numbers;
    }
};

// A result of a pack of states, n numbers at a time. Where those of a state lie one behind the other,
// some steps are kept until they fill lines of the cache: a walk along all rows in every step would
// bring each line several times.
template <class S, int n> class PacksAlong {
    static constexpr int most_bytes = 8 << 10;
    static constexpr int several = n * pack_bytes > most_bytes / 8 ? 4 : 16;  // n is large
    static constexpr int steps = n * pack_bytes > most_bytes ? 1 : several;

    Pack<S> block_[steps * n];
    Array array_;
    int64 time_, begin_, count_, done_, kept_;
    bool in_blocks_;

    Array from(int64 t) const {
        return {static_cast<S*>(array_.data) + t * time_, array_.batch, array_.component};
    }

    // Writes what is kept of so many steps.
    template <int count> void write(int64 t, const Pack<S>* x) const {
        reinterpret_cast<const Result<S, count * n>*>(x)->store(from(t), begin_, count_, false);
    }

public:
    // States [begin, begin + count).
    PacksAlong(const Array* array, int64 begin, int64 count)
        : array_(*array),
          time_(pair(array[1]).first),
          begin_(begin),
          count_(count),
          done_(0),
          kept_(0),
          in_blocks_(steps > 1 && count == pack_size<S> && array_.component == 1 && time_ == n) {}

    template <int> GRIDGEN_DEVICE void put(int64 t, const Pack<S>* x) {
        if (!in_blocks_) return write<1>(t, x);
        __builtin_memcpy(block_ + kept_ * n, x, n * sizeof(Pack<S>));
        if (++kept_ < steps) return;
        write<steps>(done_, block_);
        done_ += steps;
        kept_ = 0;
    }

    // Writes what is still kept.
    void finish() {
        constexpr int some = steps < 4 ? 1 : 4;
        int64 k = 0;
        for (; k + some <= kept_; k += some) write<some>(done_ + k, block_ + k * n);
        for (; k < kept_; ++k) write<1>(done_ + k, block_ + k * n);
    }
};

}  // namespace gridgen

#endif  // GRIDGEN_ROLLOUT_SIMD_H
