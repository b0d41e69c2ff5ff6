// Algebra of the constraint-force system: small dense blocks, and links as inverse inertias.
//
// N x N blocks, N known at compile time. Shared blocks are stored element by element: element e of
// block b is data[e * count + b], so that lanes at consecutive blocks access consecutive words.
// Routines read the required rows one at a time: at most one block and two rows are in registers. A
// symmetric block is its lower triangle by rows; after cholesky() it contains L of A = L L^T with the
// reciprocals of L's diagonal on the diagonal.
//
// As in gridgen_bodies.cuh, every product that enters a sum is a fused multiply-add.
#ifndef GRIDGEN_BLOCKS_CUH
#define GRIDGEN_BLOCKS_CUH

#include "gridgen_scan.cuh"

namespace gridgen {
namespace blocks {

// --- Blocks -------------------------------------------------------------------------------------

// Many blocks (or vectors) of the same kind.
template <class T> struct Blocks {
    T* data;
    int count;

    GRIDGEN_DEVICE T& at(int element, int block) const { return data[element * count + block]; }
};

// x -= a b
template <class T> GRIDGEN_DEVICE void subtract(T& x, T a, T b) { x = Lanes<T>::fma(-a, b, x); }

// Number of entries of a lower triangle.
GRIDGEN_DEVICE constexpr int triangle(int n) { return n * (n + 1) / 2; }

// An array of numbers, or a record that consists of numbers only.
template <class Record, class T> GRIDGEN_DEVICE void read(Blocks<T> from, int block, Record& x) {
#pragma unroll
    for (int e = 0; e < int(sizeof(Record) / sizeof(T)); ++e)
        scan::component<T>(x, e) = from.at(e, block);
}

template <class Record, class T> GRIDGEN_DEVICE Record read(Blocks<T> from, int block) {
    Record x;
    read(from, block, x);
    return x;
}

template <class Record, class T>
GRIDGEN_DEVICE void write(Blocks<T> to, int block, const Record& x) {
#pragma unroll
    for (int e = 0; e < int(sizeof(Record) / sizeof(T)); ++e)
        to.at(e, block) = scan::component<T>(x, e);
}

GRIDGEN_DEVICE float square_root(float x) {
#if defined(__CUDA_ARCH__)
    return sqrtf(x);
#else
    return __builtin_sqrtf(x);
#endif
}

GRIDGEN_DEVICE double square_root(double x) {
#if defined(__CUDA_ARCH__)
    return sqrt(x);
#else
    return __builtin_sqrt(x);
#endif
}

// A = L L^T in place. A block that is not positive definite becomes NaN.
template <int N, class T> GRIDGEN_DEVICE void cholesky(T (&a)[triangle(N)]) {
#pragma unroll
    for (int k = 0; k < N; ++k) {
        const T inverse = T(1) / square_root(a[triangle(k) + k]);
        a[triangle(k) + k] = inverse;
#pragma unroll
        for (int i = k + 1; i < N; ++i) a[triangle(i) + k] *= inverse;
#pragma unroll
        for (int i = k + 1; i < N; ++i) {
#pragma unroll
            for (int j = k + 1; j <= i; ++j)
                subtract(a[triangle(i) + j], a[triangle(i) + k], a[triangle(j) + k]);
        }
    }
}

// x = L^-1 x
template <int N, class T>
GRIDGEN_DEVICE void solve_lower(const T (&l)[triangle(N)], T (&x)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
#pragma unroll
        for (int j = 0; j < i; ++j) subtract(x[i], l[triangle(i) + j], x[j]);
        x[i] *= l[triangle(i) + i];
    }
}

// x = L^-T x
template <int N, class T>
GRIDGEN_DEVICE void solve_upper(const T (&l)[triangle(N)], T (&x)[N]) {
#pragma unroll
    for (int i = N - 1; i >= 0; --i) {
#pragma unroll
        for (int j = i + 1; j < N; ++j) subtract(x[i], l[triangle(j) + i], x[j]);
        x[i] *= l[triangle(i) + i];
    }
}

// A = L^-1 A for one block of many, column by column.
template <int N, class T>
GRIDGEN_DEVICE void solve_block(const T (&l)[triangle(N)], Blocks<T> blocks, int block) {
#pragma unroll
    for (int column = 0; column < N; ++column) {
        T x[N];
#pragma unroll
        for (int row = 0; row < N; ++row) x[row] = blocks.at(row * N + column, block);
        solve_lower<N>(l, x);
#pragma unroll
        for (int row = 0; row < N; ++row) blocks.at(row * N + column, block) = x[row];
    }
}

// sum -= Y^T Y, the lower triangle.
template <int N, class T>
GRIDGEN_DEVICE void subtract_square(T (&sum)[triangle(N)], Blocks<T> blocks, int y) {
#pragma unroll
    for (int k = 0; k < N; ++k) {
        T row[N];
#pragma unroll
        for (int i = 0; i < N; ++i) row[i] = blocks.at(k * N + i, y);
#pragma unroll
        for (int i = 0; i < N; ++i) {
#pragma unroll
            for (int j = 0; j <= i; ++j) subtract(sum[triangle(i) + j], row[i], row[j]);
        }
    }
}

// sum -= left^T right
template <int N, class T>
GRIDGEN_DEVICE void subtract_product(T (&sum)[N * N], Blocks<T> blocks, int left, int right) {
#pragma unroll
    for (int k = 0; k < N; ++k) {
        T row[N];
#pragma unroll
        for (int j = 0; j < N; ++j) row[j] = blocks.at(k * N + j, right);
#pragma unroll
        for (int i = 0; i < N; ++i) {
            const T factor = blocks.at(k * N + i, left);
#pragma unroll
            for (int j = 0; j < N; ++j) subtract(sum[i * N + j], factor, row[j]);
        }
    }
}

// x -= Y^T z
template <int N, class T>
GRIDGEN_DEVICE void subtract_transposed(T (&x)[N], Blocks<T> blocks, int y, const T (&z)[N]) {
#pragma unroll
    for (int k = 0; k < N; ++k) {
#pragma unroll
        for (int i = 0; i < N; ++i) subtract(x[i], blocks.at(k * N + i, y), z[k]);
    }
}

// x -= Y z
template <int N, class T>
GRIDGEN_DEVICE void subtract_applied(T (&x)[N], Blocks<T> blocks, int y, const T (&z)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
#pragma unroll
        for (int k = 0; k < N; ++k) subtract(x[i], blocks.at(i * N + k, y), z[k]);
    }
}

