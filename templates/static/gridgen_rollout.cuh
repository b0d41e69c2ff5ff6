// Rollouts: what a loop over time reads and writes in each step, and what it keeps of its state.
#ifndef GRIDGEN_ROLLOUT_CUH
#define GRIDGEN_ROLLOUT_CUH

#include "gridgen_math.cuh"

namespace gridgen {

// Two integers among the arguments of a kernel, which take the place of an array there.
struct Pair {
    int64 first;
    int64 zero;  // the stride of an array from state to state
    int64 second;
};

// How far a rollout goes. Of `steps` steps, each of `substeps` with the same efforts, every so many
// are kept, and the beginning too if it `begins` with that.
struct Course {
    int64 steps, substeps, every;
    bool begins, follows, limits;  // follows a reference; limits efforts

    GRIDGEN_DEVICE Course(Pair length, Pair keeping)
        : steps(length.first),
          substeps(length.second),
          every(keeping.first),
          begins(keeping.second & 1),
          follows(keeping.second & 2),
          limits(keeping.second & 4) {}
};

// Which steps are kept, one after the other.
struct Kept {
    int64 every, left, count;

    GRIDGEN_DEVICE explicit Kept(const Course& course)
        : every(course.every), left(course.every), count(course.begins) {}

    GRIDGEN_DEVICE bool is_next() {
        if (--left) return false;
        left = every;
        return true;
    }
};

// Some numbers, read from memory.
template <class T, int count> struct Read {
    T x[count];
};
template <class T, int count> struct Read<const T, count> : Read<T, count> {};

// An array of one state: what it holds at a time.
template <class T> struct InTime {
    T* data;
    int64 component;
    int64 time;  // stride from step to step

    // `count` numbers of step t, from number `first` on.
    template <int count> GRIDGEN_DEVICE Read<T, count> at(int64 t, int first = 0) const {
        Read<T, count> numbers;
        const T* const from = data + (t * time + first * component);
        GRIDGEN_UNROLLED
        for (int j = 0; j < count; ++j) numbers.x[j] = from[j * component];
        return numbers;
    }

    template <int count> GRIDGEN_DEVICE void put(int64 t, const T* x) const {
        T* const to = data + t * time;
        GRIDGEN_UNROLLED
        for (int j = 0; j < count; ++j) to[j * component] = x[j];
    }
};

template <class T> GRIDGEN_DEVICE InTime<T> in_time(View<T> state, Pair time = {}) {
    return {state.data, state.component, time.first};
}

// The time of a substep.
template <class T> struct Substep {
    T x[1];

    template <class Numbers>
    GRIDGEN_DEVICE Substep(const Numbers& dt, const Course& course)
        : x{dt.x[0] / broadcast<T>(Real<T>(course.substeps))} {}
};

// The state of a rollout, and room for the next one.
template <class T, int nq, int nv> class Rolled {
    struct State {
        T q[nq], qd[nv];
    };
    State now_, next_;

  public:
    template <class Positions, class Velocities>
    GRIDGEN_DEVICE Rolled(const Positions& q0, const Velocities& qd0) {
        GRIDGEN_UNROLLED
        for (int j = 0; j < nq; ++j) now_.q[j] = q0.x[j];
        GRIDGEN_UNROLLED
        for (int j = 0; j < nv; ++j) now_.qd[j] = qd0.x[j];
    }
    GRIDGEN_DEVICE const State& now() const { return now_; }
    GRIDGEN_DEVICE State& next() { return next_; }
    GRIDGEN_DEVICE void move() { now_ = next_; }
};

// The way from a state to its reference: positions, then velocities.
template <class T, int nv> struct Deviation {
    T x[2 * nv];

    template <class Numbers> GRIDGEN_DEVICE Deviation(const Numbers& qd_ref, const T* qd) {
        GRIDGEN_UNROLLED
        for (int j = 0; j < nv; ++j) x[nv + j] = qd_ref.x[j] - qd[j];
    }
};

// Adds gains times deviation to efforts.
template <class T, int nv, class Gains>
GRIDGEN_LARGE void follow(T* tau, const Gains& gains, int64 t, const Deviation<T, nv>& way) {
    GRIDGEN_UNROLLED
    for (int i = 0; i < nv; ++i) {
        const auto row = gains.template at<2 * nv>(t, i * 2 * nv);
        GRIDGEN_UNROLLED
        for (int j = 0; j < 2 * nv; ++j) tau[i] = Lanes<T>::fma(row.x[j], way.x[j], tau[i]);
    }
}

// Brings an effort between -limit and limit; NaN stays what it is.
template <class T> GRIDGEN_DEVICE void limit(T& effort, Real<T> limit) {
    const T most = broadcast<T>(limit), least = broadcast<T>(-limit);
    effort = effort > most ? most : (effort < least ? least : effort);
}

}  // namespace gridgen

#endif  // GRIDGEN_ROLLOUT_CUH
