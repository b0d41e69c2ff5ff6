// Rollouts: inputs, outputs and the state of each step of a loop over time.
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

// Options of a rollout. Each of `steps` steps has `substeps` substeps with the same joint torques. One of
// `every` steps is stored, and also the initial state if `begins`. A backward pass has a checkpoint every
// `between` steps.
struct RolloutOptions {
    int64 steps, substeps, every, between;
    bool begins, follows, limits;  // follows a reference; limits joint torques

    // As passed to a launch.
    GRIDGEN_DEVICE RolloutOptions(Pair steps_substeps, Pair every_begins, Pair follows_limits, Pair between)
        : steps(steps_substeps.first),
          substeps(steps_substeps.second),
          every(every_begins.first),
          between(between.first),
          begins(every_begins.second),
          follows(follows_limits.first),
          limits(follows_limits.second) {}
};

// Traits of a rollout for entry points, in addition to FunctionTraits: `over_time`, whether each array
// has a time axis; whether it is a backward pass; the numbers of scratch memory of a backward pass
// for each substep between two checkpoints; and `together`, the steps of each result that a warp of a GPU
// writes at once.
struct RolloutTraits {
    static constexpr bool is_backward = false;
    static constexpr int trail = 0;
};

// The steps to store, in order.
struct StoredSteps {
    int64 every, left, count;

    GRIDGEN_DEVICE explicit StoredSteps(const RolloutOptions& options)
        : every(options.every), left(options.every), count(0) {}

    GRIDGEN_DEVICE bool is_next() {
        if (--left) return false;
        left = every;
        return true;
    }
};

// The same from the last step to the first: `count` is the index of the next state.
struct StoredStepsBackwards {
    int64 every, left, count;

    GRIDGEN_DEVICE explicit StoredStepsBackwards(const RolloutOptions& options)
        : every(options.every), left(1), count(options.steps / options.every + options.begins) {}

    GRIDGEN_DEVICE bool is_next() {
        if (--left) return false;
        left = every;
        --count;
        return true;
    }
};

// Some numbers, read from memory.
template <class T, int count> struct Read {
    T x[count];
};
template <class T, int count> struct Read<const T, count> : Read<T, count> {};

// An array of one state: its values at one time.
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

    // Numbers without a fixed length, constant in time.
    GRIDGEN_DEVICE View<T> row() const { return {data, component}; }

    // Whether it has a time axis with more than one value.
    GRIDGEN_DEVICE bool moves() const { return time != 0; }
};

// An array of all states.
template <class T> struct OverTime {
    Strided<T> array;
    Pair time;

    GRIDGEN_DEVICE InTime<T> operator[](int64 state) const {
        return {array[state].data, array.component, time.first};
    }
};
template <class T> GRIDGEN_DEVICE OverTime<T> over_time(const Strided<T>& array, Pair time = {}) {
    return {array, time};
}

// The time step of a substep.
template <class T> struct Substep {
    T x[1];

    template <class Numbers>
    GRIDGEN_DEVICE Substep(const Numbers& dt, const RolloutOptions& options)
        : x{dt.x[0] / broadcast<T>(Real<T>(options.substeps))} {}
};

// Which states of a rollout move: a state ends when its excess over its bounds is positive or NaN.
template <class T> struct Moving {
    T end, left;  // steps until the end; 1 before it, otherwise 0
    Real<T> steps;

    GRIDGEN_DEVICE explicit Moving(int64 most)
        : end(broadcast<T>(Real<T>(most + 1))), left(broadcast<T>(1)), steps(0) {}

    GRIDGEN_DEVICE bool any() const { return any_negative(-left); }

    // Reads the excess of the state after the next number of steps, the first time after none.
    GRIDGEN_DEVICE void look(const T& excess) {
        const T none = broadcast<T>(0), now = broadcast<T>(steps), before = left;
        left = excess <= none ? left : none;
        end = before > left ? now : end;
        steps += 1;
    }

    // The number of a moving state, otherwise another.
    GRIDGEN_DEVICE T choose(const T& number, const T& other) const {
        return left > broadcast<T>(0) ? number : other;
    }
    // Sets the numbers of states that have ended to zero.
    template <int count> GRIDGEN_DEVICE void keep(T (&numbers)[count]) const {
        GRIDGEN_UNROLLED
        for (int j = 0; j < count; ++j) numbers[j] = choose(numbers[j], broadcast<T>(0));
    }
};

