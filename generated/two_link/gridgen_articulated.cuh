// Articulated bodies on a team of lanes (Yang, Wu, Pan (prefix sums) eq. 7, 18 and 19;
// docs/scan.md).
#ifndef GRIDGEN_ARTICULATED_CUH
#define GRIDGEN_ARTICULATED_CUH

#include "gridgen_scan.cuh"

namespace gridgen {
namespace scan {

// --- Inertias -----------------------------------------------------------------------------------

// The symmetric map from motions to wrenches by blocks: f = M v + H w, n = H^T v + I w.
template <class T> struct Articulated {
    Symmetric<T> M;
    Matrix<T> H;
    Symmetric<T> I;
};

// Entry i of an array of inertias: M, H by rows, I.
template <class T> GRIDGEN_DEVICE Articulated<T> load_articulated(View<const T> array, int i) {
    constexpr int numbers = sizeof(Articulated<T>) / sizeof(T);
    Articulated<T> A;
#pragma unroll
    for (int k = 0; k < numbers; ++k) component<T>(A, k) = array[numbers * i + k];
    return A;
}

// The inertia of a body none of whose joints gives way.
template <class T> GRIDGEN_DEVICE Articulated<T> articulated(const Inertia<T>& J) {
    const T zero = 0;
    const Vector<T>& h = J.h;
    return {{J.m, zero, zero, J.m, zero, J.m},
            {{zero, h.z, -h.y}, {-h.z, zero, h.x}, {h.y, -h.x, zero}},
            J.I};
}

template <class T> GRIDGEN_DEVICE Matrix<T> transpose(const Matrix<T>& A) {
    return {{A.x.x, A.y.x, A.z.x}, {A.x.y, A.y.y, A.z.y}, {A.x.z, A.y.z, A.z.z}};
}

template <class T> GRIDGEN_DEVICE Matrix<T> full(const Symmetric<T>& A) {
    return {{A.xx, A.xy, A.xz}, {A.xy, A.yy, A.yz}, {A.xz, A.yz, A.zz}};
}

// E A E^T
template <class T>
GRIDGEN_DEVICE Symmetric<T> turned(const Matrix<T>& E, const Symmetric<T>& A) {
    const Matrix<T> EA = multiply(E, full(A));
    return {dot(EA.x, E.x), dot(EA.x, E.y), dot(EA.x, E.z),
            dot(EA.y, E.y), dot(EA.y, E.z), dot(EA.z, E.z)};
}

template <class T> GRIDGEN_DEVICE Matrix<T> turned(const Matrix<T>& E, const Matrix<T>& A) {
    const Matrix<T> EA = multiply(E, A);
    return {turn(E, EA.x), turn(E, EA.y), turn(E, EA.z)};
}

// The inertia of a body, as one that moves with the ancestor feels it.
template <class T>
GRIDGEN_DEVICE Articulated<T> to_ancestor(const Placement<T>& X, const Articulated<T>& A) {
    const Vector<T> r = X.r;
    const Symmetric<T> M = turned(X.E, A.M);
    const Matrix<T> H = turned(X.E, A.H);
    const Symmetric<T> I = turned(X.E, A.I);
    // With v_body = v - [r] w and n = n_body + [r] f:
    //     H' = H - M [r],  I' = I + [r] H' + ([r] H)^T.
    const Matrix<T> shifted{cross_add(r, Vector<T>{M.xx, M.xy, M.xz}, H.x),
                            cross_add(r, Vector<T>{M.xy, M.yy, M.yz}, H.y),
                            cross_add(r, Vector<T>{M.xz, M.yz, M.zz}, H.z)};
    const Matrix<T> columns = transpose(H), moved = transpose(shifted);
    const Vector<T> x = cross_add(r, moved.x, Vector<T>{I.xx, I.xy, I.xz});
    const Vector<T> y = cross_add(r, moved.y, Vector<T>{I.xy, I.yy, I.yz});
    const Vector<T> z = cross_add(r, moved.z, Vector<T>{I.xz, I.yz, I.zz});
    // x, y, z are the columns of I + [r] H'; ([r] H)^T has r x column c of H as its row c.
    const Vector<T> row_x = cross(r, columns.x), row_y = cross(r, columns.y);
    const Vector<T> row_z = cross(r, columns.z);
    return {M, shifted,
            {x.x + row_x.x, y.x + row_x.y, z.x + row_x.z, y.y + row_y.y, z.y + row_y.z,
             z.z + row_z.z}};
}

// --- Joints -------------------------------------------------------------------------------------

// How an articulated body answers its joint.
template <class T> struct Answer {
    Spatial<T> U;     // wrench for a unit joint acceleration
    Spatial<T> gain;  // U / D
    T D;              // effort for a unit joint acceleration, armature included
};

// Where a joint has no armature, what remains cannot resist it at all: that row is exactly zero.
template <class T>
GRIDGEN_DEVICE Answer<T> answer(const Articulated<T>& A, bool slides, T armature) {
    Spatial<T> U{{A.H.x.z, A.H.y.z, A.H.z.z}, {A.I.xz, A.I.yz, A.I.zz}};
    if (slides) U = {{A.M.xz, A.M.yz, A.M.zz}, A.H.z};
    const T felt = slides ? U.linear.z : U.angular.z;
    const T D = felt + armature;
    const T one = 1, inverse = one / D;
    const Vector<T> zero{};
    Spatial<T> gain{scale_add(inverse, U.linear, zero), scale_add(inverse, U.angular, zero)};
    if (D == felt) (slides ? gain.linear : gain.angular).z = one;
    return {U, gain, D};
}

// What remains of an inertia when its joint gives way: A - U U^T / D (prefix sums eq. 7).
template <class T>
GRIDGEN_DEVICE Articulated<T> given_way(const Articulated<T>& A, const Answer<T>& joint,
                                        bool slides) {
    const Vector<T> u = joint.U.linear, w = joint.U.angular;
    const Vector<T> g = joint.gain.linear, k = joint.gain.angular;
    Articulated<T> rest{{fma(-u.x, g.x, A.M.xx), fma(-u.x, g.y, A.M.xy), fma(-u.x, g.z, A.M.xz),
                         fma(-u.y, g.y, A.M.yy), fma(-u.y, g.z, A.M.yz), fma(-u.z, g.z, A.M.zz)},
                        {scale_add(-u.x, k, A.H.x), scale_add(-u.y, k, A.H.y),
                         scale_add(-u.z, k, A.H.z)},
                        {fma(-w.x, k.x, A.I.xx), fma(-w.x, k.y, A.I.xy), fma(-w.x, k.z, A.I.xz),
                         fma(-w.y, k.y, A.I.yy), fma(-w.y, k.z, A.I.yz), fma(-w.z, k.z, A.I.zz)}};
    const T one = 1, zero = 0;
    if (slides && g.z == one) {
        rest.M.xz = rest.M.yz = rest.M.zz = zero;
        rest.H.z = {zero, zero, zero};
    }
    if (!slides && k.z == one) {
        rest.I.xz = rest.I.yz = rest.I.zz = zero;
        rest.H.x.z = rest.H.y.z = rest.H.z.z = zero;
    }
    return rest;
}

// The acceleration x of a free body: (A + diag(armature)) x = b, by A = L D L^T.
template <class T>
GRIDGEN_DEVICE Spatial<T> solve(const Articulated<T>& A, const T (&armature)[6],
                                const Spatial<T>& b) {
    const Matrix<T> M = full(A.M), C = transpose(A.H), I = full(A.I);
    T L[6][6] = {{M.x.x, 0, 0, 0, 0, 0},
                 {M.y.x, M.y.y, 0, 0, 0, 0},
                 {M.z.x, M.z.y, M.z.z, 0, 0, 0},
                 {C.x.x, C.x.y, C.x.z, I.x.x, 0, 0},
                 {C.y.x, C.y.y, C.y.z, I.y.x, I.y.y, 0},
                 {C.z.x, C.z.y, C.z.z, I.z.x, I.z.y, I.z.z}};
    T x[6] = {b.linear.x, b.linear.y, b.linear.z, b.angular.x, b.angular.y, b.angular.z};
    const T one = 1;
#pragma unroll
    for (int k = 0; k < 6; ++k) {
        const T inverse = one / (L[k][k] + armature[k]);
#pragma unroll
        for (int i = k + 1; i < 6; ++i) {
            const T factor = L[i][k] * inverse;
#pragma unroll
            for (int j = k + 1; j <= i; ++j) L[i][j] = fma(-factor, L[j][k], L[i][j]);
            x[i] = fma(-factor, x[k], x[i]);
        }
#pragma unroll
        for (int i = k + 1; i < 6; ++i) L[i][k] *= inverse;
        L[k][k] = inverse;
    }
#pragma unroll
    for (int k = 5; k >= 0; --k) {
        x[k] = product(x[k], L[k][k]);
#pragma unroll
        for (int i = k + 1; i < 6; ++i) x[k] = fma(-L[i][k], x[i], x[k]);
    }
    return {{x[0], x[1], x[2]}, {x[3], x[4], x[5]}};
}

// --- What a chain of joints that give way transmits ---------------------------------------------

// A 6x6 matrix by rows: the share of a wrench on a body that an ancestor feels through all joints
// between them (Y of prefix sums eq. 8); transposed, the acceleration that arrives from there.
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
GRIDGEN_DEVICE Transmission<T> transmission(const Placement<T>& X, Spatial<T> gain, bool slides) {
    const Matrix<T>& E = X.E;
    const Vector<T> zero{}, r = X.r;
    Transmission<T> Y{{{E.x, zero},
                       {E.y, zero},
                       {E.z, zero},
                       {scale_add(r.y, E.z, scale_add(-r.z, E.y, zero)), E.x},
                       {scale_add(r.z, E.x, scale_add(-r.x, E.z, zero)), E.y},
                       {scale_add(r.x, E.y, scale_add(-r.y, E.x, zero)), E.z}}};
    const T one = 1;
    (slides ? gain.linear : gain.angular).z -= one;
    const Spatial<T> lost = to_ancestor(X, gain);
#pragma unroll
    for (int row = 0; row < 6; ++row)
        (slides ? Y.row[row].linear : Y.row[row].angular).z = -component<T>(lost, row);
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

// Round k of prefix sums eq. 18: each body adds what its descendants exactly 2^k below transmit.
template <class T, class Team, int share>
__device__ __forceinline__ void collect(Team& team, Lists below, const Transmission<T> (&Y)[share],
                                        Spatial<T> (&p)[share]) {
    Spatial<T> sent[share];
    for (int j = 0; j < share; ++j) sent[j] = transmit(Y[j], p[j]);
    team.add_listed(below, sent, p);
}

// Round k of prefix sums eq. 19: the acceleration that arrives from the ancestor 2^k above.
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
