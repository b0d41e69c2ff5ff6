// Rollouts over SIMD packs, or of one state: inputs and outputs in each step.
#ifndef GRIDGEN_ROLLOUT_SIMD_H
#define GRIDGEN_ROLLOUT_SIMD_H

#include "gridgen_rollout.cuh"
#include "gridgen_simd.h"

namespace gridgen {

// An argument that holds two integers.
inline Pair pair(const Array& argument) {
    return {reinterpret_cast<int64>(argument.data), argument.batch, argument.component};
}

// An argument of a pack of states: its values at one time; see InTime.
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

    GRIDGEN_DEVICE OpenRow<S> row() const {
        const S* const data = static_cast<const S*>(array_.data) + begin_ * array_.batch;
        return {data, array_.batch, array_.component, count_};
    }
};

// A result of a pack of states, n numbers at a time: of all steps, or one for all steps if not
// `in_time`. If the results of a state are consecutive, a block buffers several steps until they fill
// cache lines: writing along all rows in every step would load each line several
// times.
template <class S, int n> class PacksOverTime {
    static constexpr int most_bytes = 8 << 10;
    static constexpr int several = n * pack_bytes > most_bytes / 8 ? 4 : 16;  // n is large

    Array array_;
    int64 time_, begin_, count_;

    Array from(int64 t) const {
        return {static_cast<S*>(array_.data) + t * time_, array_.batch, array_.component};
    }

protected:
    static constexpr int steps = n * pack_bytes > most_bytes ? 1 : several;

    Pack<S> block_[steps * n];
    bool in_blocks_;

    // States [begin, begin + count); if `in_time` the next argument has the stride of time.
    PacksOverTime(const Array* array, bool in_time, int64 begin, int64 count)
        : array_(*array),
          time_(in_time ? pair(array[1]).first : 0),
          begin_(begin),
          count_(count),
          in_blocks_(steps > 1 && count == pack_size<S> && array_.component == 1 && time_ == n) {}

    void keep(int64 place, const Pack<S>* x) {
        __builtin_memcpy(block_ + place * n, x, n * sizeof(Pack<S>));
    }

    // Writes `count` steps, starting at step t.
    template <int count> void write(int64 t, const Pack<S>* x) const {
        reinterpret_cast<const Result<S, count * n>*>(x)->store(from(t), begin_, count_, false);
    }
    void write_some(int64 t, int64 count) const {
        constexpr int some = steps < 4 ? 1 : 4;
        int64 k = 0;
        for (; k + some <= count; k += some) write<some>(t + k, block_ + k * n);
        for (; k < count; ++k) write<1>(t + k, block_ + k * n);
    }

public:
    bool moves() const { return time_ != 0; }
};

// A result that is written from the first step to the last.
template <class S, int n> class PacksAlong : public PacksOverTime<S, n> {
    using Base = PacksOverTime<S, n>;
    int64 done_, buffered_;

public:
    PacksAlong(const Array* array, bool in_time, int64 begin, int64 count)
        : Base(array, in_time, begin, count), done_(0), buffered_(0) {}

    template <int> GRIDGEN_DEVICE void put(int64 t, const Pack<S>* x) {
        if (!this->in_blocks_) return this->template write<1>(t, x);
        this->keep(buffered_, x);
        if (++buffered_ < Base::steps) return;
        this->template write<Base::steps>(done_, this->block_);
        done_ += Base::steps;
        buffered_ = 0;
    }

    // Writes the buffered steps.
    void finish() { this->write_some(done_, buffered_); }
};

// A result that is written from the last step to the first. Blocks begin at multiples of their length, so
// that none is incomplete at the end.
template <class S, int n> class PacksBack : public PacksOverTime<S, n> {
    using Base = PacksOverTime<S, n>;
    int64 last_;

public:
    PacksBack(const Array* array, bool in_time, int64 begin, int64 count)
        : Base(array, in_time, begin, count), last_(0) {}

    template <int> GRIDGEN_DEVICE void put(int64 t, const Pack<S>* x) {
        if (!this->in_blocks_) return this->template write<1>(t, x);
        const int64 place = t % Base::steps;
        this->keep(place, x);
        if (place > last_) last_ = place;
        if (place) return;
        if (last_ + 1 == Base::steps) this->template write<Base::steps>(t, this->block_);
        else this->write_some(t, last_ + 1);
        last_ = 0;
    }
};

