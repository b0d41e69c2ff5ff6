// What three joints of one path have in common: the calculus of the second derivatives.
//
// `tip` is the joint farthest from the base, `root` the nearest, `middle` lies between; two of them,
// or all, may be the same. Everything meets in the frame of the middle one. See docs/gradients.md.
#ifndef GRIDGEN_SECOND_ORDER_CUH
#define GRIDGEN_SECOND_ORDER_CUH

#include "gridgen_changes.cuh"

namespace gridgen {
namespace scan {

// The derivative of a subtree's mass and momentum by the position of the joint that carries it,
// whose unit velocity moves the point x with e: the integrals of e and of e x^T over the mass, and
// the derivatives of those of xdot and of xdot x^T.
template <class T> struct TurnedMass {
    Vector<T> f;
    Matrix<T> Q;
    Vector<T> p;
    Matrix<T> K;
};

// w is the angular velocity of the body; all is seen by what carries it, in the body's axes.
template <class T>
GRIDGEN_DEVICE TurnedMass<T> turned_mass(const Spatial<T>& axis, const MovingMass<T>& mass,
                                         Vector<T> w) {
    const Vector<T> slide = axis.linear, spin = axis.angular;
    const Vector<T> moved = cross(w, slide), turned_axis = cross(w, spin), zero{};
    const Mass<T>& rest = mass.rest;
    const Matrix<T> P = full(rest.P), across = cross_columns(turned_axis, P);
    const Matrix<T> own = cross_columns(spin, mass.K);
    // The rows of K turn with the points x, as its columns do with their velocities.
    const Matrix<T> K{cross_add(spin, mass.K.x, own.x + across.x),
                      cross_add(spin, mass.K.y, own.y + across.y),
                      cross_add(spin, mass.K.z, own.z + across.z)};
    return {cross_add(spin, rest.h, scale_add(rest.m, slide, zero)),
            add_outer(cross_columns(spin, P), slide, rest.h),
            cross_add(spin, mass.p, cross_add(turned_axis, rest.h, scale_add(rest.m, moved, zero))),
            add_outer(add_outer(K, mass.p, slide), moved, rest.h)};
}

template <class T>
GRIDGEN_DEVICE TurnedMass<T> to_ancestor(const Placement<T>& X, Vector<T> drift,
                                         const TurnedMass<T>& mass) {
    const Vector<T> f = turn(X.E, mass.f), p = turn(X.E, mass.p);
    return {f, add_outer(turned(X.E, mass.Q), f, X.r), p,
            add_outer(add_outer(turned(X.E, mass.K), p, X.r), drift, f)};
}

// The derivative as that of a subtree, whose mass stays.
template <class T> GRIDGEN_DEVICE MovingMass<T> by_position(const TurnedMass<T>& mass) {
    const Matrix<T>& Q = mass.Q;
    const T zero = 0;
    return {{zero, mass.f,
             {Q.x.x + Q.x.x, Q.x.y + Q.y.x, Q.x.z + Q.z.x, Q.y.y + Q.y.y, Q.y.z + Q.z.y,
              Q.z.z + Q.z.z}},
            mass.p, mass.K};
}

// How the joint's velocity changes the answer to the change u of motion: it moves the points, not
// the mass.
template <class T>
GRIDGEN_DEVICE Spatial<T> wrench_by_velocity(const TurnedMass<T>& mass, Vector<T> u) {
    return {cross(u, mass.f), moment(mass.Q, u)};
}

// What a joint does to a body on whose way to the base it lies, in that body's frame: its axis, and
// the changes of motion with its position and its velocity.
template <class T> struct FromAbove {
    Spatial<T> axis;
    MotionChange<T> position, velocity;
};

template <class T>
GRIDGEN_DEVICE FromAbove<T> to_body(const Placement<T>& X, Vector<T> drift,
                                    const FromAbove<T>& above) {
    return {to_body(X, above.axis), to_body(X, drift, above.position),
            to_body(X, drift, above.velocity)};
}

// What the tip does to a body on its way to the base, in that body's frame: how its effort answers,
// and the changes of mass and of the transmitted wrench with its position and its velocity.
template <class T> struct FromBelow {
    EffortRow<T> row;
    TurnedMass<T> mass;
    Spatial<T> position, velocity;
};

// F is the wrench that the tip's joint transmits.
template <class T>
GRIDGEN_DEVICE FromBelow<T> from_below(const FromAbove<T>& own, const MovingMass<T>& mass,
                                       const Spatial<T>& F, Vector<T> w) {
    return {effort_row(mass, own.axis), turned_mass(own.axis, mass, w),
            wrench(mass, own.position) + turned_wrench(own.axis, F), wrench(mass, own.velocity)};
}

template <class T>
GRIDGEN_DEVICE FromBelow<T> to_ancestor(const Placement<T>& X, Vector<T> drift,
                                        const FromBelow<T>& below) {
    return {to_ancestor(X, drift, below.row), to_ancestor(X, drift, below.mass),
            to_ancestor(X, below.position), to_ancestor(X, below.velocity)};
}

// How the tip's effort answers changes at the middle when the middle joint turns.
template <class T>
GRIDGEN_DEVICE EffortRow<T> turned_row(const Spatial<T>& axis, Vector<T> w,
                                       const FromBelow<T>& below) {
    const Vector<T> slide = axis.linear, spin = axis.angular;
    const EffortRow<T>& row = below.row;
    const Vector<T> moved = cross_add(cross(w, slide), row.a, cross(spin, row.u));
    return {cross(spin, row.a), cross_add(spin, row.alpha, cross(slide, row.a)),
            moved - moment_transposed(below.mass.Q, cross(w, spin))};
}

// How the tip's effort by the middle's velocity answers a change u; with the opposite sign it is the
// middle's effort by the tip's velocity.
template <class T>
GRIDGEN_DEVICE Vector<T> quadratic_row(const Spatial<T>& axis, const FromBelow<T>& below) {
    return cross(axis.linear, below.row.a) - moment_transposed(below.mass.Q, axis.angular);
}

// The second derivative of the transmitted wrench F by its own joint's position.
template <class T>
GRIDGEN_DEVICE Spatial<T> own_second_wrench(const FromAbove<T>& own, const MovingMass<T>& mass,
                                            const Spatial<T>& F, Vector<T> w) {
    const Vector<T> slide = own.axis.linear, spin = own.axis.angular;
    const MotionChange<T>& change = own.position;
    const Vector<T> c = cross(w, spin), twice = c + c;
    const MotionChange<T> second{cross_add(change.a, spin, cross(change.alpha, slide)),
                                 cross(change.alpha, spin), cross(change.u, spin)};
    const Spatial<T> again = wrench(mass, second);
    const Spatial<T> seen = turned_wrench(own.axis, wrench(mass, change));
    const Spatial<T> moved{cross_add(twice, cross(c, mass.rest.h), again.linear),
                           cross_add(twice, moment(mass.rest.P, c), again.angular)};
    return moved + turned_wrench(own.axis, turned_wrench(own.axis, F)) + (seen + seen);
}

}  // namespace scan
}  // namespace gridgen

#endif  // GRIDGEN_SECOND_ORDER_CUH
