// Operations on one body, for the kernels with one team of lanes per state.
//
// Generated from the algorithms of the other kernels. Motions and wrenches have their linear part first
// and are expressed in the body's canonical frame, whose z axis is the joint's. Every product that
// enters a sum is an explicit fused multiply-add, which leaves a compiler nothing to contract: the
// results are bitwise independent of the distribution of bodies over lanes and of the target.
#ifndef GRIDGEN_BODIES_CUH
#define GRIDGEN_BODIES_CUH

#include "gridgen_math.cuh"

namespace gridgen {
namespace scan {

template <class T> GRIDGEN_DEVICE T fma(T a, T b, T c) { return Lanes<T>::fma(a, b, c); }

// a b, which is never contracted with a sum.
template <class T> GRIDGEN_DEVICE T product(T a, T b) { return fma(a, b, T(0)); }

// --- Records ------------------------------------------------------------------------------------

// Three components.
template <class T> struct Vector {
    T x;
    T y;
    T z;
};

// A 3x3 matrix by rows.
template <class T> struct Matrix {
    Vector<T> x;
    Vector<T> y;
    Vector<T> z;
};

// The symmetric matrix of a triangle.
template <class T> struct Symmetric {
    T xx;
    T xy;
    T xz;
    T yy;
    T yz;
    T zz;
};

// A motion (v, w) or a wrench (f, n).
template <class T> struct Spatial {
    Vector<T> linear;
    Vector<T> angular;
};

// Placement of a body in one of its ancestors: x_ancestor = E x_body + r.
template <class T> struct Placement {
    Matrix<T> E;
    Vector<T> r;
};

// Mass, first moment and rotational inertia of a rigid body about its frame's origin.
template <class T> struct Mass {
    T m;
    Vector<T> h;
    Symmetric<T> I;
};

// The inverse of a link's inertia: 1 / m, center, inverse of the rotational one about it.
template <class T> struct Mobility {
    T inverse_mass;
    Vector<T> center;
    Symmetric<T> inverse_inertia;
};

// The symmetric map from motions to wrenches by blocks: f = M v + H w, n = H^T v + I w.
template <class T> struct Articulated {
    Symmetric<T> M;
    Matrix<T> H;
    Symmetric<T> I;
};

// A change of motion: point x has the additional acceleration a + alpha x x + 2 w x xdot.
template <class T> struct MotionChange {
    Vector<T> a;
    Vector<T> alpha;
    Vector<T> w;
};

// The change of a joint torque: a . da + alpha . dalpha + w . dw.
template <class T> struct EffortRow {
    Vector<T> a;
    Vector<T> alpha;
    Vector<T> w;
};

// A subtree's mass, and twice its momentum: the integrals of xdot and of xdot x^T.
template <class T> struct MovingMass {
    Mass<T> rest;
    Vector<T> p;
    Matrix<T> K;
};

// Its derivative by the position of its joint.
template <class T> struct TurnedMass {
    Vector<T> f;
    Matrix<T> Q;
    Vector<T> p;
    Matrix<T> K;
};

// Effect of an ancestor joint on a body, in that body's frame.
template <class T> struct FromAbove {
    Spatial<T> axis;
    MotionChange<T> position;
    MotionChange<T> velocity;
};

// Effect of a joint on an ancestor body, in that body's frame.
template <class T> struct FromBelow {
    EffortRow<T> row;
    TurnedMass<T> mass;
    Spatial<T> position;
    Spatial<T> velocity;
};

// --- Operators ----------------------------------------------------------------------------------

// a . b
template <class T>
GRIDGEN_DEVICE T dot(Vector<T> a, Vector<T> b) {
    return fma(a.z, b.z, fma(a.y, b.y, a.x * b.x));
}

// The torque of a wrench along an axis, or its power in a motion.
template <class T>
GRIDGEN_DEVICE T dot(const Spatial<T>& a, const Spatial<T>& b) {
    return fma(a.linear.z, b.linear.z, fma(a.linear.y, b.linear.y, fma(a.linear.x, b.linear.x,
        fma(a.angular.z, b.angular.z, fma(a.angular.y, b.angular.y, a.angular.x * b.angular.x)))));
}

// E a + b
template <class T>
GRIDGEN_DEVICE Vector<T> turn_add(const Matrix<T>& E, Vector<T> a, Vector<T> b) {
    const T x = fma(E.x.z, a.z, fma(E.x.y, a.y, fma(E.x.x, a.x, b.x)));
    const T y = fma(E.y.z, a.z, fma(E.y.y, a.y, fma(E.y.x, a.x, b.y)));
    const T z = fma(E.z.z, a.z, fma(E.z.y, a.y, fma(E.z.x, a.x, b.z)));
    return {x, y, z};
}

// A wrench in the axes of a frame rotated by E.
template <class T>
GRIDGEN_DEVICE Spatial<T> rotated_back(const Matrix<T>& E, const Spatial<T>& F) {
    const T linear_x = fma(E.z.x, F.linear.z, fma(E.y.x, F.linear.y, E.x.x * F.linear.x));
    const T linear_y = fma(E.z.y, F.linear.z, fma(E.y.y, F.linear.y, E.x.y * F.linear.x));
    const T linear_z = fma(E.z.z, F.linear.z, fma(E.y.z, F.linear.y, E.x.z * F.linear.x));
    const T angular_x = fma(E.z.x, F.angular.z, fma(E.y.x, F.angular.y, E.x.x * F.angular.x));
    const T angular_y = fma(E.z.y, F.angular.z, fma(E.y.y, F.angular.y, E.x.y * F.angular.x));
    const T angular_z = fma(E.z.z, F.angular.z, fma(E.y.z, F.angular.y, E.x.z * F.angular.x));
    return {{linear_x, linear_y, linear_z}, {angular_x, angular_y, angular_z}};
}

// ad_a b + c: the rate of change of the motion b under the motion a, plus c.
template <class T>
GRIDGEN_DEVICE Spatial<T> ad_add(const Spatial<T>& a, const Spatial<T>& b, const Spatial<T>& c) {
    const T linear_x = fma(-a.linear.z, b.angular.y, fma(a.linear.y, b.angular.z, fma(-a.angular.z,
        b.linear.y, fma(a.angular.y, b.linear.z, c.linear.x))));
    const T linear_y = fma(-a.linear.x, b.angular.z, fma(a.linear.z, b.angular.x, fma(-a.angular.x,
        b.linear.z, fma(a.angular.z, b.linear.x, c.linear.y))));
    const T linear_z = fma(-a.linear.y, b.angular.x, fma(a.linear.x, b.angular.y, fma(-a.angular.y,
        b.linear.x, fma(a.angular.x, b.linear.y, c.linear.z))));
    const T angular_x = fma(-a.angular.z, b.angular.y, fma(a.angular.y, b.angular.z, c.angular.x));
    const T angular_y = fma(-a.angular.x, b.angular.z, fma(a.angular.z, b.angular.x, c.angular.y));
    const T angular_z = fma(-a.angular.y, b.angular.x, fma(a.angular.x, b.angular.y, c.angular.z));
    return {{linear_x, linear_y, linear_z}, {angular_x, angular_y, angular_z}};
}

// The placement of `inner` in the reference frame of `outer`.
template <class T>
GRIDGEN_DEVICE Placement<T> compose(const Placement<T>& outer, const Placement<T>& inner) {
    const T E_x_x = fma(outer.E.x.z, inner.E.z.x, fma(outer.E.x.y, inner.E.y.x, outer.E.x.x *
        inner.E.x.x));
    const T E_x_y = fma(outer.E.x.z, inner.E.z.y, fma(outer.E.x.y, inner.E.y.y, outer.E.x.x *
        inner.E.x.y));
    const T E_x_z = fma(outer.E.x.z, inner.E.z.z, fma(outer.E.x.y, inner.E.y.z, outer.E.x.x *
        inner.E.x.z));
    const T E_y_x = fma(outer.E.y.z, inner.E.z.x, fma(outer.E.y.y, inner.E.y.x, outer.E.y.x *
        inner.E.x.x));
    const T E_y_y = fma(outer.E.y.z, inner.E.z.y, fma(outer.E.y.y, inner.E.y.y, outer.E.y.x *
        inner.E.x.y));
    const T E_y_z = fma(outer.E.y.z, inner.E.z.z, fma(outer.E.y.y, inner.E.y.z, outer.E.y.x *
        inner.E.x.z));
    const T E_z_x = fma(outer.E.z.z, inner.E.z.x, fma(outer.E.z.y, inner.E.y.x, outer.E.z.x *
        inner.E.x.x));
    const T E_z_y = fma(outer.E.z.z, inner.E.z.y, fma(outer.E.z.y, inner.E.y.y, outer.E.z.x *
        inner.E.x.y));
    const T E_z_z = fma(outer.E.z.z, inner.E.z.z, fma(outer.E.z.y, inner.E.y.z, outer.E.z.x *
        inner.E.x.z));
    const T r_x = fma(outer.E.x.z, inner.r.z, fma(outer.E.x.y, inner.r.y, fma(outer.E.x.x,
        inner.r.x, outer.r.x)));
    const T r_y = fma(outer.E.y.z, inner.r.z, fma(outer.E.y.y, inner.r.y, fma(outer.E.y.x,
        inner.r.x, outer.r.y)));
    const T r_z = fma(outer.E.z.z, inner.r.z, fma(outer.E.z.y, inner.r.y, fma(outer.E.z.x,
        inner.r.x, outer.r.z)));
    return {{{E_x_x, E_x_y, E_x_z}, {E_y_x, E_y_y, E_y_z}, {E_z_x, E_z_y, E_z_z}}, {r_x, r_y, r_z}};
}

// The placement X of a body after a rotation of its joint about the body's z axis.
template <class T>
GRIDGEN_DEVICE Placement<T> spun(const Placement<T>& X, T s, T c) {
    const T E_x_x = fma(X.E.x.y, s, X.E.x.x * c);
    const T E_x_y = fma(X.E.x.y, c, -(X.E.x.x * s));
    const T E_y_x = fma(X.E.y.y, s, X.E.y.x * c);
    const T E_y_y = fma(X.E.y.y, c, -(X.E.y.x * s));
    const T E_z_x = fma(X.E.z.y, s, X.E.z.x * c);
    const T E_z_y = fma(X.E.z.y, c, -(X.E.z.x * s));
    return {{{E_x_x, E_x_y, X.E.x.z}, {E_y_x, E_y_y, X.E.y.z}, {E_z_x, E_z_y, X.E.z.z}}, {X.r.x,
        X.r.y, X.r.z}};
}

// The same for a translation along it.
template <class T>
GRIDGEN_DEVICE Placement<T> slid(const Placement<T>& X, T distance) {
    const T r_x = fma(X.E.x.z, distance, X.r.x);
    const T r_y = fma(X.E.y.z, distance, X.r.y);
    const T r_z = fma(X.E.z.z, distance, X.r.z);
    return {{{X.E.x.x, X.E.x.y, X.E.x.z}, {X.E.y.x, X.E.y.y, X.E.y.z}, {X.E.z.x, X.E.z.y, X.E.z.z}},
        {r_x, r_y, r_z}};
}

// The same for a free joint with a position [x y z] and a unit quaternion [u w].
template <class T>
GRIDGEN_DEVICE Placement<T> freed(const Placement<T>& X, Vector<T> position, Vector<T> u, T w) {
    const T t0 = product(T(2), u.y);
    const T t1 = product(T(2), u.z);
    const T t2 = fma(-u.z, t1, fma(-u.y, t0, T(1)));
    const T t3 = product(T(2), u.x);
    const T t4 = product(u.y, t3);
    const T t5 = fma(-w, t1, t4);
    const T t6 = product(u.z, t3);
    const T t7 = fma(w, t0, t6);
    const T t8 = fma(w, t1, t4);
    const T t9 = fma(-u.x, t3, fma(-u.z, t1, T(1)));
    const T t10 = product(w, t3);
    const T t11 = fma(u.z, t0, -t10);
    const T t12 = fma(-w, t0, t6);
    const T t13 = fma(u.z, t0, t10);
    const T t14 = fma(-u.x, t3, fma(-u.y, t0, T(1)));
    const T E_x_x = fma(X.E.x.z, t12, fma(X.E.x.y, t8, X.E.x.x * t2));
    const T E_x_y = fma(X.E.x.z, t13, fma(X.E.x.y, t9, X.E.x.x * t5));
    const T E_x_z = fma(X.E.x.z, t14, fma(X.E.x.y, t11, X.E.x.x * t7));
    const T E_y_x = fma(X.E.y.z, t12, fma(X.E.y.y, t8, X.E.y.x * t2));
    const T E_y_y = fma(X.E.y.z, t13, fma(X.E.y.y, t9, X.E.y.x * t5));
    const T E_y_z = fma(X.E.y.z, t14, fma(X.E.y.y, t11, X.E.y.x * t7));
    const T E_z_x = fma(X.E.z.z, t12, fma(X.E.z.y, t8, X.E.z.x * t2));
    const T E_z_y = fma(X.E.z.z, t13, fma(X.E.z.y, t9, X.E.z.x * t5));
    const T E_z_z = fma(X.E.z.z, t14, fma(X.E.z.y, t11, X.E.z.x * t7));
    const T r_x = fma(X.E.x.z, position.z, fma(X.E.x.y, position.y, fma(X.E.x.x, position.x,
        X.r.x)));
    const T r_y = fma(X.E.y.z, position.z, fma(X.E.y.y, position.y, fma(X.E.y.x, position.x,
        X.r.y)));
    const T r_z = fma(X.E.z.z, position.z, fma(X.E.z.y, position.y, fma(X.E.z.x, position.x,
        X.r.z)));
    return {{{E_x_x, E_x_y, E_x_z}, {E_y_x, E_y_y, E_y_z}, {E_z_x, E_z_y, E_z_z}}, {r_x, r_y, r_z}};
}

// A motion of the ancestor in the body's frame (Ad of the inverse).
template <class T>
GRIDGEN_DEVICE Spatial<T> to_body(const Placement<T>& X, const Spatial<T>& V) {
    const T t0 = fma(-X.r.y, V.angular.z, fma(X.r.z, V.angular.y, V.linear.x));
    const T t1 = fma(-X.r.z, V.angular.x, fma(X.r.x, V.angular.z, V.linear.y));
    const T t2 = fma(-X.r.x, V.angular.y, fma(X.r.y, V.angular.x, V.linear.z));
    const T linear_x = fma(X.E.z.x, t2, fma(X.E.y.x, t1, X.E.x.x * t0));
    const T linear_y = fma(X.E.z.y, t2, fma(X.E.y.y, t1, X.E.x.y * t0));
    const T linear_z = fma(X.E.z.z, t2, fma(X.E.y.z, t1, X.E.x.z * t0));
    const T angular_x = fma(X.E.z.x, V.angular.z, fma(X.E.y.x, V.angular.y, X.E.x.x * V.angular.x));
    const T angular_y = fma(X.E.z.y, V.angular.z, fma(X.E.y.y, V.angular.y, X.E.x.y * V.angular.x));
    const T angular_z = fma(X.E.z.z, V.angular.z, fma(X.E.y.z, V.angular.y, X.E.x.z * V.angular.x));
    return {{linear_x, linear_y, linear_z}, {angular_x, angular_y, angular_z}};
}

// A wrench on the body in the ancestor's frame (the transpose of to_body).
template <class T>
GRIDGEN_DEVICE Spatial<T> to_ancestor(const Placement<T>& X, const Spatial<T>& F) {
    const T linear_x = fma(X.E.x.z, F.linear.z, fma(X.E.x.y, F.linear.y, X.E.x.x * F.linear.x));
    const T linear_y = fma(X.E.y.z, F.linear.z, fma(X.E.y.y, F.linear.y, X.E.y.x * F.linear.x));
    const T linear_z = fma(X.E.z.z, F.linear.z, fma(X.E.z.y, F.linear.y, X.E.z.x * F.linear.x));
    const T angular_x = fma(X.E.x.z, F.angular.z, fma(X.E.x.y, F.angular.y, fma(X.E.x.x,
        F.angular.x, fma(-X.r.z, linear_y, X.r.y * linear_z))));
    const T angular_y = fma(X.E.y.z, F.angular.z, fma(X.E.y.y, F.angular.y, fma(X.E.y.x,
        F.angular.x, fma(-X.r.x, linear_z, X.r.z * linear_x))));
    const T angular_z = fma(X.E.z.z, F.angular.z, fma(X.E.z.y, F.angular.y, fma(X.E.z.x,
        F.angular.x, fma(-X.r.y, linear_x, X.r.x * linear_y))));
    return {{linear_x, linear_y, linear_z}, {angular_x, angular_y, angular_z}};
}

// J V: the momentum of a motion, or the wrench that produces an acceleration from rest.
template <class T>
GRIDGEN_DEVICE Spatial<T> wrench(const Mass<T>& J, const Spatial<T>& V) {
    const T linear_x = fma(-J.h.y, V.angular.z, fma(J.h.z, V.angular.y, J.m * V.linear.x));
    const T linear_y = fma(-J.h.z, V.angular.x, fma(J.h.x, V.angular.z, J.m * V.linear.y));
    const T linear_z = fma(-J.h.x, V.angular.y, fma(J.h.y, V.angular.x, J.m * V.linear.z));
    const T angular_x = fma(-J.h.z, V.linear.y, fma(J.h.y, V.linear.z, fma(J.I.xz, V.angular.z,
        fma(J.I.xy, V.angular.y, J.I.xx * V.angular.x))));
    const T angular_y = fma(-J.h.x, V.linear.z, fma(J.h.z, V.linear.x, fma(J.I.yz, V.angular.z,
        fma(J.I.yy, V.angular.y, J.I.xy * V.angular.x))));
    const T angular_z = fma(-J.h.y, V.linear.x, fma(J.h.x, V.linear.y, fma(J.I.zz, V.angular.z,
        fma(J.I.yz, V.angular.y, J.I.xz * V.angular.x))));
    return {{linear_x, linear_y, linear_z}, {angular_x, angular_y, angular_z}};
}

// J A - ad_V^T (J V): the wrench of a motion (Yang, Wu, Pan, prefix sums, eq. 2).
template <class T>
GRIDGEN_DEVICE Spatial<T> motion_wrench(const Mass<T>& J, const Spatial<T>& V, const Spatial<T>& A)
    {
    const T t0 = fma(-J.h.y, V.angular.z, fma(J.h.z, V.angular.y, J.m * V.linear.x));
    const T t1 = fma(-J.h.z, V.angular.x, fma(J.h.x, V.angular.z, J.m * V.linear.y));
    const T t2 = fma(-J.h.x, V.angular.y, fma(J.h.y, V.angular.x, J.m * V.linear.z));
    const T t3 = fma(-J.h.z, V.linear.y, fma(J.h.y, V.linear.z, fma(J.I.xz, V.angular.z, fma(J.I.xy,
        V.angular.y, J.I.xx * V.angular.x))));
    const T t4 = fma(-J.h.x, V.linear.z, fma(J.h.z, V.linear.x, fma(J.I.yz, V.angular.z, fma(J.I.yy,
        V.angular.y, J.I.xy * V.angular.x))));
    const T t5 = fma(-J.h.y, V.linear.x, fma(J.h.x, V.linear.y, fma(J.I.zz, V.angular.z, fma(J.I.yz,
        V.angular.y, J.I.xz * V.angular.x))));
    const T linear_x = fma(-V.angular.z, t1, fma(V.angular.y, t2, fma(-J.h.y, A.angular.z,
        fma(J.h.z, A.angular.y, J.m * A.linear.x))));
    const T linear_y = fma(-V.angular.x, t2, fma(V.angular.z, t0, fma(-J.h.z, A.angular.x,
        fma(J.h.x, A.angular.z, J.m * A.linear.y))));
    const T linear_z = fma(-V.angular.y, t0, fma(V.angular.x, t1, fma(-J.h.x, A.angular.y,
        fma(J.h.y, A.angular.x, J.m * A.linear.z))));
    const T angular_x = fma(-V.linear.z, t1, fma(V.linear.y, t2, fma(-V.angular.z, t4,
        fma(V.angular.y, t5, fma(-J.h.z, A.linear.y, fma(J.h.y, A.linear.z, fma(J.I.xz, A.angular.z,
        fma(J.I.xy, A.angular.y, J.I.xx * A.angular.x))))))));
    const T angular_y = fma(-V.linear.x, t2, fma(V.linear.z, t0, fma(-V.angular.x, t5,
        fma(V.angular.z, t3, fma(-J.h.x, A.linear.z, fma(J.h.z, A.linear.x, fma(J.I.yz, A.angular.z,
        fma(J.I.yy, A.angular.y, J.I.xy * A.angular.x))))))));
    const T angular_z = fma(-V.linear.y, t0, fma(V.linear.x, t1, fma(-V.angular.y, t3,
        fma(V.angular.x, t4, fma(-J.h.y, A.linear.x, fma(J.h.x, A.linear.y, fma(J.I.zz, A.angular.z,
        fma(J.I.yz, A.angular.y, J.I.xz * A.angular.x))))))));
    return {{linear_x, linear_y, linear_z}, {angular_x, angular_y, angular_z}};
}

// The mass of a body about the ancestor's origin.
template <class T>
GRIDGEN_DEVICE Mass<T> to_ancestor(const Placement<T>& X, const Mass<T>& J) {
    const T t0 = fma(X.E.x.z, J.h.z, fma(X.E.x.y, J.h.y, X.E.x.x * J.h.x));
    const T t1 = fma(X.E.y.z, J.h.z, fma(X.E.y.y, J.h.y, X.E.y.x * J.h.x));
    const T t2 = fma(X.E.z.z, J.h.z, fma(X.E.z.y, J.h.y, X.E.z.x * J.h.x));
    const T t3 = fma(X.E.x.z, J.I.xz, fma(X.E.x.y, J.I.xy, X.E.x.x * J.I.xx));
    const T t4 = fma(X.E.x.z, J.I.yz, fma(X.E.x.y, J.I.yy, X.E.x.x * J.I.xy));
    const T t5 = fma(X.E.x.z, J.I.zz, fma(X.E.x.y, J.I.yz, X.E.x.x * J.I.xz));
    const T t6 = fma(X.E.y.z, J.I.xz, fma(X.E.y.y, J.I.xy, X.E.y.x * J.I.xx));
    const T t7 = fma(X.E.y.z, J.I.yz, fma(X.E.y.y, J.I.yy, X.E.y.x * J.I.xy));
    const T t8 = fma(X.E.y.z, J.I.zz, fma(X.E.y.y, J.I.yz, X.E.y.x * J.I.xz));
    const T h_x = fma(X.r.x, J.m, t0);
    const T h_y = fma(X.r.y, J.m, t1);
    const T h_z = fma(X.r.z, J.m, t2);
    const T t9 = t0 + h_x;
    const T t10 = t1 + h_y;
    const T t11 = t2 + h_z;
    const T I_xx = fma(X.r.z, t11, fma(X.r.y, t10, fma(X.E.x.z, t5, fma(X.E.x.y, t4, X.E.x.x *
        t3))));
    const T I_xy = fma(-X.r.x, h_y, fma(-X.r.y, t0, fma(X.E.y.z, t5, fma(X.E.y.y, t4, X.E.y.x *
        t3))));
    const T I_xz = fma(-X.r.x, h_z, fma(-X.r.z, t0, fma(X.E.z.z, t5, fma(X.E.z.y, t4, X.E.z.x *
        t3))));
    const T I_yy = fma(X.r.z, t11, fma(X.r.x, t9, fma(X.E.y.z, t8, fma(X.E.y.y, t7, X.E.y.x *
        t6))));
    const T I_yz = fma(-X.r.y, h_z, fma(-X.r.z, t1, fma(X.E.z.z, t8, fma(X.E.z.y, t7, X.E.z.x *
        t6))));
    const T I_zz = fma(X.r.y, t10, fma(X.r.x, t9, fma(X.E.z.z, fma(X.E.z.z, J.I.zz, fma(X.E.z.y,
        J.I.yz, X.E.z.x * J.I.xz)), fma(X.E.z.y, fma(X.E.z.z, J.I.yz, fma(X.E.z.y, J.I.yy, X.E.z.x *
        J.I.xy)), X.E.z.x * fma(X.E.z.z, J.I.xz, fma(X.E.z.y, J.I.xy, X.E.z.x * J.I.xx))))));
    return {J.m, {h_x, h_y, h_z}, {I_xx, I_xy, I_xz, I_yy, I_yz, I_zz}};
}

// J^-1 F
template <class T>
GRIDGEN_DEVICE Spatial<T> accelerate(const Mobility<T>& link, const Spatial<T>& F) {
    const T t0 = fma(link.center.z, F.linear.y, fma(-link.center.y, F.linear.z, F.angular.x));
    const T t1 = fma(link.center.x, F.linear.z, fma(-link.center.z, F.linear.x, F.angular.y));
    const T t2 = fma(link.center.y, F.linear.x, fma(-link.center.x, F.linear.y, F.angular.z));
    const T angular_x = fma(link.inverse_inertia.xz, t2, fma(link.inverse_inertia.xy, t1,
        link.inverse_inertia.xx * t0));
    const T angular_y = fma(link.inverse_inertia.yz, t2, fma(link.inverse_inertia.yy, t1,
        link.inverse_inertia.xy * t0));
    const T angular_z = fma(link.inverse_inertia.zz, t2, fma(link.inverse_inertia.yz, t1,
        link.inverse_inertia.xz * t0));
    const T linear_x = fma(-link.center.z, angular_y, fma(link.center.y, angular_z,
        link.inverse_mass * F.linear.x));
    const T linear_y = fma(-link.center.x, angular_z, fma(link.center.z, angular_x,
        link.inverse_mass * F.linear.y));
    const T linear_z = fma(-link.center.y, angular_x, fma(link.center.x, angular_y,
        link.inverse_mass * F.linear.z));
    return {{linear_x, linear_y, linear_z}, {angular_x, angular_y, angular_z}};
}

// The inverse of a body's inertia.
template <class T>
GRIDGEN_DEVICE Mobility<T> mobility(const Mass<T>& J) {
    const T inverse_mass = T(1) / J.m;
    const T center_x = product(J.h.x, inverse_mass);
    const T center_y = product(J.h.y, inverse_mass);
    const T center_z = product(J.h.z, inverse_mass);
    const T t0 = fma(-J.h.z, center_z, fma(-J.h.y, center_y, J.I.xx));
    const T t1 = fma(-J.h.x, center_x, fma(-J.h.z, center_z, J.I.yy));
    const T t2 = fma(-J.h.x, center_x, fma(-J.h.y, center_y, J.I.zz));
    const T t3 = fma(J.h.y, center_x, J.I.xy);
    const T t4 = fma(J.h.z, center_x, J.I.xz);
    const T t5 = fma(J.h.z, center_y, J.I.yz);
    const T t6 = fma(-t5, t5, t1 * t2);
    const T t7 = fma(-t2, t3, t4 * t5);
    const T t8 = fma(-t1, t4, t3 * t5);
    const T t9 = T(1) / fma(t4, t8, fma(t3, t7, t0 * t6));
    const T inverse_inertia_xx = product(t6, t9);
    const T inverse_inertia_xy = product(t7, t9);
    const T inverse_inertia_xz = product(t8, t9);
    const T inverse_inertia_yy = product(fma(-t4, t4, t0 * t2), t9);
    const T inverse_inertia_yz = product(fma(-t0, t5, t3 * t4), t9);
    const T inverse_inertia_zz = product(fma(-t3, t3, t0 * t1), t9);
    return {inverse_mass, {center_x, center_y, center_z}, {inverse_inertia_xx, inverse_inertia_xy,
        inverse_inertia_xz, inverse_inertia_yy, inverse_inertia_yz, inverse_inertia_zz}};
}

// The articulated-body inertia of a body without children.
template <class T>
GRIDGEN_DEVICE Articulated<T> articulated(const Mass<T>& J) {
    return {{J.m, T(0), T(0), J.m, T(0), J.m}, {{T(0), J.h.z, -J.h.y}, {-J.h.z, T(0), J.h.x},
        {J.h.y, -J.h.x, T(0)}}, {J.I.xx, J.I.xy, J.I.xz, J.I.yy, J.I.yz, J.I.zz}};
}

// The inertia of a body in the frame of an ancestor.
template <class T>
GRIDGEN_DEVICE Articulated<T> to_ancestor(const Placement<T>& X, const Articulated<T>& A) {
    const T t0 = fma(X.E.x.z, A.M.xz, fma(X.E.x.y, A.M.xy, X.E.x.x * A.M.xx));
    const T t1 = fma(X.E.x.z, A.M.yz, fma(X.E.x.y, A.M.yy, X.E.x.x * A.M.xy));
    const T t2 = fma(X.E.x.z, A.M.zz, fma(X.E.x.y, A.M.yz, X.E.x.x * A.M.xz));
    const T t3 = fma(X.E.y.z, A.M.xz, fma(X.E.y.y, A.M.xy, X.E.y.x * A.M.xx));
    const T t4 = fma(X.E.y.z, A.M.yz, fma(X.E.y.y, A.M.yy, X.E.y.x * A.M.xy));
    const T t5 = fma(X.E.y.z, A.M.zz, fma(X.E.y.y, A.M.yz, X.E.y.x * A.M.xz));
    const T M_xx = fma(X.E.x.z, t2, fma(X.E.x.y, t1, X.E.x.x * t0));
    const T M_xy = fma(X.E.y.z, t2, fma(X.E.y.y, t1, X.E.y.x * t0));
    const T M_xz = fma(X.E.z.z, t2, fma(X.E.z.y, t1, X.E.z.x * t0));
    const T M_yy = fma(X.E.y.z, t5, fma(X.E.y.y, t4, X.E.y.x * t3));
    const T M_yz = fma(X.E.z.z, t5, fma(X.E.z.y, t4, X.E.z.x * t3));
    const T M_zz = fma(X.E.z.z, fma(X.E.z.z, A.M.zz, fma(X.E.z.y, A.M.yz, X.E.z.x * A.M.xz)),
        fma(X.E.z.y, fma(X.E.z.z, A.M.yz, fma(X.E.z.y, A.M.yy, X.E.z.x * A.M.xy)), X.E.z.x *
        fma(X.E.z.z, A.M.xz, fma(X.E.z.y, A.M.xy, X.E.z.x * A.M.xx))));
    const T t6 = fma(X.E.x.z, A.H.z.x, fma(X.E.x.y, A.H.y.x, X.E.x.x * A.H.x.x));
    const T t7 = fma(X.E.x.z, A.H.z.y, fma(X.E.x.y, A.H.y.y, X.E.x.x * A.H.x.y));
    const T t8 = fma(X.E.x.z, A.H.z.z, fma(X.E.x.y, A.H.y.z, X.E.x.x * A.H.x.z));
    const T t9 = fma(X.E.y.z, A.H.z.x, fma(X.E.y.y, A.H.y.x, X.E.y.x * A.H.x.x));
    const T t10 = fma(X.E.y.z, A.H.z.y, fma(X.E.y.y, A.H.y.y, X.E.y.x * A.H.x.y));
    const T t11 = fma(X.E.y.z, A.H.z.z, fma(X.E.y.y, A.H.y.z, X.E.y.x * A.H.x.z));
    const T t12 = fma(X.E.z.z, A.H.z.x, fma(X.E.z.y, A.H.y.x, X.E.z.x * A.H.x.x));
    const T t13 = fma(X.E.z.z, A.H.z.y, fma(X.E.z.y, A.H.y.y, X.E.z.x * A.H.x.y));
    const T t14 = fma(X.E.z.z, A.H.z.z, fma(X.E.z.y, A.H.y.z, X.E.z.x * A.H.x.z));
    const T t15 = fma(X.E.x.z, t8, fma(X.E.x.y, t7, X.E.x.x * t6));
    const T t16 = fma(X.E.y.z, t8, fma(X.E.y.y, t7, X.E.y.x * t6));
    const T t17 = fma(X.E.z.z, t8, fma(X.E.z.y, t7, X.E.z.x * t6));
    const T t18 = fma(X.E.x.z, t11, fma(X.E.x.y, t10, X.E.x.x * t9));
    const T t19 = fma(X.E.y.z, t11, fma(X.E.y.y, t10, X.E.y.x * t9));
    const T t20 = fma(X.E.z.z, t11, fma(X.E.z.y, t10, X.E.z.x * t9));
    const T t21 = fma(X.E.x.z, t14, fma(X.E.x.y, t13, X.E.x.x * t12));
    const T t22 = fma(X.E.y.z, t14, fma(X.E.y.y, t13, X.E.y.x * t12));
    const T t23 = fma(X.E.x.z, A.I.xz, fma(X.E.x.y, A.I.xy, X.E.x.x * A.I.xx));
    const T t24 = fma(X.E.x.z, A.I.yz, fma(X.E.x.y, A.I.yy, X.E.x.x * A.I.xy));
    const T t25 = fma(X.E.x.z, A.I.zz, fma(X.E.x.y, A.I.yz, X.E.x.x * A.I.xz));
    const T t26 = fma(X.E.y.z, A.I.xz, fma(X.E.y.y, A.I.xy, X.E.y.x * A.I.xx));
    const T t27 = fma(X.E.y.z, A.I.yz, fma(X.E.y.y, A.I.yy, X.E.y.x * A.I.xy));
    const T t28 = fma(X.E.y.z, A.I.zz, fma(X.E.y.y, A.I.yz, X.E.y.x * A.I.xz));
    const T H_x_x = fma(X.r.y, M_xz, fma(-X.r.z, M_xy, t15));
    const T H_x_y = fma(X.r.z, M_xx, fma(-X.r.x, M_xz, t16));
    const T H_x_z = fma(X.r.x, M_xy, fma(-X.r.y, M_xx, t17));
    const T H_y_x = fma(X.r.y, M_yz, fma(-X.r.z, M_yy, t18));
    const T H_y_y = fma(-X.r.x, M_yz, fma(X.r.z, M_xy, t19));
    const T H_y_z = fma(X.r.x, M_yy, fma(-X.r.y, M_xy, t20));
    const T H_z_x = fma(X.r.y, M_zz, fma(-X.r.z, M_yz, t21));
    const T H_z_y = fma(X.r.z, M_xz, fma(-X.r.x, M_zz, t22));
    const T H_z_z = fma(X.r.x, M_yz, fma(-X.r.y, M_xz, fma(X.E.z.z, t14, fma(X.E.z.y, t13, X.E.z.x *
        t12))));
    const T I_xx = fma(-X.r.z, H_y_x, fma(X.r.y, H_z_x, fma(-X.r.z, t18, fma(X.r.y, t21,
        fma(X.E.x.z, t25, fma(X.E.x.y, t24, X.E.x.x * t23))))));
    const T I_xy = fma(-X.r.z, H_y_y, fma(X.r.y, H_z_y, fma(-X.r.x, t21, fma(X.r.z, t15,
        fma(X.E.y.z, t25, fma(X.E.y.y, t24, X.E.y.x * t23))))));
    const T I_xz = fma(-X.r.z, H_y_z, fma(X.r.y, H_z_z, fma(-X.r.y, t15, fma(X.r.x, t18,
        fma(X.E.z.z, t25, fma(X.E.z.y, t24, X.E.z.x * t23))))));
    const T I_yy = fma(-X.r.x, H_z_y, fma(X.r.z, H_x_y, fma(-X.r.x, t22, fma(X.r.z, t16,
        fma(X.E.y.z, t28, fma(X.E.y.y, t27, X.E.y.x * t26))))));
    const T I_yz = fma(-X.r.x, H_z_z, fma(X.r.z, H_x_z, fma(-X.r.y, t16, fma(X.r.x, t19,
        fma(X.E.z.z, t28, fma(X.E.z.y, t27, X.E.z.x * t26))))));
    const T I_zz = fma(-X.r.y, H_x_z, fma(X.r.x, H_y_z, fma(-X.r.y, t17, fma(X.r.x, t20,
        fma(X.E.z.z, fma(X.E.z.z, A.I.zz, fma(X.E.z.y, A.I.yz, X.E.z.x * A.I.xz)), fma(X.E.z.y,
        fma(X.E.z.z, A.I.yz, fma(X.E.z.y, A.I.yy, X.E.z.x * A.I.xy)), X.E.z.x * fma(X.E.z.z, A.I.xz,
        fma(X.E.z.y, A.I.xy, X.E.z.x * A.I.xx))))))));
    return {{M_xx, M_xy, M_xz, M_yy, M_yz, M_zz}, {{H_x_x, H_x_y, H_x_z}, {H_y_x, H_y_y, H_y_z},
        {H_z_x, H_z_y, H_z_z}}, {I_xx, I_xy, I_xz, I_yy, I_yz, I_zz}};
}

// The inertia propagated across a joint: A - U gain^T (prefix sums eq. 7).
template <class T>
GRIDGEN_DEVICE Articulated<T> across_joint(const Articulated<T>& A, const Spatial<T>& U, const
    Spatial<T>& gain) {
    const T M_xx = fma(-U.linear.x, gain.linear.x, A.M.xx);
    const T M_xy = fma(-U.linear.x, gain.linear.y, A.M.xy);
    const T M_xz = fma(-U.linear.x, gain.linear.z, A.M.xz);
    const T M_yy = fma(-U.linear.y, gain.linear.y, A.M.yy);
    const T M_yz = fma(-U.linear.y, gain.linear.z, A.M.yz);
    const T M_zz = fma(-U.linear.z, gain.linear.z, A.M.zz);
    const T I_xx = fma(-U.angular.x, gain.angular.x, A.I.xx);
    const T I_xy = fma(-U.angular.x, gain.angular.y, A.I.xy);
    const T I_xz = fma(-U.angular.x, gain.angular.z, A.I.xz);
    const T I_yy = fma(-U.angular.y, gain.angular.y, A.I.yy);
    const T I_yz = fma(-U.angular.y, gain.angular.z, A.I.yz);
    const T I_zz = fma(-U.angular.z, gain.angular.z, A.I.zz);
    const T H_x_x = fma(-U.linear.x, gain.angular.x, A.H.x.x);
    const T H_x_y = fma(-U.linear.x, gain.angular.y, A.H.x.y);
    const T H_x_z = fma(-U.linear.x, gain.angular.z, A.H.x.z);
    const T H_y_x = fma(-U.linear.y, gain.angular.x, A.H.y.x);
    const T H_y_y = fma(-U.linear.y, gain.angular.y, A.H.y.y);
    const T H_y_z = fma(-U.linear.y, gain.angular.z, A.H.y.z);
    const T H_z_x = fma(-U.linear.z, gain.angular.x, A.H.z.x);
    const T H_z_y = fma(-U.linear.z, gain.angular.y, A.H.z.y);
    const T H_z_z = fma(-U.linear.z, gain.angular.z, A.H.z.z);
    return {{M_xx, M_xy, M_xz, M_yy, M_yz, M_zz}, {{H_x_x, H_x_y, H_x_z}, {H_y_x, H_y_y, H_y_z},
        {H_z_x, H_z_y, H_z_z}}, {I_xx, I_xy, I_xz, I_yy, I_yz, I_zz}};
}

// The same across a free joint with armature.
template <class T>
GRIDGEN_DEVICE Articulated<T> let_go(const Articulated<T>& A, const Spatial<T>& armature) {
    const T t0 = T(1) / (A.I.zz + armature.angular.z);
    const T t1 = product(A.I.yz, t0);
    const T t2 = fma(-A.I.xz, t1, A.I.xy);
    const T t3 = fma(-A.H.z.z, t1, A.H.z.y);
    const T t4 = fma(-A.H.y.z, t1, A.H.y.y);
    const T t5 = fma(-A.H.x.z, t1, A.H.x.y);
    const T t6 = product(A.I.xz, t0);
    const T t7 = product(A.H.z.z, t0);
    const T t8 = product(A.H.y.z, t0);
    const T t9 = product(A.H.x.z, t0);
    const T t10 = T(1) / fma(-A.I.yz, t1, A.I.yy + armature.angular.y);
    const T t11 = product(t2, t10);
    const T t12 = fma(-t3, t11, fma(-A.H.z.z, t6, A.H.z.x));
    const T t13 = fma(-t4, t11, fma(-A.H.y.z, t6, A.H.y.x));
    const T t14 = fma(-t5, t11, fma(-A.H.x.z, t6, A.H.x.x));
    const T t15 = product(t3, t10);
    const T t16 = product(t4, t10);
    const T t17 = product(t5, t10);
    const T t18 = T(1) / fma(-t2, t11, fma(-A.I.xz, t6, A.I.xx + armature.angular.x));
    const T t19 = product(t12, t18);
    const T t20 = fma(-t13, t19, fma(-t4, t15, fma(-A.H.y.z, t7, A.M.yz)));
    const T t21 = fma(-t14, t19, fma(-t5, t15, fma(-A.H.x.z, t7, A.M.xz)));
    const T t22 = product(t13, t18);
    const T t23 = product(t14, t18);
    const T t24 = T(1) / fma(-t12, t19, fma(-t3, t15, fma(-A.H.z.z, t7, A.M.zz +
        armature.linear.z)));
    const T t25 = product(t20, t24);
    const T t26 = fma(-t21, t25, fma(-t14, t22, fma(-t5, t16, fma(-A.H.x.z, t8, A.M.xy))));
    const T t27 = product(t21, t24);
    const T t28 = T(1) / fma(-t20, t25, fma(-t13, t22, fma(-t4, t16, fma(-A.H.y.z, t8, A.M.yy +
        armature.linear.y))));
    const T t29 = product(t26, t28);
    const T t30 = T(1) / fma(-t26, t29, fma(-t21, t27, fma(-t14, t23, fma(-t5, t17, fma(-A.H.x.z,
        t9, A.M.xx + armature.linear.x)))));
    const T t31 = product(t29, t30);
    const T t32 = fma(-t27, t30, t25 * t31);
    const T t33 = fma(-t23, t30, fma(t22, t31, -(t19 * t32)));
    const T t34 = fma(-t17, t30, fma(t16, t31, fma(-t15, t32, -(t11 * t33))));
    const T t35 = fma(-t9, t30, fma(t8, t31, fma(-t7, t32, fma(-t6, t33, -(t1 * t34)))));
    const T t36 = fma(t29, t31, t28);
    const T t37 = fma(t27, t31, -(t25 * t36));
    const T t38 = fma(t23, t31, fma(-t22, t36, -(t19 * t37)));
    const T t39 = fma(t17, t31, fma(-t16, t36, fma(-t15, t37, -(t11 * t38))));
    const T t40 = fma(t9, t31, fma(-t8, t36, fma(-t7, t37, fma(-t6, t38, -(t1 * t39)))));
    const T t41 = product(t30, fma(t25, t29, -t27));
    const T t42 = fma(t29, t41, t25 * t28);
    const T t43 = fma(-t27, t41, fma(t25, t42, t24));
    const T t44 = fma(-t23, t41, fma(t22, t42, -(t19 * t43)));
    const T t45 = fma(-t17, t41, fma(t16, t42, fma(-t15, t43, -(t11 * t44))));
    const T t46 = fma(-t9, t41, fma(t8, t42, fma(-t7, t43, fma(-t6, t44, -(t1 * t45)))));
    const T t47 = fma(t19, t25, -t22);
    const T t48 = product(t30, fma(-t29, t47, fma(t19, t27, -t23)));
    const T t49 = fma(-t29, t48, t28 * t47);
    const T t50 = fma(t27, t48, fma(t25, t49, t19 * t24));
    const T t51 = fma(-t23, t48, fma(-t22, t49, fma(t19, t50, t18)));
    const T t52 = fma(-t17, t48, fma(-t16, t49, fma(t15, t50, -(t11 * t51))));
    const T t53 = fma(-t9, t48, fma(-t8, t49, fma(t7, t50, fma(-t6, t51, -(t1 * t52)))));
    const T t54 = fma(t11, t19, -t15);
    const T t55 = fma(-t25, t54, fma(t11, t22, -t16));
    const T t56 = product(t30, fma(-t29, t55, fma(-t27, t54, fma(t11, t23, -t17))));
    const T t57 = fma(-t29, t56, t28 * t55);
    const T t58 = fma(-t27, t56, fma(-t25, t57, t24 * t54));
    const T t59 = fma(t23, t56, fma(t22, t57, fma(t19, t58, t11 * t18)));
    const T t60 = fma(-t17, t56, fma(-t16, t57, fma(-t15, t58, fma(t11, t59, t10))));
    const T t61 = fma(-t9, t56, fma(-t8, t57, fma(-t7, t58, fma(t6, t59, -(t1 * t60)))));
    const T t62 = fma(t1, t11, -t6);
    const T t63 = fma(-t19, t62, fma(t1, t15, -t7));
    const T t64 = fma(-t25, t63, fma(-t22, t62, fma(t1, t16, -t8)));
    const T t65 = product(t30, fma(-t29, t64, fma(-t27, t63, fma(-t23, t62, fma(t1, t17, -t9)))));
    const T t66 = fma(-t29, t65, t28 * t64);
    const T t67 = fma(-t27, t65, fma(-t25, t66, t24 * t63));
    const T t68 = fma(-t23, t65, fma(-t22, t66, fma(-t19, t67, t18 * t62)));
    const T t69 = fma(t17, t65, fma(t16, t66, fma(t15, t67, fma(t11, t68, t1 * t10))));
    const T M_xx = product(armature.linear.x, fma(A.H.x.z, t35, fma(A.H.x.y, t34, fma(A.H.x.x, t33,
        fma(A.M.xz, t32, fma(-A.M.xy, t31, A.M.xx * t30))))));
    const T M_xy = product(t31, product(armature.linear.x, armature.linear.y));
    const T M_xz = -product(t32, product(armature.linear.x, armature.linear.z));
    const T M_yy = product(armature.linear.y, fma(A.H.y.z, t40, fma(A.H.y.y, t39, fma(A.H.y.x, t38,
        fma(A.M.yz, t37, fma(A.M.yy, t36, -(A.M.xy * t31)))))));
    const T M_yz = -product(t37, product(armature.linear.y, armature.linear.z));
    const T M_zz = product(armature.linear.z, fma(A.H.z.z, t46, fma(A.H.z.y, t45, fma(A.H.z.x, t44,
        fma(A.M.zz, t43, fma(-A.M.yz, t42, A.M.xz * t41))))));
    const T I_xx = product(armature.angular.x, fma(A.I.xz, t53, fma(A.I.xy, t52, fma(A.I.xx, t51,
        fma(-A.H.z.x, t50, fma(A.H.y.x, t49, A.H.x.x * t48))))));
    const T I_xy = -product(t52, product(armature.angular.x, armature.angular.y));
    const T I_xz = -product(t53, product(armature.angular.x, armature.angular.z));
    const T I_yy = product(armature.angular.y, fma(A.I.yz, t61, fma(A.I.yy, t60, fma(-A.I.xy, t59,
        fma(A.H.z.y, t58, fma(A.H.y.y, t57, A.H.x.y * t56))))));
    const T I_yz = -product(t61, product(armature.angular.y, armature.angular.z));
    const T I_zz = product(armature.angular.z, fma(A.I.zz, fma(-t9, t65, fma(-t8, t66, fma(-t7, t67,
        fma(-t6, t68, fma(t1, t69, t0))))), fma(-A.I.yz, t69, fma(A.I.xz, t68, fma(A.H.z.z, t67,
        fma(A.H.y.z, t66, A.H.x.z * t65))))));
    const T H_x_x = -product(t33, product(armature.linear.x, armature.angular.x));
    const T H_x_y = -product(t34, product(armature.linear.x, armature.angular.y));
    const T H_x_z = -product(t35, product(armature.linear.x, armature.angular.z));
    const T H_y_x = -product(t38, product(armature.linear.y, armature.angular.x));
    const T H_y_y = -product(t39, product(armature.linear.y, armature.angular.y));
    const T H_y_z = -product(t40, product(armature.linear.y, armature.angular.z));
    const T H_z_x = -product(t44, product(armature.linear.z, armature.angular.x));
    const T H_z_y = -product(t45, product(armature.linear.z, armature.angular.y));
    const T H_z_z = -product(t46, product(armature.linear.z, armature.angular.z));
    return {{M_xx, M_xy, M_xz, M_yy, M_yz, M_zz}, {{H_x_x, H_x_y, H_x_z}, {H_y_x, H_y_y, H_y_z},
        {H_z_x, H_z_y, H_z_z}}, {I_xx, I_xy, I_xz, I_yy, I_yz, I_zz}};
}

// The acceleration x of a free body: (A + diag(armature)) x = b.
template <class T>
GRIDGEN_DEVICE Spatial<T> solve(const Articulated<T>& A, const Spatial<T>& armature, const
    Spatial<T>& b) {
    const T t0 = T(1) / (A.I.zz + armature.angular.z);
    const T t1 = product(A.I.yz, t0);
    const T t2 = fma(-A.I.xz, t1, A.I.xy);
    const T t3 = fma(-A.H.z.z, t1, A.H.z.y);
    const T t4 = fma(-A.H.y.z, t1, A.H.y.y);
    const T t5 = fma(-A.H.x.z, t1, A.H.x.y);
    const T t6 = product(A.I.xz, t0);
    const T t7 = product(A.H.z.z, t0);
    const T t8 = product(A.H.y.z, t0);
    const T t9 = product(A.H.x.z, t0);
    const T t10 = T(1) / fma(-A.I.yz, t1, A.I.yy + armature.angular.y);
    const T t11 = product(t2, t10);
    const T t12 = fma(-t3, t11, fma(-A.H.z.z, t6, A.H.z.x));
    const T t13 = fma(-t4, t11, fma(-A.H.y.z, t6, A.H.y.x));
    const T t14 = fma(-t5, t11, fma(-A.H.x.z, t6, A.H.x.x));
    const T t15 = product(t3, t10);
    const T t16 = product(t4, t10);
    const T t17 = product(t5, t10);
    const T t18 = T(1) / fma(-t2, t11, fma(-A.I.xz, t6, A.I.xx + armature.angular.x));
    const T t19 = product(t12, t18);
    const T t20 = fma(-t13, t19, fma(-t4, t15, fma(-A.H.y.z, t7, A.M.yz)));
    const T t21 = fma(-t14, t19, fma(-t5, t15, fma(-A.H.x.z, t7, A.M.xz)));
    const T t22 = product(t13, t18);
    const T t23 = product(t14, t18);
    const T t24 = T(1) / fma(-t12, t19, fma(-t3, t15, fma(-A.H.z.z, t7, A.M.zz +
        armature.linear.z)));
    const T t25 = product(t20, t24);
    const T t26 = fma(-t21, t25, fma(-t14, t22, fma(-t5, t16, fma(-A.H.x.z, t8, A.M.xy))));
    const T t27 = product(t21, t24);
    const T t28 = T(1) / fma(-t20, t25, fma(-t13, t22, fma(-t4, t16, fma(-A.H.y.z, t8, A.M.yy +
        armature.linear.y))));
    const T t29 = product(t26, t28);
    const T t30 = fma(-b.angular.z, t1, b.angular.y);
    const T t31 = fma(-t11, t30, fma(-b.angular.z, t6, b.angular.x));
    const T t32 = fma(-t19, t31, fma(-t15, t30, fma(-b.angular.z, t7, b.linear.z)));
    const T t33 = fma(-t25, t32, fma(-t22, t31, fma(-t16, t30, fma(-b.angular.z, t8, b.linear.y))));
    const T linear_x = product(T(1) / fma(-t26, t29, fma(-t21, t27, fma(-t14, t23, fma(-t5, t17,
        fma(-A.H.x.z, t9, A.M.xx + armature.linear.x))))), fma(-t29, t33, fma(-t27, t32, fma(-t23,
        t31, fma(-t17, t30, fma(-b.angular.z, t9, b.linear.x))))));
    const T linear_y = fma(-t29, linear_x, t28 * t33);
    const T linear_z = fma(-t27, linear_x, fma(-t25, linear_y, t24 * t32));
    const T angular_x = fma(-t23, linear_x, fma(-t22, linear_y, fma(-t19, linear_z, t18 * t31)));
    const T angular_y = fma(-t17, linear_x, fma(-t16, linear_y, fma(-t15, linear_z, fma(-t11,
        angular_x, t10 * t30))));
    const T angular_z = fma(-t9, linear_x, fma(-t8, linear_y, fma(-t7, linear_z, fma(-t6, angular_x,
        fma(-t1, angular_y, b.angular.z * t0)))));
    return {{linear_x, linear_y, linear_z}, {angular_x, angular_y, angular_z}};
}

// [r] E: the moments about the ancestor's origin that forces along the body's axes have.
template <class T>
GRIDGEN_DEVICE Matrix<T> lever(const Placement<T>& X) {
    const T x_x = fma(-X.E.y.x, X.r.z, X.E.z.x * X.r.y);
    const T y_x = fma(-X.E.z.x, X.r.x, X.E.x.x * X.r.z);
    const T z_x = fma(-X.E.x.x, X.r.y, X.E.y.x * X.r.x);
    const T x_y = fma(-X.E.y.y, X.r.z, X.E.z.y * X.r.y);
    const T y_y = fma(-X.E.z.y, X.r.x, X.E.x.y * X.r.z);
    const T z_y = fma(-X.E.x.y, X.r.y, X.E.y.y * X.r.x);
    const T x_z = fma(-X.E.y.z, X.r.z, X.E.z.z * X.r.y);
    const T y_z = fma(-X.E.z.z, X.r.x, X.E.x.z * X.r.z);
    const T z_z = fma(-X.E.x.z, X.r.y, X.E.y.z * X.r.x);
    return {{x_x, x_y, x_z}, {y_x, y_y, y_z}, {z_x, z_y, z_z}};
}

// Twice the velocity of the body's origin relative to a parent of angular velocity w.
template <class T>
GRIDGEN_DEVICE Vector<T> origin_drift(const Placement<T>& X, Vector<T> w, Vector<T> slide_rate) {
    const T t0 = product(T(2), X.r.x);
    const T t1 = product(T(2), X.r.y);
    const T t2 = product(T(2), X.r.z);
    const T t3 = product(T(2), slide_rate.x);
    const T t4 = product(T(2), slide_rate.y);
    const T t5 = product(T(2), slide_rate.z);
    const T x = fma(X.E.x.z, t5, fma(X.E.x.y, t4, fma(X.E.x.x, t3, fma(-w.z, t1, w.y * t2))));
    const T y = fma(X.E.y.z, t5, fma(X.E.y.y, t4, fma(X.E.y.x, t3, fma(-w.x, t2, w.z * t0))));
    const T z = fma(X.E.z.z, t5, fma(X.E.z.y, t4, fma(X.E.z.x, t3, fma(-w.y, t0, w.x * t1))));
    return {x, y, z};
}

// Derivative of the body's motion by the velocity of its joint.
template <class T>
GRIDGEN_DEVICE MotionChange<T> change_by_velocity(const Spatial<T>& axis, const Spatial<T>& V) {
    const T t0 = product(T(2), V.angular.x);
    const T t1 = product(T(2), V.angular.y);
    const T t2 = product(T(2), V.angular.z);
    const T a_x = fma(-axis.linear.y, t2, axis.linear.z * t1);
    const T a_y = fma(-axis.linear.z, t0, axis.linear.x * t2);
    const T a_z = fma(-axis.linear.x, t1, axis.linear.y * t0);
    const T alpha_x = fma(-axis.angular.y, t2, axis.angular.z * t1);
    const T alpha_y = fma(-axis.angular.z, t0, axis.angular.x * t2);
    const T alpha_z = fma(-axis.angular.x, t1, axis.angular.y * t0);
    return {{a_x, a_y, a_z}, {alpha_x, alpha_y, alpha_z}, {axis.angular.x, axis.angular.y,
        axis.angular.z}};
}

// Derivative of the body's motion, in its own frame, by the position of its joint.
template <class T>
GRIDGEN_DEVICE MotionChange<T> change_by_position(const Spatial<T>& axis, const Spatial<T>& V, const
    Spatial<T>& A) {
    const T t0 = fma(-V.linear.y, V.angular.z, fma(V.linear.z, V.angular.y, A.linear.x));
    const T t1 = fma(-V.linear.z, V.angular.x, fma(V.linear.x, V.angular.z, A.linear.y));
    const T t2 = fma(-V.linear.x, V.angular.y, fma(V.linear.y, V.angular.x, A.linear.z));
    const T t3 = product(V.angular.x, V.angular.x);
    const T t4 = fma(V.angular.z, V.angular.z, V.angular.y * V.angular.y);
    const T t5 = fma(V.angular.x, V.angular.y, -A.angular.z);
    const T t6 = fma(V.angular.x, V.angular.z, A.angular.y);
    const T t7 = fma(V.angular.x, V.angular.y, A.angular.z);
    const T t8 = fma(V.angular.z, V.angular.z, t3);
    const T t9 = fma(V.angular.y, V.angular.z, -A.angular.x);
    const T t10 = fma(V.angular.x, V.angular.z, -A.angular.y);
    const T t11 = fma(V.angular.y, V.angular.z, A.angular.x);
    const T t12 = fma(V.angular.y, V.angular.y, t3);
    const T w_x = fma(-axis.angular.y, V.angular.z, axis.angular.z * V.angular.y);
    const T w_y = fma(-axis.angular.z, V.angular.x, axis.angular.x * V.angular.z);
    const T w_z = fma(-axis.angular.x, V.angular.y, axis.angular.y * V.angular.x);
    const T a_x = fma(-axis.angular.y, t2, fma(axis.angular.z, t1, fma(axis.linear.z, t6,
        fma(axis.linear.y, t5, -(axis.linear.x * t4)))));
    const T a_y = fma(-axis.angular.z, t0, fma(axis.angular.x, t2, fma(axis.linear.z, t9,
        fma(-axis.linear.y, t8, axis.linear.x * t7))));
    const T a_z = fma(-axis.angular.x, t1, fma(axis.angular.y, t0, fma(-axis.linear.z, t12,
        fma(axis.linear.y, t11, axis.linear.x * t10))));
    const T alpha_x = fma(axis.angular.z, t6, fma(axis.angular.y, t5, -(axis.angular.x * t4)));
    const T alpha_y = fma(axis.angular.z, t9, fma(-axis.angular.y, t8, axis.angular.x * t7));
    const T alpha_z = fma(-axis.angular.z, t12, fma(axis.angular.y, t11, axis.angular.x * t10));
    return {{a_x, a_y, a_z}, {alpha_x, alpha_y, alpha_z}, {w_x, w_y, w_z}};
}

// The change of the joint torque.
template <class T>
GRIDGEN_DEVICE T answer(const EffortRow<T>& row, const MotionChange<T>& change) {
    return fma(row.w.z, change.w.z, fma(row.w.y, change.w.y, fma(row.w.x, change.w.x,
        fma(row.alpha.z, change.alpha.z, fma(row.alpha.y, change.alpha.y, fma(row.alpha.x,
        change.alpha.x, fma(row.a.z, change.a.z, fma(row.a.y, change.a.y, row.a.x *
        change.a.x))))))));
}

// The change of a wrench that moves along with a joint's axis, in the parent's frame.
template <class T>
GRIDGEN_DEVICE Spatial<T> rotated_wrench(const Spatial<T>& axis, const Spatial<T>& F) {
    const T linear_x = fma(-axis.angular.z, F.linear.y, axis.angular.y * F.linear.z);
    const T linear_y = fma(-axis.angular.x, F.linear.z, axis.angular.z * F.linear.x);
    const T linear_z = fma(-axis.angular.y, F.linear.x, axis.angular.x * F.linear.y);
    const T angular_x = fma(-axis.linear.z, F.linear.y, fma(axis.linear.y, F.linear.z,
        fma(-axis.angular.z, F.angular.y, axis.angular.y * F.angular.z)));
    const T angular_y = fma(-axis.linear.x, F.linear.z, fma(axis.linear.z, F.linear.x,
        fma(-axis.angular.x, F.angular.z, axis.angular.z * F.angular.x)));
    const T angular_z = fma(-axis.linear.y, F.linear.x, fma(axis.linear.x, F.linear.y,
        fma(-axis.angular.y, F.angular.x, axis.angular.x * F.angular.y)));
    return {{linear_x, linear_y, linear_z}, {angular_x, angular_y, angular_z}};
}

// A body whose points move with w x x.
template <class T>
GRIDGEN_DEVICE MovingMass<T> moving(const Mass<T>& J, Vector<T> w) {
    const T t0 = J.I.yy + J.I.zz - J.I.xx;
    const T t1 = product(T(2), J.I.xy);
    const T t2 = product(T(2), J.I.xz);
    const T t3 = J.I.xx + J.I.zz - J.I.yy;
    const T t4 = product(T(2), J.I.yz);
    const T t5 = J.I.xx + J.I.yy - J.I.zz;
    const T t6 = product(T(2), J.h.x);
    const T t7 = product(T(2), J.h.y);
    const T t8 = product(T(2), J.h.z);
    const T p_x = fma(-w.z, t7, w.y * t8);
    const T p_y = fma(-w.x, t8, w.z * t6);
    const T p_z = fma(-w.y, t6, w.x * t7);
    const T t9 = product(w.y, t2);
    const T K_x_x = fma(w.z, t1, -t9);
    const T K_y_x = fma(w.x, t2, w.z * t0);
    const T K_z_x = -fma(w.y, t0, w.x * t1);
    const T K_x_y = -fma(w.z, t3, w.y * t4);
    const T K_y_y = fma(w.x, t4, -(w.z * t1));
    const T K_z_y = fma(w.y, t1, w.x * t3);
    const T K_x_z = fma(w.z, t4, w.y * t5);
    const T K_y_z = -fma(w.x, t5, w.z * t2);
    const T K_z_z = fma(-w.x, t4, t9);
    return {{J.m, {J.h.x, J.h.y, J.h.z}, {J.I.xx, J.I.xy, J.I.xz, J.I.yy, J.I.yz, J.I.zz}}, {p_x,
        p_y, p_z}, {{K_x_x, K_x_y, K_x_z}, {K_y_x, K_y_y, K_y_z}, {K_z_x, K_z_y, K_z_z}}};
}

// A subtree about the ancestor's origin, in the ancestor's frame.
template <class T>
GRIDGEN_DEVICE MovingMass<T> to_ancestor(const Placement<T>& X, Vector<T> drift, const
    MovingMass<T>& mass) {
    const T t0 = fma(X.E.x.z, mass.rest.h.z, fma(X.E.x.y, mass.rest.h.y, X.E.x.x * mass.rest.h.x));
    const T t1 = fma(X.E.y.z, mass.rest.h.z, fma(X.E.y.y, mass.rest.h.y, X.E.y.x * mass.rest.h.x));
    const T t2 = fma(X.E.z.z, mass.rest.h.z, fma(X.E.z.y, mass.rest.h.y, X.E.z.x * mass.rest.h.x));
    const T t3 = fma(X.E.x.z, mass.rest.I.xz, fma(X.E.x.y, mass.rest.I.xy, X.E.x.x *
        mass.rest.I.xx));
    const T t4 = fma(X.E.x.z, mass.rest.I.yz, fma(X.E.x.y, mass.rest.I.yy, X.E.x.x *
        mass.rest.I.xy));
    const T t5 = fma(X.E.x.z, mass.rest.I.zz, fma(X.E.x.y, mass.rest.I.yz, X.E.x.x *
        mass.rest.I.xz));
    const T t6 = fma(X.E.y.z, mass.rest.I.xz, fma(X.E.y.y, mass.rest.I.xy, X.E.y.x *
        mass.rest.I.xx));
    const T t7 = fma(X.E.y.z, mass.rest.I.yz, fma(X.E.y.y, mass.rest.I.yy, X.E.y.x *
        mass.rest.I.xy));
    const T t8 = fma(X.E.y.z, mass.rest.I.zz, fma(X.E.y.y, mass.rest.I.yz, X.E.y.x *
        mass.rest.I.xz));
    const T rest_h_x = fma(X.r.x, mass.rest.m, t0);
    const T rest_h_y = fma(X.r.y, mass.rest.m, t1);
    const T rest_h_z = fma(X.r.z, mass.rest.m, t2);
    const T t9 = t0 + rest_h_x;
    const T t10 = t1 + rest_h_y;
    const T t11 = t2 + rest_h_z;
    const T rest_I_xx = fma(X.r.z, t11, fma(X.r.y, t10, fma(X.E.x.z, t5, fma(X.E.x.y, t4, X.E.x.x *
        t3))));
    const T rest_I_xy = fma(-X.r.x, rest_h_y, fma(-X.r.y, t0, fma(X.E.y.z, t5, fma(X.E.y.y, t4,
        X.E.y.x * t3))));
    const T rest_I_xz = fma(-X.r.x, rest_h_z, fma(-X.r.z, t0, fma(X.E.z.z, t5, fma(X.E.z.y, t4,
        X.E.z.x * t3))));
    const T rest_I_yy = fma(X.r.z, t11, fma(X.r.x, t9, fma(X.E.y.z, t8, fma(X.E.y.y, t7, X.E.y.x *
        t6))));
    const T rest_I_yz = fma(-X.r.y, rest_h_z, fma(-X.r.z, t1, fma(X.E.z.z, t8, fma(X.E.z.y, t7,
        X.E.z.x * t6))));
    const T rest_I_zz = fma(X.r.y, t10, fma(X.r.x, t9, fma(X.E.z.z, fma(X.E.z.z, mass.rest.I.zz,
        fma(X.E.z.y, mass.rest.I.yz, X.E.z.x * mass.rest.I.xz)), fma(X.E.z.y, fma(X.E.z.z,
        mass.rest.I.yz, fma(X.E.z.y, mass.rest.I.yy, X.E.z.x * mass.rest.I.xy)), X.E.z.x *
        fma(X.E.z.z, mass.rest.I.xz, fma(X.E.z.y, mass.rest.I.xy, X.E.z.x * mass.rest.I.xx))))));
    const T t12 = fma(X.E.x.z, mass.p.z, fma(X.E.x.y, mass.p.y, X.E.x.x * mass.p.x));
    const T t13 = fma(X.E.y.z, mass.p.z, fma(X.E.y.y, mass.p.y, X.E.y.x * mass.p.x));
    const T t14 = fma(X.E.z.z, mass.p.z, fma(X.E.z.y, mass.p.y, X.E.z.x * mass.p.x));
    const T t15 = fma(X.E.x.z, mass.K.z.x, fma(X.E.x.y, mass.K.y.x, X.E.x.x * mass.K.x.x));
    const T t16 = fma(X.E.x.z, mass.K.z.y, fma(X.E.x.y, mass.K.y.y, X.E.x.x * mass.K.x.y));
    const T t17 = fma(X.E.x.z, mass.K.z.z, fma(X.E.x.y, mass.K.y.z, X.E.x.x * mass.K.x.z));
    const T t18 = fma(X.E.y.z, mass.K.z.x, fma(X.E.y.y, mass.K.y.x, X.E.y.x * mass.K.x.x));
    const T t19 = fma(X.E.y.z, mass.K.z.y, fma(X.E.y.y, mass.K.y.y, X.E.y.x * mass.K.x.y));
    const T t20 = fma(X.E.y.z, mass.K.z.z, fma(X.E.y.y, mass.K.y.z, X.E.y.x * mass.K.x.z));
    const T t21 = fma(X.E.z.z, mass.K.z.x, fma(X.E.z.y, mass.K.y.x, X.E.z.x * mass.K.x.x));
    const T t22 = fma(X.E.z.z, mass.K.z.y, fma(X.E.z.y, mass.K.y.y, X.E.z.x * mass.K.x.y));
    const T t23 = fma(X.E.z.z, mass.K.z.z, fma(X.E.z.y, mass.K.y.z, X.E.z.x * mass.K.x.z));
    const T K_x_x = fma(drift.x, rest_h_x, fma(X.r.x, t12, fma(X.E.x.z, t17, fma(X.E.x.y, t16,
        X.E.x.x * t15))));
    const T K_x_y = fma(drift.x, rest_h_y, fma(X.r.y, t12, fma(X.E.y.z, t17, fma(X.E.y.y, t16,
        X.E.y.x * t15))));
    const T K_x_z = fma(drift.x, rest_h_z, fma(X.r.z, t12, fma(X.E.z.z, t17, fma(X.E.z.y, t16,
        X.E.z.x * t15))));
    const T K_y_x = fma(drift.y, rest_h_x, fma(X.r.x, t13, fma(X.E.x.z, t20, fma(X.E.x.y, t19,
        X.E.x.x * t18))));
    const T K_y_y = fma(drift.y, rest_h_y, fma(X.r.y, t13, fma(X.E.y.z, t20, fma(X.E.y.y, t19,
        X.E.y.x * t18))));
    const T K_y_z = fma(drift.y, rest_h_z, fma(X.r.z, t13, fma(X.E.z.z, t20, fma(X.E.z.y, t19,
        X.E.z.x * t18))));
    const T K_z_x = fma(drift.z, rest_h_x, fma(X.r.x, t14, fma(X.E.x.z, t23, fma(X.E.x.y, t22,
        X.E.x.x * t21))));
    const T K_z_y = fma(drift.z, rest_h_y, fma(X.r.y, t14, fma(X.E.y.z, t23, fma(X.E.y.y, t22,
        X.E.y.x * t21))));
    const T K_z_z = fma(drift.z, rest_h_z, fma(X.r.z, t14, fma(X.E.z.z, t23, fma(X.E.z.y, t22,
        X.E.z.x * t21))));
    const T p_x = fma(drift.x, mass.rest.m, t12);
    const T p_y = fma(drift.y, mass.rest.m, t13);
    const T p_z = fma(drift.z, mass.rest.m, t14);
    return {{mass.rest.m, {rest_h_x, rest_h_y, rest_h_z}, {rest_I_xx, rest_I_xy, rest_I_xz,
        rest_I_yy, rest_I_yz, rest_I_zz}}, {p_x, p_y, p_z}, {{K_x_x, K_x_y, K_x_z}, {K_y_x, K_y_y,
        K_y_z}, {K_z_x, K_z_y, K_z_z}}};
}

// The change of the wrench that accelerates a subtree.
template <class T>
GRIDGEN_DEVICE Spatial<T> wrench(const MovingMass<T>& mass, const MotionChange<T>& change) {
    const T linear_x = fma(-mass.p.y, change.w.z, fma(mass.p.z, change.w.y, fma(-mass.rest.h.y,
        change.alpha.z, fma(mass.rest.h.z, change.alpha.y, mass.rest.m * change.a.x))));
    const T linear_y = fma(-mass.p.z, change.w.x, fma(mass.p.x, change.w.z, fma(-mass.rest.h.z,
        change.alpha.x, fma(mass.rest.h.x, change.alpha.z, mass.rest.m * change.a.y))));
    const T linear_z = fma(-mass.p.x, change.w.y, fma(mass.p.y, change.w.x, fma(-mass.rest.h.x,
        change.alpha.y, fma(mass.rest.h.y, change.alpha.x, mass.rest.m * change.a.z))));
    const T angular_x = fma(-mass.K.x.z, change.w.z, fma(-mass.K.x.y, change.w.y, fma(change.w.x,
        mass.K.y.y + mass.K.z.z, fma(-mass.rest.h.z, change.a.y, fma(mass.rest.h.y, change.a.z,
        fma(mass.rest.I.xz, change.alpha.z, fma(mass.rest.I.xy, change.alpha.y, mass.rest.I.xx *
        change.alpha.x)))))));
    const T angular_y = fma(-mass.K.y.z, change.w.z, fma(-mass.K.y.x, change.w.x, fma(change.w.y,
        mass.K.x.x + mass.K.z.z, fma(-mass.rest.h.x, change.a.z, fma(mass.rest.h.z, change.a.x,
        fma(mass.rest.I.yz, change.alpha.z, fma(mass.rest.I.yy, change.alpha.y, mass.rest.I.xy *
        change.alpha.x)))))));
    const T angular_z = fma(-mass.K.z.y, change.w.y, fma(-mass.K.z.x, change.w.x, fma(change.w.z,
        mass.K.x.x + mass.K.y.y, fma(-mass.rest.h.y, change.a.x, fma(mass.rest.h.x, change.a.y,
        fma(mass.rest.I.zz, change.alpha.z, fma(mass.rest.I.yz, change.alpha.y, mass.rest.I.xz *
        change.alpha.x)))))));
    return {{linear_x, linear_y, linear_z}, {angular_x, angular_y, angular_z}};
}

// The change of the joint torque along an axis.
template <class T>
GRIDGEN_DEVICE EffortRow<T> effort_row(const MovingMass<T>& mass, const Spatial<T>& axis) {
    const T a_x = fma(-mass.rest.h.y, axis.angular.z, fma(mass.rest.h.z, axis.angular.y, mass.rest.m
        * axis.linear.x));
    const T a_y = fma(-mass.rest.h.z, axis.angular.x, fma(mass.rest.h.x, axis.angular.z, mass.rest.m
        * axis.linear.y));
    const T a_z = fma(-mass.rest.h.x, axis.angular.y, fma(mass.rest.h.y, axis.angular.x, mass.rest.m
        * axis.linear.z));
    const T alpha_x = fma(-mass.rest.h.z, axis.linear.y, fma(mass.rest.h.y, axis.linear.z,
        fma(mass.rest.I.xz, axis.angular.z, fma(mass.rest.I.xy, axis.angular.y, mass.rest.I.xx *
        axis.angular.x))));
    const T alpha_y = fma(-mass.rest.h.x, axis.linear.z, fma(mass.rest.h.z, axis.linear.x,
        fma(mass.rest.I.yz, axis.angular.z, fma(mass.rest.I.yy, axis.angular.y, mass.rest.I.xy *
        axis.angular.x))));
    const T alpha_z = fma(-mass.rest.h.y, axis.linear.x, fma(mass.rest.h.x, axis.linear.y,
        fma(mass.rest.I.zz, axis.angular.z, fma(mass.rest.I.yz, axis.angular.y, mass.rest.I.xz *
        axis.angular.x))));
    const T w_x = fma(-mass.K.z.x, axis.angular.z, fma(-mass.K.y.x, axis.angular.y,
        fma(axis.angular.x, mass.K.y.y + mass.K.z.z, fma(-mass.p.z, axis.linear.y, mass.p.y *
        axis.linear.z))));
    const T w_y = fma(-mass.K.z.y, axis.angular.z, fma(-mass.K.x.y, axis.angular.x,
        fma(axis.angular.y, mass.K.x.x + mass.K.z.z, fma(-mass.p.x, axis.linear.z, mass.p.z *
        axis.linear.x))));
    const T w_z = fma(-mass.K.y.z, axis.angular.y, fma(-mass.K.x.z, axis.angular.x,
        fma(axis.angular.z, mass.K.x.x + mass.K.y.y, fma(-mass.p.y, axis.linear.x, mass.p.x *
        axis.linear.y))));
    return {{a_x, a_y, a_z}, {alpha_x, alpha_y, alpha_z}, {w_x, w_y, w_z}};
}

// The derivative by a position as that of a subtree with constant mass.
template <class T>
GRIDGEN_DEVICE MovingMass<T> by_position(const TurnedMass<T>& mass) {
    const T rest_I_xx = mass.Q.y.y + mass.Q.z.z;
    const T rest_I_xy = -product(T(0.5), mass.Q.x.y + mass.Q.y.x);
    const T rest_I_xz = -product(T(0.5), mass.Q.x.z + mass.Q.z.x);
    const T rest_I_yy = mass.Q.x.x + mass.Q.z.z;
    const T rest_I_yz = -product(T(0.5), mass.Q.y.z + mass.Q.z.y);
    const T rest_I_zz = mass.Q.x.x + mass.Q.y.y;
    return {{T(0), {mass.f.x, mass.f.y, mass.f.z}, {rest_I_xx, rest_I_xy, rest_I_xz, rest_I_yy,
        rest_I_yz, rest_I_zz}}, {mass.p.x, mass.p.y, mass.p.z}, {{mass.K.x.x, mass.K.x.y,
        mass.K.x.z}, {mass.K.y.x, mass.K.y.y, mass.K.y.z}, {mass.K.z.x, mass.K.z.y, mass.K.z.z}}};
}

// Derivative by the joint's velocity of the response to the change w of motion.
template <class T>
GRIDGEN_DEVICE Spatial<T> wrench_by_velocity(const TurnedMass<T>& mass, Vector<T> w) {
    const T t0 = product(T(2), mass.f.x);
    const T t1 = product(T(2), mass.f.y);
    const T t2 = product(T(2), mass.f.z);
    const T linear_x = fma(-w.z, t1, w.y * t2);
    const T linear_y = fma(-w.x, t2, w.z * t0);
    const T linear_z = fma(-w.y, t0, w.x * t1);
    const T angular_x = fma(-mass.Q.x.z, w.z, fma(-mass.Q.x.y, w.y, w.x * (mass.Q.y.y +
        mass.Q.z.z)));
    const T angular_y = fma(-mass.Q.y.z, w.z, fma(-mass.Q.y.x, w.x, w.y * (mass.Q.x.x +
        mass.Q.z.z)));
    const T angular_z = fma(-mass.Q.z.y, w.y, fma(-mass.Q.z.x, w.x, w.z * (mass.Q.x.x +
        mass.Q.y.y)));
    return {{linear_x, linear_y, linear_z}, {angular_x, angular_y, angular_z}};
}

// Effect of a joint on a body farther from the base.
template <class T>
GRIDGEN_DEVICE FromAbove<T> to_body(const Placement<T>& X, Vector<T> drift, const FromAbove<T>&
    above) {
    const T t0 = fma(-X.r.y, above.axis.angular.z, fma(X.r.z, above.axis.angular.y,
        above.axis.linear.x));
    const T t1 = fma(-X.r.z, above.axis.angular.x, fma(X.r.x, above.axis.angular.z,
        above.axis.linear.y));
    const T t2 = fma(-X.r.x, above.axis.angular.y, fma(X.r.y, above.axis.angular.x,
        above.axis.linear.z));
    const T axis_linear_x = fma(X.E.z.x, t2, fma(X.E.y.x, t1, X.E.x.x * t0));
    const T axis_linear_y = fma(X.E.z.y, t2, fma(X.E.y.y, t1, X.E.x.y * t0));
    const T axis_linear_z = fma(X.E.z.z, t2, fma(X.E.y.z, t1, X.E.x.z * t0));
    const T axis_angular_x = fma(X.E.z.x, above.axis.angular.z, fma(X.E.y.x, above.axis.angular.y,
        X.E.x.x * above.axis.angular.x));
    const T axis_angular_y = fma(X.E.z.y, above.axis.angular.z, fma(X.E.y.y, above.axis.angular.y,
        X.E.x.y * above.axis.angular.x));
    const T axis_angular_z = fma(X.E.z.z, above.axis.angular.z, fma(X.E.y.z, above.axis.angular.y,
        X.E.x.z * above.axis.angular.x));
    const T t3 = fma(-drift.y, above.position.w.z, fma(drift.z, above.position.w.y, fma(-X.r.y,
        above.position.alpha.z, fma(X.r.z, above.position.alpha.y, above.position.a.x))));
    const T t4 = fma(-drift.z, above.position.w.x, fma(drift.x, above.position.w.z, fma(-X.r.z,
        above.position.alpha.x, fma(X.r.x, above.position.alpha.z, above.position.a.y))));
    const T t5 = fma(-drift.x, above.position.w.y, fma(drift.y, above.position.w.x, fma(-X.r.x,
        above.position.alpha.y, fma(X.r.y, above.position.alpha.x, above.position.a.z))));
    const T position_a_x = fma(X.E.z.x, t5, fma(X.E.y.x, t4, X.E.x.x * t3));
    const T position_a_y = fma(X.E.z.y, t5, fma(X.E.y.y, t4, X.E.x.y * t3));
    const T position_a_z = fma(X.E.z.z, t5, fma(X.E.y.z, t4, X.E.x.z * t3));
    const T position_alpha_x = fma(X.E.z.x, above.position.alpha.z, fma(X.E.y.x,
        above.position.alpha.y, X.E.x.x * above.position.alpha.x));
    const T position_alpha_y = fma(X.E.z.y, above.position.alpha.z, fma(X.E.y.y,
        above.position.alpha.y, X.E.x.y * above.position.alpha.x));
    const T position_alpha_z = fma(X.E.z.z, above.position.alpha.z, fma(X.E.y.z,
        above.position.alpha.y, X.E.x.z * above.position.alpha.x));
    const T position_w_x = fma(X.E.z.x, above.position.w.z, fma(X.E.y.x, above.position.w.y, X.E.x.x
        * above.position.w.x));
    const T position_w_y = fma(X.E.z.y, above.position.w.z, fma(X.E.y.y, above.position.w.y, X.E.x.y
        * above.position.w.x));
    const T position_w_z = fma(X.E.z.z, above.position.w.z, fma(X.E.y.z, above.position.w.y, X.E.x.z
        * above.position.w.x));
    const T t6 = fma(-drift.y, above.velocity.w.z, fma(drift.z, above.velocity.w.y, fma(-X.r.y,
        above.velocity.alpha.z, fma(X.r.z, above.velocity.alpha.y, above.velocity.a.x))));
    const T t7 = fma(-drift.z, above.velocity.w.x, fma(drift.x, above.velocity.w.z, fma(-X.r.z,
        above.velocity.alpha.x, fma(X.r.x, above.velocity.alpha.z, above.velocity.a.y))));
    const T t8 = fma(-drift.x, above.velocity.w.y, fma(drift.y, above.velocity.w.x, fma(-X.r.x,
        above.velocity.alpha.y, fma(X.r.y, above.velocity.alpha.x, above.velocity.a.z))));
    const T velocity_a_x = fma(X.E.z.x, t8, fma(X.E.y.x, t7, X.E.x.x * t6));
    const T velocity_a_y = fma(X.E.z.y, t8, fma(X.E.y.y, t7, X.E.x.y * t6));
    const T velocity_a_z = fma(X.E.z.z, t8, fma(X.E.y.z, t7, X.E.x.z * t6));
    const T velocity_alpha_x = fma(X.E.z.x, above.velocity.alpha.z, fma(X.E.y.x,
        above.velocity.alpha.y, X.E.x.x * above.velocity.alpha.x));
    const T velocity_alpha_y = fma(X.E.z.y, above.velocity.alpha.z, fma(X.E.y.y,
        above.velocity.alpha.y, X.E.x.y * above.velocity.alpha.x));
    const T velocity_alpha_z = fma(X.E.z.z, above.velocity.alpha.z, fma(X.E.y.z,
        above.velocity.alpha.y, X.E.x.z * above.velocity.alpha.x));
    const T velocity_w_x = fma(X.E.z.x, above.velocity.w.z, fma(X.E.y.x, above.velocity.w.y, X.E.x.x
        * above.velocity.w.x));
    const T velocity_w_y = fma(X.E.z.y, above.velocity.w.z, fma(X.E.y.y, above.velocity.w.y, X.E.x.y
        * above.velocity.w.x));
    const T velocity_w_z = fma(X.E.z.z, above.velocity.w.z, fma(X.E.y.z, above.velocity.w.y, X.E.x.z
        * above.velocity.w.x));
    return {{{axis_linear_x, axis_linear_y, axis_linear_z}, {axis_angular_x, axis_angular_y,
        axis_angular_z}}, {{position_a_x, position_a_y, position_a_z}, {position_alpha_x,
        position_alpha_y, position_alpha_z}, {position_w_x, position_w_y, position_w_z}},
        {{velocity_a_x, velocity_a_y, velocity_a_z}, {velocity_alpha_x, velocity_alpha_y,
        velocity_alpha_z}, {velocity_w_x, velocity_w_y, velocity_w_z}}};
}

// Effect of a joint that transmits F on its own body, of angular velocity w.
template <class T>
GRIDGEN_DEVICE FromBelow<T> from_below(const FromAbove<T>& own, const MovingMass<T>& mass, const
    Spatial<T>& F, Vector<T> w) {
    const T row_a_x = fma(-own.axis.angular.z, mass.rest.h.y, fma(own.axis.angular.y, mass.rest.h.z,
        own.axis.linear.x * mass.rest.m));
    const T row_a_y = fma(-own.axis.angular.x, mass.rest.h.z, fma(own.axis.angular.z, mass.rest.h.x,
        own.axis.linear.y * mass.rest.m));
    const T row_a_z = fma(-own.axis.angular.y, mass.rest.h.x, fma(own.axis.angular.x, mass.rest.h.y,
        own.axis.linear.z * mass.rest.m));
    const T row_alpha_x = fma(-own.axis.linear.y, mass.rest.h.z, fma(own.axis.linear.z,
        mass.rest.h.y, fma(own.axis.angular.z, mass.rest.I.xz, fma(own.axis.angular.y,
        mass.rest.I.xy, own.axis.angular.x * mass.rest.I.xx))));
    const T row_alpha_y = fma(-own.axis.linear.z, mass.rest.h.x, fma(own.axis.linear.x,
        mass.rest.h.z, fma(own.axis.angular.z, mass.rest.I.yz, fma(own.axis.angular.y,
        mass.rest.I.yy, own.axis.angular.x * mass.rest.I.xy))));
    const T row_alpha_z = fma(-own.axis.linear.x, mass.rest.h.y, fma(own.axis.linear.y,
        mass.rest.h.x, fma(own.axis.angular.z, mass.rest.I.zz, fma(own.axis.angular.y,
        mass.rest.I.yz, own.axis.angular.x * mass.rest.I.xz))));
    const T t0 = product(own.axis.linear.z, mass.p.y);
    const T t1 = product(own.axis.linear.x, mass.p.z);
    const T t2 = product(own.axis.linear.y, mass.p.x);
    const T t3 = mass.K.y.y + mass.K.z.z;
    const T t4 = mass.K.x.x + mass.K.z.z;
    const T t5 = mass.K.x.x + mass.K.y.y;
    const T row_w_x = fma(-own.axis.angular.z, mass.K.z.x, fma(-own.axis.angular.y, mass.K.y.x,
        fma(own.axis.angular.x, t3, fma(-own.axis.linear.y, mass.p.z, t0))));
    const T row_w_y = fma(-own.axis.angular.z, mass.K.z.y, fma(-own.axis.angular.x, mass.K.x.y,
        fma(own.axis.angular.y, t4, fma(-own.axis.linear.z, mass.p.x, t1))));
    const T row_w_z = fma(-own.axis.angular.y, mass.K.y.z, fma(-own.axis.angular.x, mass.K.x.z,
        fma(own.axis.angular.z, t5, fma(-own.axis.linear.x, mass.p.y, t2))));
    const T t6 = mass.rest.I.yy + mass.rest.I.zz - mass.rest.I.xx;
    const T t7 = product(T(2), mass.rest.I.xy);
    const T t8 = product(T(2), mass.rest.I.xz);
    const T t9 = mass.rest.I.xx + mass.rest.I.zz - mass.rest.I.yy;
    const T t10 = product(T(2), mass.rest.I.yz);
    const T t11 = mass.rest.I.xx + mass.rest.I.yy - mass.rest.I.zz;
    const T t12 = product(own.axis.angular.y, t8);
    const T t13 = product(T(2), own.axis.linear.x);
    const T t14 = product(T(2), own.axis.linear.y);
    const T t15 = product(T(2), own.axis.linear.z);
    const T mass_Q_x_x = fma(mass.rest.h.x, t13, fma(own.axis.angular.z, t7, -t12));
    const T mass_Q_x_y = fma(mass.rest.h.y, t13, fma(-own.axis.angular.z, t9, -(own.axis.angular.y *
        t10)));
    const T mass_Q_x_z = fma(mass.rest.h.z, t13, fma(own.axis.angular.z, t10, own.axis.angular.y *
        t11));
    const T mass_Q_y_x = fma(mass.rest.h.x, t14, fma(own.axis.angular.x, t8, own.axis.angular.z *
        t6));
    const T mass_Q_y_y = fma(mass.rest.h.y, t14, fma(own.axis.angular.x, t10, -(own.axis.angular.z *
        t7)));
    const T mass_Q_y_z = fma(mass.rest.h.z, t14, fma(-own.axis.angular.x, t11, -(own.axis.angular.z
        * t8)));
    const T mass_Q_z_x = fma(mass.rest.h.x, t15, fma(-own.axis.angular.y, t6, -(own.axis.angular.x *
        t7)));
    const T mass_Q_z_y = fma(mass.rest.h.y, t15, fma(own.axis.angular.y, t7, own.axis.angular.x *
        t9));
    const T mass_Q_z_z = fma(mass.rest.h.z, t15, fma(-own.axis.angular.x, t10, t12));
    const T t16 = fma(-own.axis.linear.y, w.z, own.axis.linear.z * w.y);
    const T t17 = fma(-own.axis.linear.z, w.x, own.axis.linear.x * w.z);
    const T t18 = fma(-own.axis.linear.x, w.y, own.axis.linear.y * w.x);
    const T t19 = fma(-own.axis.angular.y, w.z, own.axis.angular.z * w.y);
    const T t20 = fma(-own.axis.angular.z, w.x, own.axis.angular.x * w.z);
    const T t21 = fma(-own.axis.angular.x, w.y, own.axis.angular.y * w.x);
    const T t22 = product(T(2), mass.rest.h.x);
    const T t23 = product(T(2), mass.rest.h.y);
    const T t24 = product(T(2), mass.rest.h.z);
    const T t25 = product(own.axis.angular.y, mass.K.z.x);
    const T t26 = product(T(2), t16);
    const T t27 = product(T(2), t17);
    const T t28 = product(T(2), t18);
    const T mass_K_x_x = fma(mass.rest.h.x, t26, fma(own.axis.linear.x, mass.p.x, fma(t7, t21,
        fma(-t8, t20, fma(own.axis.angular.y, mass.K.x.z, fma(-own.axis.angular.z, mass.K.x.y,
        fma(-own.axis.angular.z, mass.K.y.x, t25)))))));
    const T mass_K_x_y = fma(mass.rest.h.y, t26, fma(-t9, t21, fma(-t10, t20,
        fma(-own.axis.angular.z, mass.K.y.y, fma(own.axis.angular.y, mass.K.z.y,
        fma(own.axis.angular.z, mass.K.x.x, fma(-own.axis.angular.x, mass.K.x.z, t2)))))));
    const T mass_K_x_z = fma(mass.rest.h.z, t26, fma(t10, t21, fma(t11, t20,
        fma(-own.axis.angular.z, mass.K.y.z, fma(own.axis.angular.y, mass.K.z.z,
        fma(-own.axis.angular.y, mass.K.x.x, fma(own.axis.angular.x, mass.K.x.y, own.axis.linear.z *
        mass.p.x)))))));
    const T mass_K_y_x = fma(mass.rest.h.x, t27, fma(t8, t19, fma(t6, t21, fma(-own.axis.angular.z,
        mass.K.y.y, fma(-own.axis.angular.x, mass.K.z.x, fma(own.axis.angular.z, mass.K.x.x,
        fma(own.axis.angular.y, mass.K.y.z, own.axis.linear.x * mass.p.y)))))));
    const T mass_K_y_y = fma(mass.rest.h.y, t27, fma(own.axis.linear.y, mass.p.y, fma(t10, t19,
        fma(-t7, t21, fma(-own.axis.angular.x, mass.K.y.z, fma(-own.axis.angular.x, mass.K.z.y,
        fma(own.axis.angular.z, mass.K.x.y, own.axis.angular.z * mass.K.y.x)))))));
    const T mass_K_y_z = fma(mass.rest.h.z, t27, fma(-t11, t19, fma(-t8, t21,
        fma(-own.axis.angular.x, mass.K.z.z, fma(own.axis.angular.z, mass.K.x.z,
        fma(own.axis.angular.x, mass.K.y.y, fma(-own.axis.angular.y, mass.K.y.x, t0)))))));
    const T mass_K_z_x = fma(mass.rest.h.x, t28, fma(-t6, t20, fma(-t7, t19, fma(own.axis.angular.y,
        mass.K.z.z, fma(-own.axis.angular.y, mass.K.x.x, fma(own.axis.angular.x, mass.K.y.x,
        fma(-own.axis.angular.z, mass.K.z.y, t1)))))));
    const T mass_K_z_y = fma(mass.rest.h.y, t28, fma(t7, t20, fma(t9, t19, fma(-own.axis.angular.x,
        mass.K.z.z, fma(-own.axis.angular.y, mass.K.x.y, fma(own.axis.angular.x, mass.K.y.y,
        fma(own.axis.angular.z, mass.K.z.x, own.axis.linear.y * mass.p.z)))))));
    const T mass_K_z_z = fma(mass.rest.h.z, t28, fma(own.axis.linear.z, mass.p.z, fma(-t10, t19,
        fma(t8, t20, fma(-own.axis.angular.y, mass.K.x.z, fma(own.axis.angular.x, mass.K.y.z,
        fma(own.axis.angular.x, mass.K.z.y, -t25)))))));
    const T t29 = product(T(2), mass.rest.m);
    const T mass_p_x = fma(t16, t29, fma(-t21, t23, fma(t20, t24, fma(-own.axis.angular.z, mass.p.y,
        own.axis.angular.y * mass.p.z))));
    const T mass_p_y = fma(t17, t29, fma(-t19, t24, fma(t21, t22, fma(-own.axis.angular.x, mass.p.z,
        own.axis.angular.z * mass.p.x))));
    const T mass_p_z = fma(t18, t29, fma(-t20, t22, fma(t19, t23, fma(-own.axis.angular.y, mass.p.x,
        own.axis.angular.x * mass.p.y))));
    const T position_linear_x = fma(-own.axis.angular.z, F.linear.y, fma(own.axis.angular.y,
        F.linear.z, fma(-own.position.w.z, mass.p.y, fma(own.position.w.y, mass.p.z,
        fma(-own.position.alpha.z, mass.rest.h.y, fma(own.position.alpha.y, mass.rest.h.z,
        own.position.a.x * mass.rest.m))))));
    const T position_linear_y = fma(-own.axis.angular.x, F.linear.z, fma(own.axis.angular.z,
        F.linear.x, fma(-own.position.w.x, mass.p.z, fma(own.position.w.z, mass.p.x,
        fma(-own.position.alpha.x, mass.rest.h.z, fma(own.position.alpha.z, mass.rest.h.x,
        own.position.a.y * mass.rest.m))))));
    const T position_linear_z = fma(-own.axis.angular.y, F.linear.x, fma(own.axis.angular.x,
        F.linear.y, fma(-own.position.w.y, mass.p.x, fma(own.position.w.x, mass.p.y,
        fma(-own.position.alpha.y, mass.rest.h.x, fma(own.position.alpha.x, mass.rest.h.y,
        own.position.a.z * mass.rest.m))))));
    const T position_angular_x = fma(-own.axis.linear.z, F.linear.y, fma(own.axis.linear.y,
        F.linear.z, fma(-own.axis.angular.z, F.angular.y, fma(own.axis.angular.y, F.angular.z,
        fma(-own.position.w.z, mass.K.x.z, fma(-own.position.w.y, mass.K.x.y, fma(own.position.w.x,
        t3, fma(-own.position.a.y, mass.rest.h.z, fma(own.position.a.z, mass.rest.h.y,
        fma(own.position.alpha.z, mass.rest.I.xz, fma(own.position.alpha.y, mass.rest.I.xy,
        own.position.alpha.x * mass.rest.I.xx)))))))))));
    const T position_angular_y = fma(-own.axis.linear.x, F.linear.z, fma(own.axis.linear.z,
        F.linear.x, fma(-own.axis.angular.x, F.angular.z, fma(own.axis.angular.z, F.angular.x,
        fma(-own.position.w.z, mass.K.y.z, fma(-own.position.w.x, mass.K.y.x, fma(own.position.w.y,
        t4, fma(-own.position.a.z, mass.rest.h.x, fma(own.position.a.x, mass.rest.h.z,
        fma(own.position.alpha.z, mass.rest.I.yz, fma(own.position.alpha.y, mass.rest.I.yy,
        own.position.alpha.x * mass.rest.I.xy)))))))))));
    const T position_angular_z = fma(-own.axis.linear.y, F.linear.x, fma(own.axis.linear.x,
        F.linear.y, fma(-own.axis.angular.y, F.angular.x, fma(own.axis.angular.x, F.angular.y,
        fma(-own.position.w.y, mass.K.z.y, fma(-own.position.w.x, mass.K.z.x, fma(own.position.w.z,
        t5, fma(-own.position.a.x, mass.rest.h.y, fma(own.position.a.y, mass.rest.h.x,
        fma(own.position.alpha.z, mass.rest.I.zz, fma(own.position.alpha.y, mass.rest.I.yz,
        own.position.alpha.x * mass.rest.I.xz)))))))))));
    const T velocity_linear_x = fma(-own.velocity.w.z, mass.p.y, fma(own.velocity.w.y, mass.p.z,
        fma(-own.velocity.alpha.z, mass.rest.h.y, fma(own.velocity.alpha.y, mass.rest.h.z,
        own.velocity.a.x * mass.rest.m))));
    const T velocity_linear_y = fma(-own.velocity.w.x, mass.p.z, fma(own.velocity.w.z, mass.p.x,
        fma(-own.velocity.alpha.x, mass.rest.h.z, fma(own.velocity.alpha.z, mass.rest.h.x,
        own.velocity.a.y * mass.rest.m))));
    const T velocity_linear_z = fma(-own.velocity.w.y, mass.p.x, fma(own.velocity.w.x, mass.p.y,
        fma(-own.velocity.alpha.y, mass.rest.h.x, fma(own.velocity.alpha.x, mass.rest.h.y,
        own.velocity.a.z * mass.rest.m))));
    const T velocity_angular_x = fma(-own.velocity.w.z, mass.K.x.z, fma(-own.velocity.w.y,
        mass.K.x.y, fma(own.velocity.w.x, t3, fma(-own.velocity.a.y, mass.rest.h.z,
        fma(own.velocity.a.z, mass.rest.h.y, fma(own.velocity.alpha.z, mass.rest.I.xz,
        fma(own.velocity.alpha.y, mass.rest.I.xy, own.velocity.alpha.x * mass.rest.I.xx)))))));
    const T velocity_angular_y = fma(-own.velocity.w.z, mass.K.y.z, fma(-own.velocity.w.x,
        mass.K.y.x, fma(own.velocity.w.y, t4, fma(-own.velocity.a.z, mass.rest.h.x,
        fma(own.velocity.a.x, mass.rest.h.z, fma(own.velocity.alpha.z, mass.rest.I.yz,
        fma(own.velocity.alpha.y, mass.rest.I.yy, own.velocity.alpha.x * mass.rest.I.xy)))))));
    const T velocity_angular_z = fma(-own.velocity.w.y, mass.K.z.y, fma(-own.velocity.w.x,
        mass.K.z.x, fma(own.velocity.w.z, t5, fma(-own.velocity.a.x, mass.rest.h.y,
        fma(own.velocity.a.y, mass.rest.h.x, fma(own.velocity.alpha.z, mass.rest.I.zz,
        fma(own.velocity.alpha.y, mass.rest.I.yz, own.velocity.alpha.x * mass.rest.I.xz)))))));
    return {{{row_a_x, row_a_y, row_a_z}, {row_alpha_x, row_alpha_y, row_alpha_z}, {row_w_x,
        row_w_y, row_w_z}}, {{row_a_x, row_a_y, row_a_z}, {{mass_Q_x_x, mass_Q_x_y, mass_Q_x_z},
        {mass_Q_y_x, mass_Q_y_y, mass_Q_y_z}, {mass_Q_z_x, mass_Q_z_y, mass_Q_z_z}}, {mass_p_x,
        mass_p_y, mass_p_z}, {{mass_K_x_x, mass_K_x_y, mass_K_x_z}, {mass_K_y_x, mass_K_y_y,
        mass_K_y_z}, {mass_K_z_x, mass_K_z_y, mass_K_z_z}}}, {{position_linear_x, position_linear_y,
        position_linear_z}, {position_angular_x, position_angular_y, position_angular_z}},
        {{velocity_linear_x, velocity_linear_y, velocity_linear_z}, {velocity_angular_x,
        velocity_angular_y, velocity_angular_z}}};
}

// Effect of a joint on a body nearer to the base.
template <class T>
GRIDGEN_DEVICE FromBelow<T> to_ancestor(const Placement<T>& X, Vector<T> drift, const FromBelow<T>&
    below) {
    const T row_a_x = fma(X.E.x.z, below.row.a.z, fma(X.E.x.y, below.row.a.y, X.E.x.x *
        below.row.a.x));
    const T row_a_y = fma(X.E.y.z, below.row.a.z, fma(X.E.y.y, below.row.a.y, X.E.y.x *
        below.row.a.x));
    const T row_a_z = fma(X.E.z.z, below.row.a.z, fma(X.E.z.y, below.row.a.y, X.E.z.x *
        below.row.a.x));
    const T row_alpha_x = fma(X.E.x.z, below.row.alpha.z, fma(X.E.x.y, below.row.alpha.y,
        fma(X.E.x.x, below.row.alpha.x, fma(-X.r.z, row_a_y, X.r.y * row_a_z))));
    const T row_alpha_y = fma(X.E.y.z, below.row.alpha.z, fma(X.E.y.y, below.row.alpha.y,
        fma(X.E.y.x, below.row.alpha.x, fma(-X.r.x, row_a_z, X.r.z * row_a_x))));
    const T row_alpha_z = fma(X.E.z.z, below.row.alpha.z, fma(X.E.z.y, below.row.alpha.y,
        fma(X.E.z.x, below.row.alpha.x, fma(-X.r.y, row_a_x, X.r.x * row_a_y))));
    const T row_w_x = fma(-drift.z, row_a_y, fma(drift.y, row_a_z, fma(X.E.x.z, below.row.w.z,
        fma(X.E.x.y, below.row.w.y, X.E.x.x * below.row.w.x))));
    const T row_w_y = fma(-drift.x, row_a_z, fma(drift.z, row_a_x, fma(X.E.y.z, below.row.w.z,
        fma(X.E.y.y, below.row.w.y, X.E.y.x * below.row.w.x))));
    const T row_w_z = fma(-drift.y, row_a_x, fma(drift.x, row_a_y, fma(X.E.z.z, below.row.w.z,
        fma(X.E.z.y, below.row.w.y, X.E.z.x * below.row.w.x))));
    const T mass_f_x = fma(X.E.x.z, below.mass.f.z, fma(X.E.x.y, below.mass.f.y, X.E.x.x *
        below.mass.f.x));
    const T mass_f_y = fma(X.E.y.z, below.mass.f.z, fma(X.E.y.y, below.mass.f.y, X.E.y.x *
        below.mass.f.x));
    const T mass_f_z = fma(X.E.z.z, below.mass.f.z, fma(X.E.z.y, below.mass.f.y, X.E.z.x *
        below.mass.f.x));
    const T mass_p_x = fma(X.E.x.z, below.mass.p.z, fma(X.E.x.y, below.mass.p.y, X.E.x.x *
        below.mass.p.x));
    const T mass_p_y = fma(X.E.y.z, below.mass.p.z, fma(X.E.y.y, below.mass.p.y, X.E.y.x *
        below.mass.p.x));
    const T mass_p_z = fma(X.E.z.z, below.mass.p.z, fma(X.E.z.y, below.mass.p.y, X.E.z.x *
        below.mass.p.x));
    const T t0 = fma(X.E.x.z, below.mass.Q.z.x, fma(X.E.x.y, below.mass.Q.y.x, X.E.x.x *
        below.mass.Q.x.x));
    const T t1 = fma(X.E.x.z, below.mass.Q.z.y, fma(X.E.x.y, below.mass.Q.y.y, X.E.x.x *
        below.mass.Q.x.y));
    const T t2 = fma(X.E.x.z, below.mass.Q.z.z, fma(X.E.x.y, below.mass.Q.y.z, X.E.x.x *
        below.mass.Q.x.z));
    const T t3 = fma(X.E.y.z, below.mass.Q.z.x, fma(X.E.y.y, below.mass.Q.y.x, X.E.y.x *
        below.mass.Q.x.x));
    const T t4 = fma(X.E.y.z, below.mass.Q.z.y, fma(X.E.y.y, below.mass.Q.y.y, X.E.y.x *
        below.mass.Q.x.y));
    const T t5 = fma(X.E.y.z, below.mass.Q.z.z, fma(X.E.y.y, below.mass.Q.y.z, X.E.y.x *
        below.mass.Q.x.z));
    const T t6 = fma(X.E.z.z, below.mass.Q.z.x, fma(X.E.z.y, below.mass.Q.y.x, X.E.z.x *
        below.mass.Q.x.x));
    const T t7 = fma(X.E.z.z, below.mass.Q.z.y, fma(X.E.z.y, below.mass.Q.y.y, X.E.z.x *
        below.mass.Q.x.y));
    const T t8 = fma(X.E.z.z, below.mass.Q.z.z, fma(X.E.z.y, below.mass.Q.y.z, X.E.z.x *
        below.mass.Q.x.z));
    const T t9 = product(T(2), X.r.x);
    const T t10 = product(T(2), X.r.y);
    const T t11 = product(T(2), X.r.z);
    const T mass_Q_x_x = fma(mass_f_x, t9, fma(X.E.x.z, t2, fma(X.E.x.y, t1, X.E.x.x * t0)));
    const T mass_Q_x_y = fma(mass_f_x, t10, fma(X.E.y.z, t2, fma(X.E.y.y, t1, X.E.y.x * t0)));
    const T mass_Q_x_z = fma(mass_f_x, t11, fma(X.E.z.z, t2, fma(X.E.z.y, t1, X.E.z.x * t0)));
    const T mass_Q_y_x = fma(mass_f_y, t9, fma(X.E.x.z, t5, fma(X.E.x.y, t4, X.E.x.x * t3)));
    const T mass_Q_y_y = fma(mass_f_y, t10, fma(X.E.y.z, t5, fma(X.E.y.y, t4, X.E.y.x * t3)));
    const T mass_Q_y_z = fma(mass_f_y, t11, fma(X.E.z.z, t5, fma(X.E.z.y, t4, X.E.z.x * t3)));
    const T mass_Q_z_x = fma(mass_f_z, t9, fma(X.E.x.z, t8, fma(X.E.x.y, t7, X.E.x.x * t6)));
    const T mass_Q_z_y = fma(mass_f_z, t10, fma(X.E.y.z, t8, fma(X.E.y.y, t7, X.E.y.x * t6)));
    const T mass_Q_z_z = fma(mass_f_z, t11, fma(X.E.z.z, t8, fma(X.E.z.y, t7, X.E.z.x * t6)));
    const T t12 = fma(X.E.x.z, below.mass.K.z.x, fma(X.E.x.y, below.mass.K.y.x, X.E.x.x *
        below.mass.K.x.x));
    const T t13 = fma(X.E.x.z, below.mass.K.z.y, fma(X.E.x.y, below.mass.K.y.y, X.E.x.x *
        below.mass.K.x.y));
    const T t14 = fma(X.E.x.z, below.mass.K.z.z, fma(X.E.x.y, below.mass.K.y.z, X.E.x.x *
        below.mass.K.x.z));
    const T t15 = fma(X.E.y.z, below.mass.K.z.x, fma(X.E.y.y, below.mass.K.y.x, X.E.y.x *
        below.mass.K.x.x));
    const T t16 = fma(X.E.y.z, below.mass.K.z.y, fma(X.E.y.y, below.mass.K.y.y, X.E.y.x *
        below.mass.K.x.y));
    const T t17 = fma(X.E.y.z, below.mass.K.z.z, fma(X.E.y.y, below.mass.K.y.z, X.E.y.x *
        below.mass.K.x.z));
    const T t18 = fma(X.E.z.z, below.mass.K.z.x, fma(X.E.z.y, below.mass.K.y.x, X.E.z.x *
        below.mass.K.x.x));
    const T t19 = fma(X.E.z.z, below.mass.K.z.y, fma(X.E.z.y, below.mass.K.y.y, X.E.z.x *
        below.mass.K.x.y));
    const T t20 = fma(X.E.z.z, below.mass.K.z.z, fma(X.E.z.y, below.mass.K.y.z, X.E.z.x *
        below.mass.K.x.z));
    const T mass_K_x_x = fma(drift.x, mass_f_x, fma(X.r.x, mass_p_x, fma(X.E.x.z, t14, fma(X.E.x.y,
        t13, X.E.x.x * t12))));
    const T mass_K_x_y = fma(drift.x, mass_f_y, fma(X.r.y, mass_p_x, fma(X.E.y.z, t14, fma(X.E.y.y,
        t13, X.E.y.x * t12))));
    const T mass_K_x_z = fma(drift.x, mass_f_z, fma(X.r.z, mass_p_x, fma(X.E.z.z, t14, fma(X.E.z.y,
        t13, X.E.z.x * t12))));
    const T mass_K_y_x = fma(drift.y, mass_f_x, fma(X.r.x, mass_p_y, fma(X.E.x.z, t17, fma(X.E.x.y,
        t16, X.E.x.x * t15))));
    const T mass_K_y_y = fma(drift.y, mass_f_y, fma(X.r.y, mass_p_y, fma(X.E.y.z, t17, fma(X.E.y.y,
        t16, X.E.y.x * t15))));
    const T mass_K_y_z = fma(drift.y, mass_f_z, fma(X.r.z, mass_p_y, fma(X.E.z.z, t17, fma(X.E.z.y,
        t16, X.E.z.x * t15))));
    const T mass_K_z_x = fma(drift.z, mass_f_x, fma(X.r.x, mass_p_z, fma(X.E.x.z, t20, fma(X.E.x.y,
        t19, X.E.x.x * t18))));
    const T mass_K_z_y = fma(drift.z, mass_f_y, fma(X.r.y, mass_p_z, fma(X.E.y.z, t20, fma(X.E.y.y,
        t19, X.E.y.x * t18))));
    const T mass_K_z_z = fma(drift.z, mass_f_z, fma(X.r.z, mass_p_z, fma(X.E.z.z, t20, fma(X.E.z.y,
        t19, X.E.z.x * t18))));
    const T position_linear_x = fma(X.E.x.z, below.position.linear.z, fma(X.E.x.y,
        below.position.linear.y, X.E.x.x * below.position.linear.x));
    const T position_linear_y = fma(X.E.y.z, below.position.linear.z, fma(X.E.y.y,
        below.position.linear.y, X.E.y.x * below.position.linear.x));
    const T position_linear_z = fma(X.E.z.z, below.position.linear.z, fma(X.E.z.y,
        below.position.linear.y, X.E.z.x * below.position.linear.x));
    const T position_angular_x = fma(X.E.x.z, below.position.angular.z, fma(X.E.x.y,
        below.position.angular.y, fma(X.E.x.x, below.position.angular.x, fma(-X.r.z,
        position_linear_y, X.r.y * position_linear_z))));
    const T position_angular_y = fma(X.E.y.z, below.position.angular.z, fma(X.E.y.y,
        below.position.angular.y, fma(X.E.y.x, below.position.angular.x, fma(-X.r.x,
        position_linear_z, X.r.z * position_linear_x))));
    const T position_angular_z = fma(X.E.z.z, below.position.angular.z, fma(X.E.z.y,
        below.position.angular.y, fma(X.E.z.x, below.position.angular.x, fma(-X.r.y,
        position_linear_x, X.r.x * position_linear_y))));
    const T velocity_linear_x = fma(X.E.x.z, below.velocity.linear.z, fma(X.E.x.y,
        below.velocity.linear.y, X.E.x.x * below.velocity.linear.x));
    const T velocity_linear_y = fma(X.E.y.z, below.velocity.linear.z, fma(X.E.y.y,
        below.velocity.linear.y, X.E.y.x * below.velocity.linear.x));
    const T velocity_linear_z = fma(X.E.z.z, below.velocity.linear.z, fma(X.E.z.y,
        below.velocity.linear.y, X.E.z.x * below.velocity.linear.x));
    const T velocity_angular_x = fma(X.E.x.z, below.velocity.angular.z, fma(X.E.x.y,
        below.velocity.angular.y, fma(X.E.x.x, below.velocity.angular.x, fma(-X.r.z,
        velocity_linear_y, X.r.y * velocity_linear_z))));
    const T velocity_angular_y = fma(X.E.y.z, below.velocity.angular.z, fma(X.E.y.y,
        below.velocity.angular.y, fma(X.E.y.x, below.velocity.angular.x, fma(-X.r.x,
        velocity_linear_z, X.r.z * velocity_linear_x))));
    const T velocity_angular_z = fma(X.E.z.z, below.velocity.angular.z, fma(X.E.z.y,
        below.velocity.angular.y, fma(X.E.z.x, below.velocity.angular.x, fma(-X.r.y,
        velocity_linear_x, X.r.x * velocity_linear_y))));
    return {{{row_a_x, row_a_y, row_a_z}, {row_alpha_x, row_alpha_y, row_alpha_z}, {row_w_x,
        row_w_y, row_w_z}}, {{mass_f_x, mass_f_y, mass_f_z}, {{mass_Q_x_x, mass_Q_x_y, mass_Q_x_z},
        {mass_Q_y_x, mass_Q_y_y, mass_Q_y_z}, {mass_Q_z_x, mass_Q_z_y, mass_Q_z_z}}, {mass_p_x,
        mass_p_y, mass_p_z}, {{mass_K_x_x, mass_K_x_y, mass_K_x_z}, {mass_K_y_x, mass_K_y_y,
        mass_K_y_z}, {mass_K_z_x, mass_K_z_y, mass_K_z_z}}}, {{position_linear_x, position_linear_y,
        position_linear_z}, {position_angular_x, position_angular_y, position_angular_z}},
        {{velocity_linear_x, velocity_linear_y, velocity_linear_z}, {velocity_angular_x,
        velocity_angular_y, velocity_angular_z}}};
}

// Response of the tip's torque to changes at the middle, by the middle joint's position.
template <class T>
GRIDGEN_DEVICE EffortRow<T> turned_row(const Spatial<T>& axis, Vector<T> w, const FromBelow<T>&
    below) {
    const T t0 = fma(-axis.angular.y, w.z, axis.angular.z * w.y);
    const T t1 = fma(-axis.angular.z, w.x, axis.angular.x * w.z);
    const T t2 = fma(-axis.angular.x, w.y, axis.angular.y * w.x);
    const T t3 = product(T(2), fma(-axis.linear.y, w.z, axis.linear.z * w.y));
    const T t4 = product(T(2), fma(-axis.linear.z, w.x, axis.linear.x * w.z));
    const T t5 = product(T(2), fma(-axis.linear.x, w.y, axis.linear.y * w.x));
    const T a_x = fma(-axis.angular.z, below.row.a.y, axis.angular.y * below.row.a.z);
    const T a_y = fma(-axis.angular.x, below.row.a.z, axis.angular.z * below.row.a.x);
    const T a_z = fma(-axis.angular.y, below.row.a.x, axis.angular.x * below.row.a.y);
    const T alpha_x = fma(-axis.linear.z, below.row.a.y, fma(axis.linear.y, below.row.a.z,
        fma(-axis.angular.z, below.row.alpha.y, axis.angular.y * below.row.alpha.z)));
    const T alpha_y = fma(-axis.linear.x, below.row.a.z, fma(axis.linear.z, below.row.a.x,
        fma(-axis.angular.x, below.row.alpha.z, axis.angular.z * below.row.alpha.x)));
    const T alpha_z = fma(-axis.linear.y, below.row.a.x, fma(axis.linear.x, below.row.a.y,
        fma(-axis.angular.y, below.row.alpha.x, axis.angular.x * below.row.alpha.y)));
    const T w_x = fma(-below.row.a.y, t5, fma(below.row.a.z, t4, fma(-axis.angular.z, below.row.w.y,
        fma(axis.angular.y, below.row.w.z, fma(below.mass.Q.z.x, t2, fma(below.mass.Q.y.x, t1, -(t0
        * (below.mass.Q.y.y + below.mass.Q.z.z))))))));
    const T w_y = fma(-below.row.a.z, t3, fma(below.row.a.x, t5, fma(-axis.angular.x, below.row.w.z,
        fma(axis.angular.z, below.row.w.x, fma(below.mass.Q.z.y, t2, fma(below.mass.Q.x.y, t0, -(t1
        * (below.mass.Q.x.x + below.mass.Q.z.z))))))));
    const T w_z = fma(-below.row.a.x, t4, fma(below.row.a.y, t3, fma(-axis.angular.y, below.row.w.x,
        fma(axis.angular.x, below.row.w.y, fma(below.mass.Q.y.z, t1, fma(below.mass.Q.x.z, t0, -(t2
        * (below.mass.Q.x.x + below.mass.Q.y.y))))))));
    return {{a_x, a_y, a_z}, {alpha_x, alpha_y, alpha_z}, {w_x, w_y, w_z}};
}

// Response to a change w of the tip's torque by the middle's velocity; or minus the revers
template <class T>
GRIDGEN_DEVICE Vector<T> quadratic_row(const Spatial<T>& axis, const FromBelow<T>& below) {
    const T x = fma(axis.angular.z, below.mass.Q.z.x, fma(axis.angular.y, below.mass.Q.y.x,
        fma(-axis.angular.x, below.mass.Q.y.y + below.mass.Q.z.z, T(2) * fma(-axis.linear.z,
        below.row.a.y, axis.linear.y * below.row.a.z))));
    const T y = fma(axis.angular.z, below.mass.Q.z.y, fma(axis.angular.x, below.mass.Q.x.y,
        fma(-axis.angular.y, below.mass.Q.x.x + below.mass.Q.z.z, T(2) * fma(-axis.linear.x,
        below.row.a.z, axis.linear.z * below.row.a.x))));
    const T z = fma(axis.angular.y, below.mass.Q.y.z, fma(axis.angular.x, below.mass.Q.x.z,
        fma(-axis.angular.z, below.mass.Q.x.x + below.mass.Q.y.y, T(2) * fma(-axis.linear.y,
        below.row.a.x, axis.linear.x * below.row.a.y))));
    return {x, y, z};
}

}  // namespace scan
}  // namespace gridgen

#endif  // GRIDGEN_BODIES_CUH