// Numbers or packs with the lifetime of a call; their number grows as required.
template <class T> class BorrowedNumbers {
    void* const memory_;

public:
    explicit BorrowedNumbers(int64 count)
        : memory_(__builtin_malloc(uint64(count) * sizeof(T) + pack_bytes)) {}
    ~BorrowedNumbers() { __builtin_free(memory_); }
    BorrowedNumbers(const BorrowedNumbers&) = delete;
    BorrowedNumbers& operator=(const BorrowedNumbers&) = delete;
    explicit operator bool() const { return memory_; }
    T* begin() const {
        const uint64 end = reinterpret_cast<uint64>(memory_) + pack_bytes - 1;
        return reinterpret_cast<T*>(end / pack_bytes * pack_bytes);
    }
};

// Array k of a rollout, of states [begin, begin + count), one per lane of T. Arrays over time are two
// arguments.
template <class T, class F, int k>
GRIDGEN_DEVICE auto in_time(const Array* arrays, int64 begin, int64 count) {
    using S = Real<T>;
    constexpr int size = size_of<F, k>;
    constexpr bool over_time = F::over_time[k];
    for (int i = 0; i < k; ++i) arrays += F::over_time[i] ? 2 : 1;
    if constexpr (Lanes<T>::count == 1) {
        S* const data = static_cast<S*>(arrays->data) + begin * arrays->batch;
        const int64 time = over_time ? pair(arrays[1]).first : 0;
        if constexpr (is_input<F, k>) return InTime<const S>{data, arrays->component, time};
        else return InTime<S>{data, arrays->component, time};
    } else if constexpr (is_input<F, k>) return PacksInTime<S>(arrays, over_time, begin, count);
    else if constexpr (F::is_backward) return PacksBack<S, size>(arrays, over_time, begin, count);
    else return PacksAlong<S, size>(arrays, over_time, begin, count);
}

template <class S, int n> GRIDGEN_DEVICE void finish(PacksAlong<S, n>& packs) { packs.finish(); }
template <class Packs> GRIDGEN_DEVICE void finish(Packs&) {}

template <class T, class F, class... Packs>
GRIDGEN_DEVICE void compute_rollout(const RolloutOptions& options, T* scratch, Packs&&... packs) {
    if constexpr (F::scratch + F::trail > 0) F::template compute<T>(options, packs..., scratch);
    else F::template compute<T>(options, packs...);
    (finish(packs), ...);
}

template <class T, class F, int... k>
GRIDGEN_DEVICE void run_rollouts(Indices<k...>, const RolloutOptions& options, T* scratch,
                                 const Array* arrays, int64 begin, int64 end) {
    constexpr int64 lanes = Lanes<T>::count;
    for (int64 i = begin; i < end; i += lanes) {
        const int64 count = end - i < lanes ? end - i : lanes;
        compute_rollout<T, F>(options, scratch, in_time<T, F, k>(arrays, i, count)...);
    }
}

// Computes the rollouts of states [begin, end), one per lane of T. arrays: those of F, each with a time axis
// followed by its stride, then the options.
// Returns false without memory.
template <class T, class F>
bool run_rollouts(const Array* arrays, int64 begin, int64 end) {
    constexpr UpTo<array_count<F>> all;
    const Array* last = arrays;
    for (int k = 0; k < array_count<F>; ++k) last += F::over_time[k] ? 2 : 1;
    const RolloutOptions options(pair(last[0]), pair(last[1]), pair(last[2]), pair(last[3]));
    if constexpr (Lanes<T>::count == 1 && F::scratch > 0 && F::trail == 0) {
        Scratch<T, F::scratch> scratch;
        if (!scratch) return false;
        const NoSubnormals<T> no_subnormals;
        run_rollouts<T, F>(all, options, scratch->numbers, arrays, begin, end);
    } else if constexpr (F::scratch + F::trail > 0) {
        const BorrowedNumbers<T> scratch(F::scratch + F::trail * options.between * options.substeps);
        if (!scratch) return false;
        if constexpr (F::scratch > 0) {
            const NoSubnormals<Real<T>> no_subnormals;
            run_rollouts<T, F>(all, options, scratch.begin(), arrays, begin, end);
        } else {
            run_rollouts<T, F>(all, options, scratch.begin(), arrays, begin, end);
        }
    } else {
        run_rollouts<T, F>(all, options, nullptr, arrays, begin, end);
    }
    return true;
}

}  // namespace gridgen

#endif  // GRIDGEN_ROLLOUT_SIMD_H