// The current and the next state of a rollout.
template <class T, int nq, int nv> class Rolled {
  public:
    struct State {
        T q[nq], qd[nv];
    };

    GRIDGEN_DEVICE Rolled() : now_{} {}
    template <class Positions, class Velocities>
    GRIDGEN_DEVICE Rolled(const Positions& q0, const Velocities& qd0) {
        GRIDGEN_UNROLLED
        for (int j = 0; j < nq; ++j) now_.q[j] = q0.x[j];
        GRIDGEN_UNROLLED
        for (int j = 0; j < nv; ++j) now_.qd[j] = qd0.x[j];
    }
    GRIDGEN_DEVICE const State& now() const { return now_; }
    GRIDGEN_DEVICE State& now() { return now_; }
    GRIDGEN_DEVICE State& next() { return next_; }
    GRIDGEN_DEVICE void move() { now_ = next_; }
    GRIDGEN_DEVICE void move(const Moving<T>& moving) {
        GRIDGEN_UNROLLED
        for (int j = 0; j < nq; ++j) now_.q[j] = moving.choose(next_.q[j], now_.q[j]);
        GRIDGEN_UNROLLED
        for (int j = 0; j < nv; ++j) now_.qd[j] = moving.choose(next_.qd[j], now_.qd[j]);
    }

    // Adds further derivatives by the same state.
    template <class Positions, class Velocities>
    GRIDGEN_DEVICE void add(const Positions& q, const Velocities& qd) {
        GRIDGEN_UNROLLED
        for (int j = 0; j < nq; ++j) now_.q[j] += q.x[j];
        GRIDGEN_UNROLLED
        for (int j = 0; j < nv; ++j) now_.qd[j] += qd.x[j];
    }

    // The same for a controller, which reads the deviation of the state from a reference.
    template <class Back> GRIDGEN_DEVICE void follow_back(const T* q, const Back& way) {
        GRIDGEN_UNROLLED
        for (int j = 0; j < nq; ++j) now_.q[j] += q[j];
        GRIDGEN_UNROLLED
        for (int j = 0; j < nv; ++j) now_.qd[j] -= way.x[nv + j];
    }

  private:
    State now_, next_;
};

// The states between two checkpoints, in memory.
template <class T, int nq, int nv, class Room> class Trail {
    using State = typename Rolled<T, nq, nv>::State;
    Room room_;

  public:
    GRIDGEN_DEVICE explicit Trail(Room room) : room_(room) {}

    GRIDGEN_DEVICE void put(int64 k, const State& state) {
        const auto to = from(room_, k * (nq + nv));
        GRIDGEN_UNROLLED
        for (int j = 0; j < nq; ++j) to[j] = state.q[j];
        GRIDGEN_UNROLLED
        for (int j = 0; j < nv; ++j) to[nq + j] = state.qd[j];
    }
    GRIDGEN_DEVICE void take(int64 k, Rolled<T, nq, nv>& state) const {
        const auto stored = from(room_, k * (nq + nv));
        GRIDGEN_UNROLLED
        for (int j = 0; j < nq; ++j) state.now().q[j] = stored[j];
        GRIDGEN_UNROLLED
        for (int j = 0; j < nv; ++j) state.now().qd[j] = stored[nq + j];
    }
};

// A sum over steps.
template <class T, int n> struct Sum {
    T x[n];

    GRIDGEN_DEVICE Sum() : x{} {}
    GRIDGEN_DEVICE void add(const T* part) {
        GRIDGEN_UNROLLED
        for (int j = 0; j < n; ++j) x[j] += part[j];
    }
};

