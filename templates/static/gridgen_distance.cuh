// Searches of the nearest pair of spheres or capsules, of the nearest obstacle, and of a triangle of a
// height field.
//
// T is a number, or a pack of the numbers of several states. A branch is taken if any state of a pack
// needs it. Spheres and capsules are numbered through all links; after them follow half the axis of each
// capsule, and one sphere around each link. A sphere is a capsule without an axis.
// codegen/gridgen/dynamics/collision.py describes the arrays.
#ifndef GRIDGEN_DISTANCE_CUH
#define GRIDGEN_DISTANCE_CUH

#include "gridgen_angles.cuh"
#include "gridgen_math.cuh"

namespace gridgen {

constexpr float far_away = 1e9f;
constexpr int world_head = 8, grid_head = 4, record_size = 12, terrain_head = 6;
// Factor of the radius of a capsule against a grid: spheres half a radius apart cover it.
constexpr double wide = 1.031;

template <class T> GRIDGEN_DEVICE T least(T a, T b) { return select<T>(a - b, a, b); }
template <class T> GRIDGEN_DEVICE T most(T a, T b) { return select<T>(b - a, a, b); }
template <class T> GRIDGEN_DEVICE T absolute(T x) { return select<T>(x, -x, x); }

// Negative where a distance is less than `reach`, given its square; reach < 0 is beyond all squares.
template <class T> GRIDGEN_DEVICE T beyond(T square, T reach) {
    return fnma(reach, absolute(reach), square);
}

template <class T> struct Point {
    T x, y, z;
};
template <class T> GRIDGEN_DEVICE Point<T> operator-(Point<T> a, Point<T> b) {
    return {a.x - b.x, a.y - b.y, a.z - b.z};
}
template <class T> GRIDGEN_DEVICE Point<T> operator*(T s, Point<T> a) {
    return {s * a.x, s * a.y, s * a.z};
}
template <class T> GRIDGEN_DEVICE T dot(Point<T> a, Point<T> b) {
    return fma(a.x, b.x, fma(a.y, b.y, a.z * b.z));
}
template <class T> GRIDGEN_DEVICE Point<T> along(Point<T> a, T s, Point<T> b) {
    return {fma(s, b.x, a.x), fma(s, b.y, a.y), fma(s, b.z, a.z)};
}
// A vector of length one, or zero.
template <class T> GRIDGEN_DEVICE Point<T> unit(Point<T> a) {
    const Real<T> tiny = 1e-30f;
    const T square = dot(a, a);
    return (broadcast<T>(1) / sqrt(select<T>(square - tiny, tiny, square))) * a;
}

template <class T> GRIDGEN_DEVICE T within_axis(T x) {
    return most(least(x, broadcast<T>(1)), broadcast<T>(-1));
}

// The nearest points of two axes, s and t from -1 to 1 along them; r is the vector between their
// centers, a and b are half the axes, with the squares of their lengths. Source: Ericson 2005.
template <class T>
GRIDGEN_DEVICE void nearest_of_axes(Point<T> r, Point<T> a, T aa, Point<T> b, T bb, T& s, T& t) {
    const T ab = dot(a, b), ar = dot(a, r), br = dot(b, r), square = aa * bb;
    const T tiny = Real<T>(1e-12) * square, apart = fnma(ab, ab, square);
    s = within_axis(fnma(ar, bb, ab * br) / select<T>(apart - tiny, tiny, apart));
    t = within_axis(fma(ab, s, br) / bb);
    s = within_axis((ab * t - ar) / aa);
}

// The spheres of a robot; `capsules` of them have an axis.
template <class T, int size, class Radii, int capsules> struct Spheres {
    static constexpr bool has_axes = capsules > 0;
    const T (&centers)[size];
    const Radii& radii;
    // Number of links, of those that move, first sphere of each link, number of spheres; number of the
    // axis of each, or -1.
    const int* links;

    GRIDGEN_DEVICE int count() const { return links[0]; }
    GRIDGEN_DEVICE int moving() const { return links[1]; }
    GRIDGEN_DEVICE int first(int link) const { return links[2 + link]; }
    GRIDGEN_DEVICE int around(int link) const { return first(count()) + capsules + link; }
    GRIDGEN_DEVICE Point<T> center(int k) const {
        return {centers[3 * k], centers[3 * k + 1], centers[3 * k + 2]};
    }
    // That of an axis is half of its length.
    GRIDGEN_DEVICE Real<T> radius(int k) const { return radii[k]; }
    GRIDGEN_DEVICE int axis(int k) const {
        return k < first(count()) ? links[3 + count() + k] : -1;
    }
    GRIDGEN_DEVICE T square(int axis) const { return broadcast<T>(radius(axis) * radius(axis)); }
    // The vector between the nearest points of the axes of two spheres, and the places of the points.
    GRIDGEN_DEVICE Point<T> gap(Point<T> c, int i, int j, T& s, T& t) const {
        Point<T> found = c - center(j);
        s = t = broadcast<T>(0);
        if constexpr (capsules > 0) {
            const int a = axis(i), b = axis(j);
            if (a >= 0 && b >= 0)
                nearest_of_axes(found, center(a), square(a), center(b), square(b), s, t);
            else if (a >= 0)
                s = within_axis(-dot(found, center(a)) / square(a));
            else if (b >= 0)
                t = within_axis(dot(found, center(b)) / square(b));
            if (a >= 0) found = along(found, s, center(a));
            if (b >= 0) found = along(found, -t, center(b));
        }
        return found;
    }
    GRIDGEN_DEVICE Point<T> gap(Point<T> c, int i, int j) const {
        T s, t;
        return gap(c, i, j, s, t);
    }
    // The point of the axis of a sphere that is nearest to an obstacle, and its place.
    template <class Shape>
    GRIDGEN_DEVICE Point<T> facing(const Shape& obstacle, int k, T& s, Real<T>& own) const {
        s = broadcast<T>(0);
        own = radius(k);
        if constexpr (capsules > 0) {
            if (const int a = axis(k); a >= 0) {
                s = obstacle.place(center(k), center(a), radius(a), own);
                own = Shape::is_convex ? own : Real<T>(wide) * own;
                return along(center(k), s, center(a));
            }
        }
        return center(k);
    }
    // Zero, NaN where a center is not finite: searches ignore NaN, which no number is less than.
    GRIDGEN_DEVICE T zero() const {
        T total = broadcast<T>(0);
        for (int link = 0; link < count(); ++link) {
            const Point<T> c = center(around(link));
            total = total + (c.x + c.y + c.z);
        }
        return total - total;
    }
};

// Negative where two spheres are nearer than `reach` in addition to their radii.
template <class T, class S> GRIDGEN_DEVICE T apart(const S& spheres, Point<T> c, int i, int j, T reach) {
    const Point<T> gap = spheres.gap(c, i, j);
    return beyond(dot(gap, gap), reach + (spheres.radius(i) + spheres.radius(j)));
}

// Calls `act` with each pair of spheres of links a and b whose distance is less than `reach` in any state:
// i, j, the vector between their nearest points, the places of these, the sum of the radii, and a number
// that is negative where it is less. A pair of links farther apart than `far_reach` is left out.
template <class T, class S, class Act>
GRIDGEN_DEVICE void each_near_pair(const S& spheres, int a, int b, const T& far_reach, const T& reach,
                                   const Act& act) {
    const int around = spheres.around(a), other = spheres.around(b);
    if (!any_negative(apart(spheres, spheres.center(around), around, other, far_reach))) return;
    GRIDGEN_ROLLED
    for (int i = spheres.first(a); i < spheres.first(a + 1); ++i) {
        const Point<T> c = spheres.center(i);
        if (!any_negative(apart(spheres, c, i, other, far_reach))) continue;
        GRIDGEN_ROLLED
        for (int j = spheres.first(b); j < spheres.first(b + 1); ++j) {
            T s, t;
            const Point<T> gap = spheres.gap(c, i, j, s, t);
            const Real<T> both = spheres.radius(i) + spheres.radius(j);
            const T nearer = beyond(dot(gap, gap), reach + both);
            if (any_negative(nearer)) act(i, j, gap, s, t, both, nearer);
        }
    }
}

// Calls `visitor.act` with each moving sphere that is nearer to an obstacle than `reach` in any state: its
// index, point, place and radius, and a number that is negative where it is; see `each_near_pair`. Adds
// the distances of an obstacle that may have NaN to `visitor.total`.
template <class T, class Visitor, class Shape>
GRIDGEN_DEVICE void each_near(Visitor& visitor, const Shape& obstacle, const T* x, const T& far_reach,
                              const T& reach) {
    const auto& spheres = visitor.spheres;
    GRIDGEN_ROLLED
    for (int link = 0; link < spheres.moving(); ++link) {
        const int around = spheres.around(link);
        const T bound = far_reach + spheres.radius(around);
        if (Shape::is_convex && !any_negative(obstacle.nearer(spheres.center(around), bound))) continue;
        GRIDGEN_ROLLED
        for (int k = spheres.first(link); k < spheres.first(link + 1); ++k) {
            T s;
            Real<T> own;
            const Point<T> c = spheres.facing(obstacle, k, s, own);
            const T nearer = obstacle.nearer(c, reach + own);
            if (!Shape::is_convex) visitor.total = visitor.total + nearer;
            if (any_negative(nearer)) visitor.act(obstacle, x, k, c, s, own, nearer);
        }
    }
}

// Returns the smallest distance.
template <class T, int capsules = 0, int size, class Radii>
GRIDGEN_LARGE T nearest_pair(const Numbers<T, size>& numbers, const Radii& radii, const int* links,
                             const int* pairs, T& first, T& second, T& reach, T& pair, T& place,
                             T& other) {
    const Spheres<T, size, Radii, capsules> spheres = {numbers.x, radii, links};
    T best = broadcast<T>(far_away);
    first = second = pair = place = other = broadcast<T>(0);
    reach = broadcast<T>(-far_away);
    GRIDGEN_ROLLED
    for (int p = 0; p < pairs[0]; ++p) {
        const auto replace = [&](int i, int j, Point<T> gap, T s, T t, Real<T> both, T nearer) {
            best = select<T>(nearer, sqrt(dot(gap, gap)) - both, best);
            first = select<T>(nearer, Real<T>(i), first);
            second = select<T>(nearer, Real<T>(j), second);
            reach = select<T>(nearer, both, reach);
            pair = select<T>(nearer, Real<T>(p), pair);
            if constexpr (capsules > 0) {
                place = select<T>(nearer, s, place);
                other = select<T>(nearer, t, other);
            }
        };
        each_near_pair(spheres, pairs[1 + 2 * p], pairs[2 + 2 * p], best, best, replace);
    }
    reach = reach + spheres.zero();
    return best;
}

// --- Obstacles ----------------------------------------------------------------------------------

// The first number of an array with one row for each state, which has no length; and a number at an
// index of each state. gridgen_simd.h has those of packs.
template <class W> GRIDGEN_DEVICE auto leading(const W& row, int j) { return row[j]; }
template <class T, class W> GRIDGEN_DEVICE T gathered(const W& row, int begin, T index) {
    return row[begin + int(index)];
}
GRIDGEN_DEVICE int leading_index(float x) { return int(x); }
GRIDGEN_DEVICE int leading_index(double x) { return int(x); }
GRIDGEN_DEVICE float truncated(float x) { return float(int(x)); }
GRIDGEN_DEVICE double truncated(double x) { return double(int(x)); }

// An obstacle of a kind: numbers of its record; `nearer` is negative where the distance is less than
// `reach`. `place` is that of the nearest point c + s h of an axis, s from -1 to 1.
template <class T> struct Capsule {
    static constexpr int kind = 1, size = 7;
    static constexpr bool is_convex = true;
    Point<T> start, axis;
    T inverse, radius;

    GRIDGEN_DEVICE explicit Capsule(const T* x)
        : start{x[0], x[1], x[2]}, axis{x[3] - x[0], x[4] - x[1], x[5] - x[2]}, radius(x[6]) {
        const T square = dot(axis, axis), one = broadcast<T>(1);
        inverse = one / select<T>(square - Real<T>(1e-30), one, square);
    }
    GRIDGEN_DEVICE Point<T> gap(Point<T> c) const {
        const Point<T> arm = c - start;
        const T along = dot(arm, axis) * inverse, one = broadcast<T>(1);
        const T t = least(select<T>(along, Real<T>(0), along), one);
        return {fnma(t, axis.x, arm.x), fnma(t, axis.y, arm.y), fnma(t, axis.z, arm.z)};
    }
    GRIDGEN_DEVICE T place(Point<T> c, Point<T> h, Real<T> length, Real<T>) const {
        const T half = broadcast<T>(0.5f), square = dot(axis, axis), one = broadcast<T>(1);
        const T own = select<T>(square - Real<T>(1e-30), one, half * half * square);
        T s, t;
        nearest_of_axes(along(c - start, -half, axis), h, broadcast<T>(length * length), half * axis,
                        own, s, t);
        return s;
    }
    GRIDGEN_DEVICE T square(Point<T> c) const { return dot(gap(c), gap(c)); }
    GRIDGEN_DEVICE T nearer(Point<T> c, T reach) const { return beyond(square(c), reach + radius); }
    GRIDGEN_DEVICE T distance(Point<T> c) const { return sqrt(square(c)) - radius; }
    GRIDGEN_DEVICE Point<T> slope(Point<T> c) const { return unit(gap(c)); }
    GRIDGEN_DEVICE void write(const T* x, Point<T>, T* record) const {
        for (int k = 0; k < size; ++k) record[k] = x[k];
    }
};

template <class T> struct Ball {
    static constexpr int kind = 0, size = 4;
    static constexpr bool is_convex = true;
    Point<T> center;
    T radius;

    GRIDGEN_DEVICE explicit Ball(const T* x) : center{x[0], x[1], x[2]}, radius(x[3]) {}
    GRIDGEN_DEVICE T place(Point<T> c, Point<T> h, Real<T> length, Real<T>) const {
        return within_axis(dot(center - c, h) / broadcast<T>(length * length));
    }
    GRIDGEN_DEVICE T square(Point<T> c) const {
        const Point<T> gap = c - center;
        return dot(gap, gap);
    }
    GRIDGEN_DEVICE T nearer(Point<T> c, T reach) const { return beyond(square(c), reach + radius); }
    GRIDGEN_DEVICE T distance(Point<T> c) const { return sqrt(square(c)) - radius; }
    GRIDGEN_DEVICE Point<T> slope(Point<T> c) const { return unit(c - center); }
    GRIDGEN_DEVICE void write(const T* x, Point<T>, T* record) const {
        for (int k = 0; k < 3; ++k) record[k] = record[3 + k] = x[k];
        record[6] = radius;
    }
};

template <class T> struct Box {
    static constexpr int kind = 2, size = 10;
    static constexpr bool is_convex = true;
    Point<T> center, axes[3], half;

    GRIDGEN_DEVICE explicit Box(const T* x) : center{x[0], x[1], x[2]}, half{x[7], x[8], x[9]} {
        const T two = broadcast<T>(2), one = broadcast<T>(1);
        const T a = two * x[3], b = two * x[4], c = two * x[5];
        const T xx = a * x[3], xy = a * x[4], xz = a * x[5], yy = b * x[4], yz = b * x[5];
        const T zz = c * x[5], wx = a * x[6], wy = b * x[6], wz = c * x[6];
        axes[0] = {one - yy - zz, xy + wz, xz - wy};
        axes[1] = {xy - wz, one - xx - zz, yz + wx};
        axes[2] = {xz + wy, yz - wx, one - xx - yy};
    }
    // How far a point is beyond the faces.
    GRIDGEN_DEVICE Point<T> outside(Point<T> c) const {
        const Point<T> arm = c - center;
        return {absolute(dot(axes[0], arm)) - half.x, absolute(dot(axes[1], arm)) - half.y,
                absolute(dot(axes[2], arm)) - half.z};
    }
    // Outside, the derivative of the squared distance along the axis is linear between the faces. Inside,
    // the depth is concave: bisection finds its maximum.
    GRIDGEN_DEVICE T place(Point<T> c, Point<T> h, Real<T>, Real<T>) const {
        const Point<T> arm = c - center;
        const T p[] = {dot(axes[0], arm), dot(axes[1], arm), dot(axes[2], arm)};
        const T d[] = {dot(axes[0], h), dot(axes[1], h), dot(axes[2], h)};
        const T sizes[] = {half.x, half.y, half.z}, one = broadcast<T>(1), none = broadcast<T>(0);
        const auto rise = [&](T s) {
            T total = none;
            for (int k = 0; k < 3; ++k) {
                const T x = fma(s, d[k], p[k]);
                total = fma(d[k] * sign(x), most(absolute(x) - sizes[k], none), total);
            }
            return total;
        };
        const auto narrow = [&](T s, T test, T& low, T& high) {
            low = select<T>(test, s, low);
            high = select<T>(test, high, s);
        };
        T low = -one, high = one;
        GRIDGEN_ROLLED
        for (int k = 0; k < 6; ++k) {
            const T move = d[k >> 1], test = absolute(move) - Real<T>(1e-15);
            const T face = (k & 1 ? sizes[k >> 1] : -sizes[k >> 1]) - p[k >> 1];
            const T s = most(least(face / select<T>(test, one, move), high), low);
            narrow(s, rise(s), low, high);
        }
        const T slow = rise(low), fast = rise(high), change = fast - slow;
        const T part = -slow / select<T>(-absolute(change), change, one);
        const T found = fma(most(least(part, one), none), high - low, low);
        const T outside = square(this->outside(along(c, found, h)));
        const T inside = select<T>(-outside, one, -one);
        if (!any_negative(inside)) return found;
        low = -one;
        high = one;
        GRIDGEN_ROLLED
        for (int k = 0; k < (sizeof(Real<T>) == 4 ? 26 : 56); ++k) {
            const T s = broadcast<T>(0.5f) * (low + high);
            T depth = broadcast<T>(-far_away), slope = none;
            for (int j = 0; j < 3; ++j) {
                const T x = fma(s, d[j], p[j]), beyond = absolute(x) - sizes[j];
                slope = select<T>(depth - beyond, d[j] * sign(x), slope);
                depth = most(depth, beyond);
            }
            narrow(s, slope, low, high);
        }
        return select<T>(inside, broadcast<T>(0.5f) * (low + high), found);
    }
    static GRIDGEN_DEVICE T square(Point<T> d) {
        const Real<T> none = 0;
        const Point<T> p = {select<T>(d.x, none, d.x), select<T>(d.y, none, d.y),
                            select<T>(d.z, none, d.z)};
        return dot(p, p);
    }
    GRIDGEN_DEVICE T nearer(Point<T> c, T reach) const {
        const Point<T> d = outside(c);
        return select<T>(reach, most(most(d.x, d.y), d.z) - reach, fnma(reach, reach, square(d)));
    }
    GRIDGEN_DEVICE T distance(Point<T> c) const {
        const Point<T> d = outside(c);
        const T inside = most(most(d.x, d.y), d.z);
        return sqrt(square(d)) + select<T>(inside, inside, Real<T>(0));
    }
    // Outside towards the nearest point; inside along the axis of the nearest face.
    GRIDGEN_DEVICE Point<T> slope(Point<T> c) const {
        const Point<T> arm = c - center, d = outside(c);
        const T none = broadcast<T>(0), one = broadcast<T>(1), inside = most(most(d.x, d.y), d.z);
        const Point<T> beyond = unit(Point<T>{most(d.x, none), most(d.y, none), most(d.z, none)});
        const T x = select<T>(d.x - inside, none, one);
        const T y = select<T>(d.y - inside, none, one - x);
        const Point<T> along = {select<T>(inside, x, beyond.x), select<T>(inside, y, beyond.y),
                                select<T>(inside, one - x - y, beyond.z)};
        const Point<T> turned = {along.x * sign(dot(axes[0], arm)), along.y * sign(dot(axes[1], arm)),
                                 along.z * sign(dot(axes[2], arm))};
        const Point<T> columns[] = {{axes[0].x, axes[1].x, axes[2].x},
                                    {axes[0].y, axes[1].y, axes[2].y},
                                    {axes[0].z, axes[1].z, axes[2].z}};
        return {dot(columns[0], turned), dot(columns[1], turned), dot(columns[2], turned)};
    }
    GRIDGEN_DEVICE void write(const T* x, Point<T>, T* record) const {
        for (int k = 0; k < size; ++k) record[k] = x[k];
    }
};

template <class T> struct HalfSpace {
    static constexpr int kind = 3, size = 4;
    static constexpr bool is_convex = true;
    Point<T> normal;
    T offset;

    GRIDGEN_DEVICE explicit HalfSpace(const T* x) : normal{x[0], x[1], x[2]}, offset(x[3]) {}
    GRIDGEN_DEVICE T place(Point<T>, Point<T> h, Real<T>, Real<T>) const {
        const T one = broadcast<T>(1);
        return select<T>(dot(normal, h), one, -one);
    }
    GRIDGEN_DEVICE T nearer(Point<T> c, T reach) const { return distance(c) - reach; }
    GRIDGEN_DEVICE T distance(Point<T> c) const { return dot(normal, c) - offset; }
    GRIDGEN_DEVICE Point<T> slope(Point<T>) const { return normal; }
    GRIDGEN_DEVICE void write(const T* x, Point<T>, T* record) const {
        for (int k = 0; k < size; ++k) record[k] = x[k];
    }
};

// A grid of signed distances, interpolated in each cell; beyond its faces as at the nearest point.
template <class T, class W> struct Grid {
    static constexpr int kind = 4;
    static constexpr bool is_convex = false;  // nothing follows from the distance of a larger sphere
    const W& world;
    int begin, extents[3];
    Point<T> origin;
    T inverse, spacing;

    GRIDGEN_DEVICE Grid(const W& world, int begin, const int (&n)[3])
        : world(world), begin(begin), extents{n[0], n[1], n[2]},
          origin{world[begin], world[begin + 1], world[begin + 2]}, spacing(world[begin + 3]) {
        inverse = broadcast<T>(1) / spacing;
    }
    // The nearest of points at most half a radius apart.
    GRIDGEN_DEVICE T place(Point<T> c, Point<T> h, Real<T> length, Real<T> radius) const {
        const int count = int(4 * length / radius - Real<T>(1e-3)) + 1;
        T found = broadcast<T>(-1), best = distance(along(c, found, h));
        GRIDGEN_ROLLED
        for (int k = 1; k <= count; ++k) {
            const T s = broadcast<T>(Real<T>(2 * k) / count - 1);
            const T other = distance(along(c, s, h));
            found = select<T>(other - best, s, found);
            best = least(other, best);
        }
        return found;
    }
    static GRIDGEN_DEVICE T cell(T at, int extent) {
        return truncated(least(most(at, broadcast<T>(0)), broadcast<T>(extent - 2)));
    }
    GRIDGEN_DEVICE void write(const T*, Point<T> c, T* record) const {
        const T i = cell((c.x - origin.x) * inverse, extents[0]);
        const T j = cell((c.y - origin.y) * inverse, extents[1]);
        const T k = cell((c.z - origin.z) * inverse, extents[2]);
        record[0] = fma(i, spacing, origin.x);
        record[1] = fma(j, spacing, origin.y);
        record[2] = fma(k, spacing, origin.z);
        record[3] = inverse;
        GRIDGEN_ROLLED
        for (int corner = 0; corner < 8; ++corner) {
            const int x = corner >> 2, y = corner >> 1 & 1, z = corner & 1;
            // Exact in float: a grid has less than 2^24 points.
            const T row = fma(i + Real<T>(x), broadcast<T>(extents[1]), j + Real<T>(y));
            const T index = fma(row, broadcast<T>(extents[2]), k + Real<T>(z));
            record[4 + corner] = gathered<T>(world, begin + grid_head, index);
        }
    }
    GRIDGEN_DEVICE T distance(Point<T> c) const {
        T r[record_size];
        write(nullptr, c, r);
        const T one = broadcast<T>(1), none = broadcast<T>(0);
        const T x = least(most((c.x - r[0]) * inverse, none), one);
        const T y = least(most((c.y - r[1]) * inverse, none), one);
        const T z = least(most((c.z - r[2]) * inverse, none), one);
        T* const v = r + 4;
        for (int k = 0; k < 4; ++k) v[k] = fma(x, v[k + 4] - v[k], v[k]);
        for (int k = 0; k < 2; ++k) v[k] = fma(y, v[k + 2] - v[k], v[k]);
        return fma(z, v[1] - v[0], v[0]);
    }
    GRIDGEN_DEVICE T nearer(Point<T> c, T reach) const { return distance(c) - reach; }
    GRIDGEN_DEVICE Point<T> slope(Point<T> c) const {
        T r[record_size];
        write(nullptr, c, r);
        const T one = broadcast<T>(1), none = broadcast<T>(0);
        const T parts[] = {(c.x - r[0]) * inverse, (c.y - r[1]) * inverse, (c.z - r[2]) * inverse};
        T found[3];
        for (int axis = 0; axis < 3; ++axis) {
            found[axis] = none;
            for (int corner = 0; corner < 8; ++corner) {
                T weight = r[4 + corner];
                for (int k = 0; k < 3; ++k) {
                    const bool is_far = corner >> (2 - k) & 1;
                    const T part = least(most(parts[k], none), one);
                    weight = weight * (k == axis ? (is_far ? inverse : -inverse)
                                                 : (is_far ? part : one - part));
                }
                found[axis] = found[axis] + weight;
            }
            // Beyond the faces the distance is constant along the axis.
            found[axis] = select<T>(parts[axis], none, select<T>(one - parts[axis], none, found[axis]));
        }
        return {found[0], found[1], found[2]};
    }
};

// Visits all obstacles of a world until `visitor.visit(obstacle, numbers)` returns true. Adds all numbers
// to `visitor.total`: NaN is not less than any number, and must not be taken for an obstacle far away.
template <class T, class Shape, class W, class Visitor>
GRIDGEN_DEVICE bool visit_shapes(const W& world, int count, int& begin, Visitor& visitor) {
    GRIDGEN_ROLLED
    for (int k = 0; k < count; ++k, begin += Shape::size) {
        T numbers[Shape::size];
        for (int j = 0; j < Shape::size; ++j) {
            numbers[j] = world[begin + j];
            visitor.total = visitor.total + numbers[j];
        }
        if (visitor.visit(Shape(numbers), numbers)) return true;
    }
    return false;
}
template <class T, class W, class Visitor>
GRIDGEN_DEVICE void visit_obstacles(const W& world, Visitor& visitor) {
    int counts[7], begin = world_head;
    for (int k = 0; k < 7; ++k) counts[k] = int(leading(world, k));
    if (visit_shapes<T, Ball<T>>(world, counts[0], begin, visitor)) return;
    if (visit_shapes<T, Capsule<T>>(world, counts[1], begin, visitor)) return;
    if (visit_shapes<T, Box<T>>(world, counts[2], begin, visitor)) return;
    if (visit_shapes<T, HalfSpace<T>>(world, counts[3], begin, visitor)) return;
    const int extents[3] = {counts[4], counts[5], counts[6]};
    if (extents[0] > 1) {
        T none[1];
        visitor.visit(Grid<T, W>(world, begin, extents), none);
    }
}

// The nearest obstacle so far.
template <class T, class S> struct Nearest {
    const S& spheres;
    T best, sphere, radius, kind, place, record[record_size], total = broadcast<T>(0);

    GRIDGEN_DEVICE explicit Nearest(const S& spheres) : spheres(spheres) {
        best = broadcast<T>(far_away);
        sphere = radius = place = broadcast<T>(0);
        kind = broadcast<T>(HalfSpace<T>::kind);
        for (int k = 0; k < record_size; ++k) record[k] = broadcast<T>(0);
        record[3] = -best;
    }
    template <class Shape> GRIDGEN_DEVICE bool visit(const Shape& obstacle, const T* x) {
        each_near(*this, obstacle, x, best, best);
        return false;
    }
    // Replaces the nearest obstacle where `nearer` is negative.
    template <class Shape>
    GRIDGEN_DEVICE void act(const Shape& obstacle, const T* x, int k, Point<T> c, T s, Real<T> own,
                            T nearer) {
        T made[record_size];
        for (int j = 0; j < record_size; ++j) made[j] = broadcast<T>(0);
        obstacle.write(x, c, made);
        best = select<T>(nearer, obstacle.distance(c) - own, best);
        sphere = select<T>(nearer, Real<T>(k), sphere);
        radius = select<T>(nearer, own, radius);
        kind = select<T>(nearer, Real<T>(Shape::kind), kind);
        place = select<T>(nearer, s, place);
        for (int j = 0; j < record_size; ++j) record[j] = select<T>(nearer, made[j], record[j]);
    }
};

template <class T, int capsules = 0, int size, class Radii, class W, class... Record>
GRIDGEN_LARGE void nearest_obstacle(const Numbers<T, size>& numbers, const Radii& radii,
                                    const int* links, const W& world, T& sphere, T& radius, T& kind,
                                    T& place, Record&... record) {
    using S = Spheres<T, size, Radii, capsules>;
    const S spheres = {numbers.x, radii, links};
    Nearest<T, S> found(spheres);
    visit_obstacles<T>(world, found);
    sphere = found.sphere;
    radius = found.radius + spheres.zero() + (found.total - found.total);
    kind = found.kind;
    place = found.place;
    int j = 0;
    ((record = found.record[j++]), ...);
}

// The terms of a soft minimum of distances, -t log sum exp(-d / t): those that count next to the term
// of the smallest distance. With slopes, their derivatives by the centers too.
template <class T, class S, int size> struct Soft {
    const S& spheres;
    const T best, temperature, inverse;
    const T end;  // terms of larger distances are less than an ulp; links are tested with a reserve
    T sum = broadcast<T>(0), total = broadcast<T>(0), slopes[size ? size : 1];

    GRIDGEN_DEVICE Soft(const S& spheres, T best, T temperature)
        : spheres(spheres), best(best), temperature(temperature),
          inverse(broadcast<T>(1) / temperature),
          end(fma(Real<T>(sizeof(Real<T>) == 4 ? 17 : 37), temperature, best)) {
        for (int k = 0; k < size; ++k) slopes[k] = broadcast<T>(0);
    }
    // Returns the term of a distance where `nearer` is negative, elsewhere zero.
    GRIDGEN_DEVICE T add(T nearer, T distance) {
        const T term = select<T>(nearer, exp((best - distance) * inverse), Real<T>(0));
        sum = sum + term;
        return term;
    }
    GRIDGEN_DEVICE void move(int k, Point<T> change) {
        slopes[3 * k] = slopes[3 * k] + change.x;
        slopes[3 * k + 1] = slopes[3 * k + 1] + change.y;
        slopes[3 * k + 2] = slopes[3 * k + 2] + change.z;
    }
    // Adds the derivatives by the center and by the axis of a sphere.
    GRIDGEN_DEVICE void move(int k, Point<T> change, T place) {
        move(k, change);
        if constexpr (S::has_axes)
            if (const int a = spheres.axis(k); a >= 0) move(a, place * change);
    }
    GRIDGEN_DEVICE void visit_pair(int a, int b) {
        const auto act = [&](int i, int j, Point<T> gap, T s, T t, Real<T> both, T nearer) {
            const T term = add(nearer, sqrt(dot(gap, gap)) - both);
            if constexpr (size > 0) {
                const Point<T> change = term * unit(gap);
                move(i, change, s);
                move(j, broadcast<T>(-1) * change, t);
            }
        };
        each_near_pair(spheres, a, b, end + temperature, end, act);
    }
    template <class Shape> GRIDGEN_DEVICE bool visit(const Shape& obstacle, const T* x) {
        each_near(*this, obstacle, x, end + temperature, end);
        return false;
    }
    template <class Shape>
    GRIDGEN_DEVICE void act(const Shape& obstacle, const T*, int k, Point<T> c, T s, Real<T> own,
                            T nearer) {
        const T term = add(nearer, obstacle.distance(c) - own);
        if constexpr (size > 0) move(k, term * obstacle.slope(c), s);
    }
    // The soft minimum; the derivatives by the centers.
    GRIDGEN_DEVICE T value() const {
        const T terms = select<T>(-sum, sum, Real<T>(1));
        return fnma(temperature, log(terms), best) + spheres.zero() + (total - total);
    }
    template <class... Slopes> GRIDGEN_DEVICE void write(Slopes&... results) const {
        const T scale = broadcast<T>(1) / select<T>(-sum, sum, Real<T>(1));
        const T zero = spheres.zero() + (total - total);
        int k = 0;
        ((results = fma(scale, slopes[k++], zero)), ...);
    }
};

// The temperature is the last of the numbers.
template <int count, class T, int size, class Radii, int capsules>
GRIDGEN_LARGE auto soft_terms(const Numbers<T, size>& numbers,
                              const Spheres<T, size, Radii, capsules>& spheres, const int* pairs) {
    T unused[6];
    const T best = nearest_pair<T, capsules>(numbers, spheres.radii, spheres.links, pairs, unused[0],
                                             unused[1], unused[2], unused[3], unused[4], unused[5]);
    Soft<T, Spheres<T, size, Radii, capsules>, count> terms(spheres, best, numbers.x[size - 1]);
    GRIDGEN_ROLLED
    for (int p = 0; p < pairs[0]; ++p) terms.visit_pair(pairs[1 + 2 * p], pairs[2 + 2 * p]);
    return terms;
}
template <class T, int capsules = 0, int size, class Radii>
GRIDGEN_LARGE void soft_pairs(const Numbers<T, size>& numbers, const Radii& radii, const int* links,
                              const int* pairs, T& soft) {
    const Spheres<T, size, Radii, capsules> spheres = {numbers.x, radii, links};
    soft = soft_terms<0>(numbers, spheres, pairs).value();
}
template <class T, int capsules = 0, int size, class Radii, class... Slopes>
GRIDGEN_LARGE void soft_pair_slopes(const Numbers<T, size>& numbers, const Radii& radii,
                                    const int* links, const int* pairs, Slopes&... slopes) {
    const Spheres<T, size, Radii, capsules> spheres = {numbers.x, radii, links};
    soft_terms<sizeof...(slopes)>(numbers, spheres, pairs).write(slopes...);
}
template <int count, class T, int size, class Radii, int capsules, class W>
GRIDGEN_LARGE auto soft_obstacle_terms(const Numbers<T, size>& numbers,
                                       const Spheres<T, size, Radii, capsules>& spheres,
                                       const W& world) {
    using S = Spheres<T, size, Radii, capsules>;
    Nearest<T, S> nearest(spheres);
    visit_obstacles<T>(world, nearest);
    Soft<T, S, count> terms(spheres, nearest.best, numbers.x[size - 1]);
    visit_obstacles<T>(world, terms);
    return terms;
}
template <class T, int capsules = 0, int size, class Radii, class W>
GRIDGEN_LARGE void soft_obstacles(const Numbers<T, size>& numbers, const Radii& radii,
                                  const int* links, const W& world, T& soft) {
    const Spheres<T, size, Radii, capsules> spheres = {numbers.x, radii, links};
    soft = soft_obstacle_terms<0>(numbers, spheres, world).value();
}
template <class T, int capsules = 0, int size, class Radii, class W, class... Slopes>
GRIDGEN_LARGE void soft_obstacle_slopes(const Numbers<T, size>& numbers, const Radii& radii,
                                        const int* links, const W& world, Slopes&... slopes) {
    const Spheres<T, size, Radii, capsules> spheres = {numbers.x, radii, links};
    soft_obstacle_terms<sizeof...(slopes)>(numbers, spheres, world).write(slopes...);
}

// Whether nothing is nearer than a margin: 1 where it is so, otherwise 0.
template <class T, class S> struct Apart {
    const S& spheres;
    const T margin;
    T free = broadcast<T>(1), total;

    GRIDGEN_DEVICE Apart(const S& spheres, T margin)
        : spheres(spheres), margin(margin), total(margin) {}

    // Whether a state that is free so far has a negative number.
    GRIDGEN_DEVICE bool matters(T test) const {
        return any_negative(select<T>(test, -free, Real<T>(1)));
    }
    // Marks states with a negative number; returns whether none is free.
    GRIDGEN_DEVICE bool collide(T test) {
        free = select<T>(test, Real<T>(0), free);
        return !any_negative(-free);
    }
    // Tests links a and b; returns whether no state is free.
    GRIDGEN_DEVICE bool visit_pair(int a, int b) {
        const int around = spheres.around(a);
        if (!matters(apart(spheres, spheres.center(around), around, spheres.around(b), margin)))
            return false;
        GRIDGEN_ROLLED
        for (int i = spheres.first(a); i < spheres.first(a + 1); ++i) {
            const Point<T> c = spheres.center(i);
            // A branch costs more than the tests of two spheres.
            if (spheres.first(b + 1) - spheres.first(b) > 2 &&
                !matters(apart(spheres, c, i, spheres.around(b), margin)))
                continue;
            T test = broadcast<T>(1);
            for (int j = spheres.first(b); j < spheres.first(b + 1); ++j)
                test = least(test, apart(spheres, c, i, j, margin));
            if (collide(test)) return true;
        }
        return false;
    }
    template <class Shape> GRIDGEN_DEVICE bool visit(const Shape& obstacle, const T*) {
        GRIDGEN_ROLLED
        for (int link = 0; link < spheres.moving(); ++link) {
            const int around = spheres.around(link);
            const T reach = margin + spheres.radius(around);
            if (Shape::is_convex && !matters(obstacle.nearer(spheres.center(around), reach)))
                continue;
            T test = broadcast<T>(1);
            for (int k = spheres.first(link); k < spheres.first(link + 1); ++k) {
                T s;
                Real<T> own;
                const Point<T> c = spheres.facing(obstacle, k, s, own);
                const T nearer = obstacle.nearer(c, margin + own);
                if (!Shape::is_convex) total = total + nearer;
                test = least(test, nearer);
            }
            if (collide(test)) return true;
        }
        return false;
    }
};

// The margin is the last of the numbers.
template <class T, int capsules = 0, int size, class Radii, class W>
GRIDGEN_LARGE void are_apart(const Numbers<T, size>& numbers, const Radii& radii, const int* links,
                             const int* pairs, const W& world, T& free) {
    using S = Spheres<T, size, Radii, capsules>;
    const S spheres = {numbers.x, radii, links};
    Apart<T, S> all(spheres, numbers.x[size - 1]);
    bool is_over = false;
    GRIDGEN_ROLLED
    for (int p = 0; p < pairs[0] && !is_over; ++p)
        is_over = all.visit_pair(pairs[1 + 2 * p], pairs[2 + 2 * p]);
    if (!is_over) visit_obstacles<T>(world, all);
    const T zero = spheres.zero() + (all.total - all.total);
    free = select<T>(zero - Real<T>(1), all.free, Real<T>(0));
}

// --- Height fields ------------------------------------------------------------------------------

// The cell of a terrain below a point: its first point with the height there, and the slopes of the
// triangle below the point. dynamics/contacts/terrain.py describes the array.
template <class T, class Row>
GRIDGEN_LARGE void triangle_below(const Numbers<T, 2>& point, const Row& terrain, T& x, T& y, T& height,
                                  T& slope_x, T& slope_y) {
    const int rows = int(leading(terrain, 0)), columns = int(leading(terrain, 1));
    const T start_x = terrain[2], start_y = terrain[3], step_x = terrain[4], step_y = terrain[5];
    const T none = broadcast<T>(0);
    const T u = (point.x[0] - start_x) / step_x, v = (point.x[1] - start_y) / step_y;
    const T i = truncated(least(most(u, none), broadcast<T>(columns - 2)));
    const T j = truncated(least(most(v, none), broadcast<T>(rows - 2)));
    // Exact in float: a terrain has less than 2^24 points.
    const T first = fma(j, broadcast<T>(columns), i), next = first + Real<T>(columns);
    const T a = gathered<T>(terrain, terrain_head, first), b = gathered<T>(terrain, terrain_head + 1, first);
    const T c = gathered<T>(terrain, terrain_head, next), d = gathered<T>(terrain, terrain_head + 1, next);
    const T below = (v - j) - (u - i);  // the diagonal
    const T in_x = least(u, broadcast<T>(columns - 1) - u), in_y = least(v, broadcast<T>(rows - 1) - v);
    const T inside = least(in_x, in_y);
    x = fma(i, step_x, start_x);
    y = fma(j, step_y, start_y);
    height = select<T>(inside, Real<T>(-1e6f), a);
    slope_x = select<T>(inside, none, select<T>(below, b - a, d - c) / step_x);
    slope_y = select<T>(inside, none, select<T>(below, d - b, c - a) / step_y);
}

// --- Convex hulls -------------------------------------------------------------------------------

// The corners of a hull that touch a plane, in the frame of its shape. The lowest corner comes first,
// then those of its most parallel face that are below the plane and below the hull's origin. Others are
// far above. Given are the normal of the plane, the height of the hull's origin, and the number of the
// hull. dynamics/contacts/hulls.py describes the arrays.
template <class T, class Reals>
GRIDGEN_LARGE void lowest_face(const Numbers<T, 5>& given, const Reals& reals, const int* faces, T& x0, T& y0,
                               T& z0, T& x1, T& y1, T& z1, T& x2, T& y2, T& z2, T& x3, T& y3, T& z3) {
    const Point<T> up = {given.x[0], given.x[1], given.x[2]};
    const int hull = leading_index(given.x[4]);
    const int* const firsts = faces + 1;
    const int* const begins = firsts + faces[0] + 1;
    const int count = firsts[faces[0]];
    const int* const records = begins + count + 1;
    const Real<T>*const corners = &reals[0], *const normals = corners + 3 * count;
    const auto vector = [](const Real<T>* from, T index) {
        const T first = Real<T>(3) * index;
        return Point<T>{gathered<T>(from, 0, first), gathered<T>(from, 1, first), gathered<T>(from, 2, first)};
    };
    const T none = broadcast<T>(0), away = broadcast<T>(far_away);

    T lowest = away, corner = none;
    GRIDGEN_ROLLED
    for (int k = firsts[hull]; k < firsts[hull + 1]; ++k) {
        const Real<T>* const own = corners + 3 * k;
        const T height = fma(up.x, broadcast<T>(own[0]), fma(up.y, broadcast<T>(own[1]), own[2] * up.z));
        const T test = height - lowest;
        corner = select<T>(test, broadcast<T>(k), corner);
        lowest = select<T>(test, height, lowest);
    }

    T place = gathered<T>(begins, 0, corner), steepest = away, record = place;
    const T last = gathered<T>(begins, 1, corner) - Real<T>(1);
    GRIDGEN_ROLLED
    while (any_negative(place - last - Real<T>(0.5))) {
        const T own = least(place, last);
        const T slope = dot(up, vector(normals, gathered<T>(records, 0, Real<T>(5) * own)));
        const T test = slope - steepest;
        record = select<T>(test, own, record);
        steepest = select<T>(test, slope, steepest);
        place = place + Real<T>(1);
    }

    T* const found[4][3] = {{&x0, &y0, &z0}, {&x1, &y1, &z1}, {&x2, &y2, &z2}, {&x3, &y3, &z3}};
    for (int k = 0; k < 4; ++k) {
        const T index = gathered<T>(records, 1 + k, Real<T>(5) * record);
        const Point<T> own = vector(corners, most(index, none));
        const T height = dot(up, own);
        // Positive for a corner that does not touch.
        const T test = k == 0 ? none : most(most(height, height + given.x[3]), Real<T>(-0.5) - index);
        *found[k][0] = select<T>(-test, Real<T>(1e6f) * up.x, own.x);
        *found[k][1] = select<T>(-test, Real<T>(1e6f) * up.y, own.y);
        *found[k][2] = select<T>(-test, Real<T>(1e6f) * up.z, own.z);
    }
}

}  // namespace gridgen

#endif  // GRIDGEN_DISTANCE_CUH
