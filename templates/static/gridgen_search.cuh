// Searches: iterations of a program from several starts, until one start leads to a solution. A lane is
// a SIMD lane of a CPU or a thread of a GPU; each follows a problem of its own.
#ifndef GRIDGEN_SEARCH_CUH
#define GRIDGEN_SEARCH_CUH

#include "gridgen_math.cuh"

namespace gridgen {

// Traits of a search F, in addition to those of a function:
//
//   nq, poses       numbers of a configuration; number of target poses
//   lower, upper    limits of positions
//   joints          elements of q that starts differ in
//   count           number of starts
//   starts          their values: a row for each of `joints`
//   start_poses     poses of the frames at the starts: a row for each of 12 numbers of a frame, and for
//                   the square of its position
//   iterate         one iteration
//
// Elements of `settings`, see dynamics/inverse_kinematics.py.
enum Setting { iterations_setting = 2, starts_setting, first_setting, settings_count = 7 };

template <class T, class F> class Search {
    using S = Real<T>;
    static constexpr int lanes = Lanes<T>::count;
    static constexpr int numbers = 16 * F::poses;
    static constexpr int row = 13;  // numbers of a pose at a start
    static constexpr S none = S(1e30);

    Input<S> q0_, rest_, targets_, weights_, settings_;
    Output<S> result_, success_, error_;
    T q_[F::nq], rest_q_[F::nq], target_[numbers], weight_[2 * F::poses], given_[settings_count];
    T progress_[3], q_next_[F::nq], progress_next_[3], residual_[2], outcome_[1];
    T best_q_[F::nq], best_[3];  // the configuration of least cost; its cost and errors
    S distance_[lanes];          // of the last start
    int tried_[lanes], rank_[lanes];
    int64 problem_[lanes];

    // Element j of a lane's array.
    static GRIDGEN_DEVICE S& at(T* array, int j, int lane) {
        return reinterpret_cast<S*>(array)[j * lanes + lane];
    }
    template <int n> static GRIDGEN_DEVICE void copy(T* to, T* from, int lane) {
        GRIDGEN_UNROLLED
        for (int j = 0; j < n; ++j) at(to, j, lane) = at(from, j, lane);
    }
    template <int n> GRIDGEN_DEVICE void load(T* to, const Input<S>& array, int lane) const {
        const auto from = array[problem_[lane]];
        GRIDGEN_UNROLLED
        for (int j = 0; j < n; ++j) at(to, j, lane) = from[j];
    }

    // The start whose poses are nearest to the targets, of those after the last one.
    GRIDGEN_DEVICE int nearest(int lane) {
        constexpr S of_rotation = S(0.1);  // [m^2] for an error of 1 rad
        // Of |x - goal|^2, what depends on the start: -2 goal x, and |x|^2 of positions.
        T factor[row * F::poses];
        GRIDGEN_UNROLLED
        for (int k = 0; k < F::poses; ++k) {
            const S w[2] = {at(weight_, 2 * k, lane), at(weight_, 2 * k + 1, lane)};
            const S position = w[0] * w[0], rotation = w[1] * w[1] * (S(0.5) * of_rotation);
            GRIDGEN_UNROLLED
            for (int j = 0; j < 12; ++j)
                factor[row * k + j] = broadcast<T>(
                    S(-2) * (j % 4 == 3 ? position : rotation) * at(target_, 16 * k + j, lane));
            factor[row * k + 12] = broadcast<T>(position);
        }
        const T last = broadcast<T>(distance_[lane]);
        T least = broadcast<T>(none), place = broadcast<T>(S(0)), index = place;
        for (int j = 0; j < lanes; ++j) at(&index, 0, j) = S(j);
        GRIDGEN_ROLLED
        for (int i = 0; i < F::count; i += lanes) {
            T sum = broadcast<T>(S(0));
            GRIDGEN_UNROLLED
            for (int j = 0; j < row * F::poses; ++j) {
                const S* const poses = F::template start_poses<S>() + j * F::count + i;
                T there;
                if constexpr (lanes == 1) there = *poses;
                else __builtin_memcpy(&there, poses, sizeof there);
                sum = fma(factor[j], there, sum);
            }
            sum = select(last - sum, sum, broadcast<T>(none));
            place = select(sum - least, index, place);
            least = select(sum - least, sum, least);
            index = index + broadcast<T>(S(lanes));
        }
        int found = 0;
        for (int j = 1; j < lanes; ++j)
            if (at(&least, 0, j) < at(&least, 0, found)) found = j;
        distance_[lane] = at(&least, 0, found);
        return int(at(&place, 0, found));
    }

    // Begins at the next start: the given configuration within the limits, then the starts by distance.
    GRIDGEN_DEVICE void start(int lane) {
        load<F::nq>(q_next_, q0_, lane);
        GRIDGEN_UNROLLED
        for (int j = 0; j < F::nq; ++j) {
            S& x = at(q_next_, j, lane);
            if (x < S(F::lower[j])) x = S(F::lower[j]);
            if (x > S(F::upper[j])) x = S(F::upper[j]);
        }
        const int target = int(at(given_, first_setting, lane)) + tried_[lane]++;
        int found = -1;
        GRIDGEN_ROLLED
        for (; rank_[lane] < target; ++rank_[lane]) found = nearest(lane);
        if (found >= 0) {
            GRIDGEN_UNROLLED
            for (int j = 0; j < F::joint_count; ++j)
                at(q_next_, F::joints[j], lane) = F::template starts<S>()[j * F::count + found];
        }
        at(progress_next_, 0, lane) = at(progress_next_, 1, lane) = none;
        at(progress_next_, 2, lane) = S(0);
    }

    GRIDGEN_DEVICE void write(int lane, T* q, T* errors, S success) const {
        const auto result = result_[problem_[lane]], error = error_[problem_[lane]];
        GRIDGEN_UNROLLED
        for (int j = 0; j < F::nq; ++j) result[j] = at(q, j, lane);
        for (int j = 0; j < 2; ++j) error[j] = at(errors, j, lane);
        success_[problem_[lane]][0] = success;
    }

public:
    GRIDGEN_DEVICE Search(Input<S> q0, Input<S> rest, Input<S> targets, Input<S> weights,
                          Input<S> settings, Output<S> q, Output<S> success, Output<S> error)
        : q0_(q0), rest_(rest), targets_(targets), weights_(weights), settings_(settings),
          result_(q), success_(success), error_(error) {}

    // Begins a problem in a lane.
    GRIDGEN_DEVICE void begin(int lane, int64 problem) {
        problem_[lane] = problem;
        load<F::nq>(rest_q_, rest_, lane);
        load<numbers>(target_, targets_, lane);
        load<2 * F::poses>(weight_, weights_, lane);
        load<settings_count>(given_, settings_, lane);
        tried_[lane] = rank_[lane] = 0;
        distance_[lane] = -none;
        start(lane);
    }

    // Continues all lanes where they are to be next.
    GRIDGEN_DEVICE void advance() {
        GRIDGEN_UNROLLED
        for (int j = 0; j < F::nq; ++j) q_[j] = q_next_[j];
        for (int j = 0; j < 3; ++j) progress_[j] = progress_next_[j];
    }

    // Returns whether the start of a lane may have ended.
    GRIDGEN_DEVICE bool iterate() {
        F::iterate(q_, rest_q_, target_, weight_, given_, progress_, q_next_, progress_next_, residual_,
                   outcome_);
        return Lanes<T>::any_beyond(outcome_[0], S(0.5));
    }

    GRIDGEN_DEVICE bool has_ended(int lane) { return at(outcome_, 0, lane) != S(0); }

    // After the end of a start: begins the next one, or writes the result and returns true.
    GRIDGEN_DEVICE bool finish(int lane) {
        if (at(outcome_, 0, lane) > S(0)) {
            write(lane, q_, residual_, S(1));
            return true;
        }
        const S cost = at(progress_next_, 0, lane);
        if (tried_[lane] == 1 || cost < at(best_, 0, lane)) {
            copy<F::nq>(best_q_, q_, lane);
            copy<2>(best_ + 1, residual_, lane);
            at(best_, 0, lane) = cost;
        }
        if (S(tried_[lane]) < at(given_, starts_setting, lane)) {
            start(lane);
            return false;
        }
        write(lane, best_q_, best_ + 1, S(0));
        return true;
    }
};

#if defined(__CUDACC__) || defined(__CUDACC_RTC__) || defined(GRIDGEN_EMULATED)
// The search of one problem per thread.
template <class T, class F, class... Arrays>
GRIDGEN_DEVICE void run_searches(int64 n, const Arrays&... arrays) {
    const int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Search<T, F> search(arrays...);
    search.begin(0, i);
    do search.advance();
    while (!search.iterate() || !search.finish(0));
}
#endif

}  // namespace gridgen

#endif  // GRIDGEN_SEARCH_CUH
