// How a subtree answers a change of its carrier's motion: the calculus of the gradients.
//
// Whatever changes above a body reaches it as a change of its carrier's motion: the acceleration of
// the point x changes by a + alpha x x + u x xdot, with x and its velocity xdot taken from the
// carrier's origin, as the carrier sees them. See docs/gradients.md.
#ifndef GRIDGEN_CHANGES_CUH
#define GRIDGEN_CHANGES_CUH

#include "gridgen_articulated.cuh"
#include "gridgen_blocks.cuh"

namespace gridgen {
namespace scan {

// --- Changes, and how efforts answer them -------------------------------------------------------

// A change of motion; u is twice the change of angular velocity.
template <class T> struct MotionChange {
    Vector<T> a, alpha, u;
};

// How an effort answers: a . da + alpha . dalpha + u . du. (a, alpha) is the wrench of the joint's
// unit acceleration.
template <class T> struct EffortRow {
    Vector<T> a, alpha, u;
};

template <class T>
GRIDGEN_DEVICE T answer(const EffortRow<T>& row, const MotionChange<T>& change) {
    return dot_add(row.a, change.a, dot_add(row.alpha, change.alpha, dot(row.u, change.u)));
}

// The answer to changes of the parent's motion. `drift` is the velocity of the body's origin less
// that of the parent's, as the parent sees it.
template <class T>
GRIDGEN_DEVICE EffortRow<T> to_ancestor(const Placement<T>& X, Vector<T> drift,
                                        const EffortRow<T>& row) {
    const Vector<T> a = turn(X.E, row.a);
    return {a, cross_add(X.r, a, turn(X.E, row.alpha)), cross_add(drift, a, turn(X.E, row.u))};
}

// A change of the ancestor's motion about the origin of the body, in the body's axes.
template <class T>
GRIDGEN_DEVICE MotionChange<T> to_body(const Placement<T>& X, Vector<T> drift,
                                       const MotionChange<T>& change) {
    const Vector<T> a = cross_add(change.u, drift, cross_add(change.alpha, X.r, change.a));
    return {turn_back(X.E, a), turn_back(X.E, change.alpha), turn_back(X.E, change.u)};
}

// The change of a wrench that moves along with a joint's axis, as the joint's carrier sees it.
template <class T>
GRIDGEN_DEVICE Spatial<T> turned_wrench(const Spatial<T>& axis, const Spatial<T>& F) {
    return {cross(axis.angular, F.linear),
            cross_add(axis.angular, F.angular, cross(axis.linear, F.linear))};
}

// --- Subtrees -----------------------------------------------------------------------------------

// A subtree at rest: mass, first moment, and the integral of x x^T over the mass.
template <class T> struct Mass {
    T m;
    Vector<T> h;
    Symmetric<T> P;
};

// The same with its momentum: the integrals of xdot and of xdot x^T.
template <class T> struct MovingMass {
    Mass<T> rest;
    Vector<T> p;
    Matrix<T> K;
};

// trace(K) u - K u, the moment of the forces u x xdot.
template <class T> GRIDGEN_DEVICE Vector<T> moment(const Matrix<T>& K, Vector<T> u) {
    const T x = K.y.y + K.z.z, y = K.x.x + K.z.z, z = K.x.x + K.y.y;
    return {fma(-K.x.z, u.z, fma(-K.x.y, u.y, x * u.x)),
            fma(-K.y.z, u.z, fma(-K.y.x, u.x, y * u.y)),
            fma(-K.z.y, u.y, fma(-K.z.x, u.x, z * u.z))};
}

// trace(K) u - K^T u
template <class T> GRIDGEN_DEVICE Vector<T> moment_transposed(const Matrix<T>& K, Vector<T> u) {
    return moment(transpose(K), u);
}

// The moment of the forces u x x: the rotational inertia times u.
template <class T> GRIDGEN_DEVICE Vector<T> moment(const Symmetric<T>& P, Vector<T> u) {
    return moment(full(P), u);
}

// The columns a x K.
template <class T> GRIDGEN_DEVICE Matrix<T> cross_columns(Vector<T> a, const Matrix<T>& K) {
    return {scale_add(a.y, K.z, Vector<T>{-(a.z * K.y.x), -(a.z * K.y.y), -(a.z * K.y.z)}),
            scale_add(a.z, K.x, Vector<T>{-(a.x * K.z.x), -(a.x * K.z.y), -(a.x * K.z.z)}),
            scale_add(a.x, K.y, Vector<T>{-(a.y * K.x.x), -(a.y * K.x.y), -(a.y * K.x.z)})};
}

// K + a b^T
template <class T>
GRIDGEN_DEVICE Matrix<T> add_outer(const Matrix<T>& K, Vector<T> a, Vector<T> b) {
    return {scale_add(a.x, b, K.x), scale_add(a.y, b, K.y), scale_add(a.z, b, K.z)};
}

// A body whose points move with w x x.
template <class T> GRIDGEN_DEVICE MovingMass<T> moving(const Mass<T>& body, Vector<T> w) {
    return {body, cross(w, body.h), cross_columns(w, full(body.P))};
}

template <class T>
GRIDGEN_DEVICE Mass<T> to_ancestor(const Placement<T>& X, const Mass<T>& own) {
    const Vector<T> r = X.r, h = turn(X.E, own.h), moved = scale_add(own.m, r, h);
    const Symmetric<T> P = turned(X.E, own.P);
    // P + h r^T + r moved^T, which is symmetric.
    return {own.m, moved,
            {fma(r.x, moved.x, fma(h.x, r.x, P.xx)), fma(r.x, moved.y, fma(h.x, r.y, P.xy)),
             fma(r.x, moved.z, fma(h.x, r.z, P.xz)), fma(r.y, moved.y, fma(h.y, r.y, P.yy)),
             fma(r.y, moved.z, fma(h.y, r.z, P.yz)), fma(r.z, moved.z, fma(h.z, r.z, P.zz))}};
}

template <class T>
GRIDGEN_DEVICE MovingMass<T> to_ancestor(const Placement<T>& X, Vector<T> drift,
                                         const MovingMass<T>& own) {
    const Mass<T> rest = to_ancestor(X, own.rest);
    const Vector<T> p = turn(X.E, own.p);
    const Matrix<T> K = turned(X.E, own.K);
    return {rest, scale_add(own.rest.m, drift, p), add_outer(add_outer(K, p, X.r), drift, rest.h)};
}

// The wrench that gives a subtree at rest an acceleration (a, alpha).
template <class T>
GRIDGEN_DEVICE Spatial<T> wrench(const Mass<T>& mass, const Spatial<T>& acceleration) {
    const Vector<T> a = acceleration.linear, alpha = acceleration.angular;
    return {scale_add(mass.m, a, cross(alpha, mass.h)),
            cross_add(mass.h, a, moment(mass.P, alpha))};
}

// The change of the wrench that moves a subtree.
template <class T>
GRIDGEN_DEVICE Spatial<T> wrench(const MovingMass<T>& mass, const MotionChange<T>& change) {
    const Spatial<T> F = wrench(mass.rest, Spatial<T>{change.a, change.alpha});
    return {cross_add(change.u, mass.p, F.linear), F.angular + moment(mass.K, change.u)};
}

// How the effort along an axis answers.
template <class T>
GRIDGEN_DEVICE EffortRow<T> effort_row(const MovingMass<T>& mass, const Spatial<T>& axis) {
    const Spatial<T> F = wrench(mass.rest, axis);
    return {F.linear, F.angular,
            cross_add(mass.p, axis.linear, moment_transposed(mass.K, axis.angular))};
}

// --- Matrices -----------------------------------------------------------------------------------

// A square matrix by rows in an argument, or in memory.
template <class T> struct Square {
    View<T> entries;
    int size;

    GRIDGEN_DEVICE T& at(int row, int column) const { return entries[row * size + column]; }
};

}  // namespace scan
}  // namespace gridgen

#endif  // GRIDGEN_CHANGES_CUH