// --- Links and joints ---------------------------------------------------------------------------

// The order of components in blocks: the axis of the joint's motion is last, so that its constraints
// are the first five. A prismatic joint swaps its z components. For a joint with a pitch, the sliding
// component is subtracted from its motions, and its constraints transmit no
// joint torque.
template <class T>
GRIDGEN_DEVICE void to_joint_order(const scan::Spatial<T>& motion, const scan::Screw<T>& axis,
                                   T (&x)[6]) {
    x[0] = motion.linear.x;
    x[1] = motion.linear.y;
    x[2] = axis.slides ? motion.angular.z : motion.linear.z;
    x[3] = motion.angular.x;
    x[4] = motion.angular.y;
    x[5] = axis.slides ? motion.linear.z : motion.angular.z;
    if (axis.pitch != T(0)) x[2] = scan::fma(-axis.pitch, x[5], x[2]);
}

template <class T>
GRIDGEN_DEVICE scan::Spatial<T> from_joint_order(const T (&x)[6], const scan::Screw<T>& axis) {
    scan::Spatial<T> F{{x[0], x[1], axis.slides ? x[5] : x[2]},
                       {x[3], x[4], axis.slides ? x[2] : x[5]}};
    if (axis.pitch != T(0)) F.angular.z = scan::fma(-axis.pitch, x[2], x[5]);
    return F;
}

// The unit vector of one component.
template <class T>
GRIDGEN_DEVICE scan::Spatial<T> unit(int component, const scan::Screw<T>& axis) {
    T x[6];
#pragma unroll
    for (int k = 0; k < 6; ++k) x[k] = T(k == component);
    return from_joint_order(x, axis);
}

}  // namespace blocks
}  // namespace gridgen

#endif  // GRIDGEN_BLOCKS_CUH