// The deviation of a state from its reference: positions, then velocities.
template <class T, int nv> struct Deviation {
    T x[2 * nv];

    template <class Numbers> GRIDGEN_DEVICE Deviation(const Numbers& qd_ref, const T* qd) {
        GRIDGEN_UNROLLED
        for (int j = 0; j < nv; ++j) x[nv + j] = qd_ref.x[j] - qd[j];
    }
};

// Adds gains times deviation to joint torques: a function with a loop over rows. Code for every gain would
// be longer than that of the step.
template <class T, int nv, class Gains>
GRIDGEN_PART void add_feedback(T* tau, Gains gains, int64 t, const T* way) {
    GRIDGEN_ROLLED
    for (int i = 0; i < nv; ++i) {
        const auto row = gains.template at<2 * nv>(t, i * 2 * nv);
        T sum = tau[i];
        GRIDGEN_UNROLLED
        for (int j = 0; j < 2 * nv; ++j) sum = Lanes<T>::fma(row.x[j], way[j], sum);
        tau[i] = sum;
    }
}

// The same for joint torques in registers, which have no address.
template <class T, int nv, class Gains>
GRIDGEN_DEVICE void follow(T* tau, const Gains& gains, int64 t, const Deviation<T, nv>& way) {
    T sums[nv];
    GRIDGEN_UNROLLED
    for (int i = 0; i < nv; ++i) sums[i] = tau[i];
    add_feedback<T, nv>(sums, gains, t, way.x);
    GRIDGEN_UNROLLED
    for (int i = 0; i < nv; ++i) tau[i] = sums[i];
}

// Clamps a joint torque to [-limit, limit]; NaN stays NaN.
template <class T> GRIDGEN_DEVICE void limit(T& effort, Real<T> limit) {
    const T most = broadcast<T>(limit), least = broadcast<T>(-limit);
    effort = effort > most ? most : (effort < least ? least : effort);
}

// Derivatives by a deviation, whose products with gains were added to the joint torques.
template <class T, int nv, class Gains>
GRIDGEN_PART void add_feedback_back(T* x, Gains gains, int64 t, const T* tau_bar) {
    GRIDGEN_ROLLED
    for (int i = 0; i < nv; ++i) {
        const auto row = gains.template at<2 * nv>(t, i * 2 * nv);
        GRIDGEN_UNROLLED
        for (int j = 0; j < 2 * nv; ++j) x[j] = Lanes<T>::fma(row.x[j], tau_bar[i], x[j]);
    }
}
template <class T, int nv> struct DeviationBack {
    T x[2 * nv];

    template <class Gains>
    GRIDGEN_DEVICE DeviationBack(const Gains& gains, int64 t, const T* tau_bar) {
        T sums[2 * nv] = {}, bars[nv];
        GRIDGEN_UNROLLED
        for (int i = 0; i < nv; ++i) bars[i] = tau_bar[i];
        add_feedback_back<T, nv>(sums, gains, t, bars);
        GRIDGEN_UNROLLED
        for (int j = 0; j < 2 * nv; ++j) x[j] = sums[j];
    }
};

// Derivatives by a joint torque: zero if it was clamped.
template <class T> GRIDGEN_DEVICE void limit_back(T& bar, const T& effort, Real<T> limit) {
    const T most = broadcast<T>(limit), least = broadcast<T>(-limit), none = broadcast<T>(0);
    bar = effort > most ? none : (effort < least ? none : bar);
}

// Derivatives by a quaternion that is normalized before use: the component along it is zero.
template <class T> GRIDGEN_DEVICE void on_sphere(T* bar, const T* quaternion) {
    T along = quaternion[0] * bar[0];
    GRIDGEN_UNROLLED
    for (int j = 1; j < 4; ++j) along = Lanes<T>::fma(quaternion[j], bar[j], along);
    GRIDGEN_UNROLLED
    for (int j = 0; j < 4; ++j) bar[j] = Lanes<T>::fma(-quaternion[j], along, bar[j]);
}

}  // namespace gridgen

#endif  // GRIDGEN_ROLLOUT_CUH
