// A program that hands over containers, and what the compiler has of std::span and Eigen.
#include <array>
#include <cstdio>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <vector>
#if __cplusplus >= 202002L
#include <span>
#endif
#if defined(WITH_EIGEN)
#include <Eigen/Core>
#endif

#include "gripper.hpp"

namespace robot = gripper;
constexpr int nq = robot::nq, nv = robot::nv;

static_assert(robot::frame_names[robot::frame_index("thumb_distal")] == "thumb_distal");
static_assert(robot::joint_names[robot::joint_index(robot::joint_names[1])] == robot::joint_names[1]);

static void require(bool holds, const char* what)
{
    if (!holds) throw std::runtime_error(what);
}

template <class Call> static bool is_refused(Call call)
{
    try {
        call();
    } catch (const gridgen::Error& error) {
        return error.status() == gridgen_bad_size;
    }
    return false;
}

template <class S> static void run()
{
    S q[nq], qd[nv], tau[nv], qdd[nv], J[6 * nv], loads[robot::bodies * 6], loaded[nv];
    for (int i = 0; i < nq; ++i) q[i] = S(0.3) - S(0.1) * S(i);
    for (int i = 0; i < nv; ++i) qd[i] = S(0.2) * S(i), tau[i] = S(0.5) - S(i);
    for (int i = 0; i < robot::bodies * 6; ++i) loads[i] = S(0.01) * S(i);
    robot::forward_dynamics_crba(q, qd, tau, qdd);
    robot::jacobian_thumb_distal_local(q, J);
    robot::forward_dynamics_crba_f_ext(q, qd, tau, loaded, nullptr, loads);
    require(loaded[0] != qdd[0], "wrenches do nothing");

    const std::vector<S> q_vector(q, q + nq), qd_vector(qd, qd + nv);
    std::array<S, nv> tau_array, found;
    std::array<S, 6 * nv> J_array;
    for (int i = 0; i < nv; ++i) tau_array[i] = tau[i];
    robot::forward_dynamics(q_vector, qd, tau_array, found);
    for (int i = 0; i < nv; ++i) require(found[i] == qdd[i], "containers");
    robot::jacobian_thumb_distal_local(q_vector, J_array);
    for (int i = 0; i < 6 * nv; ++i) require(J_array[i] == J[i], "matrix in a container");
    const std::vector<S> longer(nq + 1);
    require(is_refused([&] { robot::forward_dynamics(longer, qd, tau, found); }), "a longer one");
    gridgen::In<S, -1> any = longer, other = tau_array;  // arrays of any length, as obstacles are
    require(any.data() == longer.data() && other.data() == tau_array.data(), "any length");

#if __cplusplus >= 202002L
    const std::span<const S, nq> fixed(q);
    std::span<S> open(found), shorter = open.first(1);
    robot::forward_dynamics(fixed, std::span(qd), tau, open);
    for (int i = 0; i < nv; ++i) require(found[i] == qdd[i], "spans");
    require(is_refused([&] { robot::forward_dynamics(fixed, qd, tau, shorter); }), "a shorter one");
#endif

#if defined(WITH_EIGEN)
    using Vector = Eigen::Matrix<S, Eigen::Dynamic, 1>;
    const Eigen::Map<const Eigen::Matrix<S, nq, 1>> q_eigen(q);
    Vector both(nq + nv), result(nv);
    both << q_eigen, Eigen::Map<const Eigen::Matrix<S, nv, 1>>(qd);
    robot::forward_dynamics(both.template head<nq>(), both.tail(nv), tau_array, result);
    for (int i = 0; i < nv; ++i) require(result[i] == qdd[i], "vectors of Eigen");

    Eigen::Matrix<S, 6, nv> by_columns;
    Eigen::Matrix<S, 6, nv, Eigen::RowMajor> by_rows;
    Eigen::Matrix<S, Eigen::Dynamic, Eigen::Dynamic> whole(8, nv + 2);
    robot::jacobian_thumb_distal_local(q_eigen, by_columns);
    robot::jacobian_thumb_distal_local(q_eigen, by_rows);
    robot::jacobian_thumb_distal_local(q_eigen, whole.block(1, 2, 6, nv));
    for (int i = 0; i < 6; ++i)
        for (int j = 0; j < nv; ++j) {
            const S expected = J[i * nv + j];
            require(by_columns(i, j) == expected && by_rows(i, j) == expected &&
                    whole(i + 1, j + 2) == expected, "matrices of Eigen");
        }

    Eigen::Matrix<S, robot::bodies, 6> wrenches;
    for (int i = 0; i < robot::bodies; ++i)
        for (int j = 0; j < 6; ++j) wrenches(i, j) = loads[i * 6 + j];
    robot::forward_dynamics_crba_f_ext(q_eigen, qd, tau, result, nullptr, wrenches);
    for (int i = 0; i < nv; ++i) require(result[i] == loaded[i], "a matrix that is read");

    Eigen::Matrix<S, 2, Eigen::Dynamic> apart(2, nv);
    require(is_refused([&] { robot::forward_dynamics(q, qd, tau, apart.row(0)); }), "gaps");
    require(is_refused([&] { robot::jacobian_thumb_distal_local(q, whole); }), "a larger matrix");
#endif
}

int main()
{
    try {
        run<float>();
        run<double>();
        (void)robot::frame_index("nothing");
    } catch (const std::out_of_range&) {
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
    }
    return 1;
}
