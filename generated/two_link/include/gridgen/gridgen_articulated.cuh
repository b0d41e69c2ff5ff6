// Articulated bodies on a team of lanes (Yang, Wu, Pan (prefix sums) eq. 7, 18 and 19;
// docs/scan.md).
#ifndef GRIDGEN_ARTICULATED_CUH
#define GRIDGEN_ARTICULATED_CUH

#include "gridgen_scan.cuh"

namespace gridgen {
namespace scan {

// --- Joints -------------------------------------------------------------------------------------

// The response of an articulated body to its joint.
template <class T> struct Answer {
    Spatial<T> U;     // wrench for a unit joint acceleration
    Spatial<T> gain;  // U / D
    T D;              // joint torque for a unit joint acceleration, armature included
};

// Without armature, the remaining inertia has no resistance along the joint: that row is exactly zero,
// unless the joint has a pitch, whose motion is not a single row.
template <class T>
GRIDGEN_DEVICE Answer<T> answer(const Articulated<T>& A, const Screw<T>& axis, T armature) {
    const Spatial<T> along{{A.M.xz, A.M.yz, A.M.zz}, A.H.z};
    Spatial<T> U{{A.H.x.z, A.H.y.z, A.H.z.z}, {A.I.xz, A.I.yz, A.I.zz}};
    if (axis.slides) U = along;
    const T one = 1, zero = 0;
    if (axis.pitch != zero)
        U = {scale_add(axis.pitch, along.linear, U.linear),
             scale_add(axis.pitch, along.angular, U.angular)};
    const T felt = effort_of(axis, U);
    const T D = felt + armature;
    Spatial<T> gain = scaled(one / D, U);
    if (D == felt && axis.pitch == zero) (axis.slides ? gain.linear : gain.angular).z = one;
    return {U, gain, D};
}

// The inertia propagated across its joint.
template <class T>
GRIDGEN_DEVICE Articulated<T> across_joint(const Articulated<T>& A, const Answer<T>& joint,
                                        const Screw<T>& axis) {
    Articulated<T> rest = across_joint(A, joint.U, joint.gain);
    const T one = 1, zero = 0;
    if (axis.pitch != zero) return rest;
    if (axis.slides && joint.gain.linear.z == one) {
        rest.M.xz = rest.M.yz = rest.M.zz = zero;
        rest.H.z = {zero, zero, zero};
    }
    if (!axis.slides && joint.gain.angular.z == one) {
        rest.I.xz = rest.I.yz = rest.I.zz = zero;
        rest.H.x.z = rest.H.y.z = rest.H.z.z = zero;
    }
    return rest;
}

// --- Force propagation along a chain of joints ---------------------------------------------------

// A 6x6 matrix by rows: the fraction of a wrench on a body that is propagated to an ancestor through all
// joints between them (Y of prefix sums eq. 8); transposed, it propagates the ancestor's acceleration.
template <class T> struct Transmission {
    Spatial<T> row[6];
};

// Y a
template <class T>
GRIDGEN_DEVICE Spatial<T> transmit(const Transmission<T>& Y, const Spatial<T>& a) {
    T b[6];
#pragma unroll
    for (int r = 0; r < 6; ++r) b[r] = dot(Y.row[r], a);
    return {{b[0], b[1], b[2]}, {b[3], b[4], b[5]}};
}

// Y^T a + b
template <class T>
GRIDGEN_DEVICE Spatial<T> arrive(const Transmission<T>& Y, const Spatial<T>& a, Spatial<T> b) {
    const T coefficients[6] = {a.linear.x,  a.linear.y,  a.linear.z,
                               a.angular.x, a.angular.y, a.angular.z};
#pragma unroll
    for (int r = 0; r < 6; ++r)
        b = {scale_add(coefficients[r], Y.row[r].linear, b.linear),
             scale_add(coefficients[r], Y.row[r].angular, b.angular)};
    return b;
}

// Y over one joint: X^T (1 - gain S^T).
template <class T>
GRIDGEN_DEVICE Transmission<T> transmission(const Placement<T>& X, Spatial<T> gain,
                                            const Screw<T>& axis) {
    const Matrix<T>& E = X.E;
    const Matrix<T> arm = lever(X);
    const Vector<T> zero{};
    Transmission<T> Y{
        {{E.x, zero}, {E.y, zero}, {E.z, zero}, {arm.x, E.x}, {arm.y, E.y}, {arm.z, E.z}}};
    const T one = 1;
    if (axis.pitch != T(0)) {
        const Spatial<T> felt = to_ancestor(X, gain);
#pragma unroll
        for (int row = 0; row < 6; ++row)
            Y.row[row].linear.z = fma(-axis.pitch, component<T>(felt, row), Y.row[row].linear.z);
    }
    (axis.slides ? gain.linear : gain.angular).z -= one;
    const Spatial<T> lost = to_ancestor(X, gain);
#pragma unroll
    for (int row = 0; row < 6; ++row)
        (axis.slides ? Y.row[row].linear : Y.row[row].angular).z = -component<T>(lost, row);
    return Y;
}

// R (A + R)^-1 b: the wrench on a free body that its armature R transmits.
template <class T>
GRIDGEN_DEVICE Spatial<T> passed_on(const Articulated<T>& A, const Spatial<T>& armature,
                                    const Spatial<T>& b) {
    Spatial<T> wrench = solve(A, armature, b);
#pragma unroll
    for (int c = 0; c < 6; ++c)
        component<T>(wrench, c) = product(component<T>(armature, c), component<T>(wrench, c));
    return wrench;
}

// Y over one free joint with an armature R: X^T R (A + R)^-1.
template <class T>
GRIDGEN_DEVICE Transmission<T> transmission(const Placement<T>& X, const Articulated<T>& A,
                                            const Spatial<T>& armature) {
    Transmission<T> Y;
#pragma unroll
    for (int c = 0; c < 6; ++c) {
        Spatial<T> unit{};
        component<T>(unit, c) = T(1);
        const Spatial<T> felt = to_ancestor(X, passed_on(A, armature, unit));
#pragma unroll
        for (int r = 0; r < 6; ++r) component<T>(Y.row[r], c) = component<T>(felt, r);
    }
    return Y;
}

// --- Scans --------------------------------------------------------------------------------------

// Y over twice as many joints.
template <class T, class Team, int share>
__device__ __forceinline__ void extend(Team& team, const short* above,
                                       Transmission<T> (&Y)[share]) {
    Transmission<T> twice[share];
#pragma unroll
    for (int r = 0; r < 6; ++r) {
        Spatial<T> mine[share], theirs[share];
        for (int j = 0; j < share; ++j) mine[j] = Y[j].row[r];
        team.fetch(above, mine, theirs);
        for (int j = 0; j < share; ++j)
            twice[j].row[r] = above[team.body(j)] >= 0 ? arrive(Y[j], theirs[j], Spatial<T>{})
                                                       : Y[j].row[r];
    }
    for (int j = 0; j < share; ++j) Y[j] = twice[j];
}

// Round k of prefix sums eq. 18: each body adds the wrenches from its descendants exactly 2^k below.
template <class T, class Team, int share>
__device__ __forceinline__ void collect(Team& team, Lists below, const Transmission<T> (&Y)[share],
                                        Spatial<T> (&p)[share]) {
    Spatial<T> sent[share];
    for (int j = 0; j < share; ++j) sent[j] = transmit(Y[j], p[j]);
    team.add_listed(below, sent, p);
}

// Round k of prefix sums eq. 19: the acceleration propagated from the ancestor 2^k above.
template <class T, class Team, int share>
__device__ __forceinline__ void propagate(Team& team, const short* above,
                                          const Transmission<T> (&Y)[share],
                                          Spatial<T> (&a)[share]) {
    Spatial<T> theirs[share];
    team.fetch(above, a, theirs);
    for (int j = 0; j < share; ++j)
        if (above[team.body(j)] >= 0) a[j] = arrive(Y[j], theirs[j], a[j]);
}

}  // namespace scan
}  // namespace gridgen

#endif  // GRIDGEN_ARTICULATED_CUH
