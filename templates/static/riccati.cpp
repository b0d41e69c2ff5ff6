// Backward pass of iterative LQR for a batch of trajectories, one in each SIMD lane, with box limits of
// the controls (Tassa, Mansard, Todorov 2014). All matrices are row-major. A step maps a change x of a
// state of N numbers, positions and velocities, and a change u of the last M of U controls to
// A x + B u. The last D positions q move by their next velocities: q + dt qd. Their rows of A and B are
// never read: y, the other R rows, are C x + B u, and the next state is E x + F y.
#include "gridgen_simd.h"

namespace gridgen {
namespace {

constexpr int N = GRIDGEN_N, M = GRIDGEN_M, U = GRIDGEN_U, D = GRIDGEN_D, P = GRIDGEN_P;
constexpr int H = N / 2, R = N - D, dense = H - D;
using Element = GRIDGEN_REAL;
using Number = Pack<Element>;
using Lane = Lanes<Number>;
constexpr int W = pack_size<Element>, tile = pack_bytes == 64 ? 4 : 2;

struct Step {
    Number A[R * N], B[R * U], lx[N], lu[M], luu[M], lower[M], upper[M], diagonal[N];
    Number coupled[P * P + 1];
    Number V[N * N], v[N], FV[R * N], w[R], WF[R * R], VA[R * N], VB[R * M], Qxx[N * N], Qx[N];
    Number Qux[M * N], Quu[M * M], plain[M * M], g[M], u[M], force[M], K[M * N], minus[M * N];
    Number rows[M * N], held[M], L[M * M], first, second;
};

#define UNROLLED _Pragma("GCC unroll 4")  // short loops over numbers that stay in registers

// Adds the product of a and b to a block of rows and columns of sum.
template <int rows, int columns>
GRIDGEN_DEVICE void add_block(Number* sum, int stride, const Number* a, int down, int along,
                              const Number* b, int width, int depth) {
    Number block[rows][columns];
    UNROLLED for (int i = 0; i < rows; ++i)
        UNROLLED for (int j = 0; j < columns; ++j) block[i][j] = sum[i * stride + j];
    for (int k = 0; k < depth; ++k, a += along, b += width)
        UNROLLED for (int i = 0; i < rows; ++i)
            UNROLLED for (int j = 0; j < columns; ++j)
                block[i][j] = Lane::fma(a[i * down], b[j], block[i][j]);
    UNROLLED for (int i = 0; i < rows; ++i)
        UNROLLED for (int j = 0; j < columns; ++j) sum[i * stride + j] = block[i][j];
}

template <int rows, int columns>
GRIDGEN_DEVICE void add_strip(Number* sum, int stride, const Number* a, int down, int along,
                              const Number* b, int width, int depth, int end) {
    int j = 0;
    for (; j < end && j + tile <= columns; j += tile)
        add_block<rows, tile>(sum + j, stride, a, down, along, b + j, width, depth);
    if constexpr (columns % tile > 0)
        if (j < end)
            add_block<rows, columns % tile>(sum + j, stride, a, down, along, b + j, width, depth);
}

// Adds a product, in blocks that stay in registers; of a square result without blocks above the
// diagonal, if it is symmetric. Element (i, k) of a is a[i * down + k * along].
template <int rows, int columns, bool is_symmetric = false>
GRIDGEN_PART void add_product(Number* sum, int stride, const Number* a, int down, int along,
                              const Number* b, int width, int depth) {
    int i = 0;
    for (; i + tile <= rows; i += tile)
        add_strip<tile, columns>(sum + i * stride, stride, a + i * down, down, along, b, width, depth,
                                 is_symmetric ? i + tile : columns);
    if constexpr (rows % tile > 0)
        add_strip<rows % tile, columns>(sum + i * stride, stride, a + i * down, down, along, b, width,
                                        depth, columns);
}

// Completes the blocks above the diagonal.
template <int n> void mirror(Number* x) {
    for (int i = 0; i < n; ++i)
        for (int j = i + 1; j < n; ++j) x[i * n + j] = x[j * n + i];
}

// Factors Q of the free controls as L L^T, with the inverse diagonal; returns the lanes that are not
// positive definite.
auto factor(const Number* Q, const Number* held, Number* L) {
    const Number one = Lane::broadcast(1.0), zero = {};
    auto fails = zero > one;
    for (int i = 0; i < M; ++i)
        for (int j = 0; j <= i; ++j) {
            const Number fixed = i == j ? one : zero;
            Number sum = (held[i] == 0.0) & (held[j] == 0.0) ? Q[i * M + j] : fixed;
            for (int k = 0; k < j; ++k) sum = Lane::fnma(L[i * M + k], L[j * M + k], sum);
            if (i != j) {
                L[i * M + j] = sum * L[j * M + j];
            } else {
                const auto is_positive = sum > 0.0;
                fails |= ~is_positive;
                L[i * M + i] = one / Lane::sqrt(is_positive ? sum : one);
            }
        }
    return fails;
}

template <int columns> GRIDGEN_PART void solve(const Number* L, Number* x) {
    for (int i = 0; i < M; ++i) {
        for (int k = 0; k < i; ++k)
            for (int c = 0; c < columns; ++c)
                x[i * columns + c] = Lane::fnma(L[i * M + k], x[k * columns + c], x[i * columns + c]);
        for (int c = 0; c < columns; ++c) x[i * columns + c] *= L[i * M + i];
    }
    for (int i = M - 1; i >= 0; --i) {
        for (int k = i + 1; k < M; ++k)
            for (int c = 0; c < columns; ++c)
                x[i * columns + c] = Lane::fnma(L[k * M + i], x[k * columns + c], x[i * columns + c]);
        for (int c = 0; c < columns; ++c) x[i * columns + c] *= L[i * M + i];
    }
}

template <class Bits> GRIDGEN_DEVICE bool any(Bits mask) {
    return Lane::any_negative(mask ? Lane::broadcast(-1.0) : Number{});
}

// Minimizes g u + u Q u / 2 between limits by an active set; ``held`` is 1 at the upper limit, -1 at
// the lower. Returns the lanes whose factorization fails.
auto minimize(Step& s) {
    const Number *lower = s.lower, *upper = s.upper;
    Number* u = s.u;
    const Number one = Lane::broadcast(1.0), zero = {};
    for (int i = 0; i < M; ++i) s.held[i] = lower[i] < upper[i] ? s.held[i] : one;
    auto fails = zero > one;
    for (int pass = 0; pass < 2 * M + 2; ++pass) {
        Number x[M];
        for (int i = 0; i < M; ++i)
            u[i] = s.held[i] > 0.0 ? upper[i] : s.held[i] < 0.0 ? lower[i] : zero;
        for (int i = 0; i < M; ++i) {
            x[i] = -s.g[i];
            for (int j = 0; j < M; ++j) x[i] = Lane::fnma(s.Quu[i * M + j], u[j], x[i]);
            x[i] = s.held[i] == 0.0 ? x[i] : zero;
        }
        fails = factor(s.Quu, s.held, s.L);
        solve<1>(s.L, x);
        for (int i = 0; i < M; ++i) u[i] = s.held[i] == 0.0 ? x[i] : u[i];
        Number next[M];
        auto changes = zero > one;
        for (int i = 0; i < M; ++i) {
            Number slope = s.g[i];
            for (int j = 0; j < M; ++j) slope = Lane::fma(s.Quu[i * M + j], u[j], slope);
            const Number beyond = u[i] > upper[i] ? one : u[i] < lower[i] ? -one : zero;
            const auto is_left = (s.held[i] * slope > 0.0) & (lower[i] < upper[i]);
            next[i] = s.held[i] == 0.0 ? beyond : is_left ? zero : s.held[i];
            changes |= next[i] != s.held[i];
        }
        if (!any(changes & ~fails)) return fails;
        for (int i = 0; i < M; ++i) s.held[i] = next[i];
    }
    for (int i = 0; i < M; ++i)
        u[i] = u[i] > upper[i] ? upper[i] : u[i] < lower[i] ? lower[i] : u[i];
    return fails;
}

// Numbers of one pack of problems, in rows that are ``stride`` apart.
template <int count> void load(Number* x, const Element* first, int64 stride, int64 b, int64 lanes) {
    if constexpr (count > 0)
        reinterpret_cast<Argument<Element, count>*>(x)->load(
            Array{const_cast<Element*>(first), stride, 1}, b, lanes);
}

// Fetches the numbers of the next step of the sweep.
template <int count> void prefetch(const Element* first, int64 stride, int64 b, int64 lanes) {
    for (int64 i = 0; i < lanes; ++i)
        for (int j = 0; j < count; j += 64 / int(sizeof(Element))) __builtin_prefetch(first + (b + i) * stride + j);
}

template <int count>
void store(const Number* x, Element* first, int64 stride, int64 b, int64 lanes) {
    reinterpret_cast<const Result<Element, count>*>(x)->store(Array{first, stride, 1}, b, lanes, false);
}

// F^T x.
GRIDGEN_DEVICE void pulled(const Number* x, int columns, Number dt, Number* result) {
    for (int r = 0; r < R; ++r) {
        const Number* row = x + (r < dense ? r : r + D) * columns;
        for (int j = 0; j < columns; ++j)
            result[r * columns + j] =
                r < 2 * dense ? row[j] : Lane::fma(dt, row[j - H * columns], row[j]);
    }
}

// Qux and Quu from V A and V B.
void control(Step& s) {
    const Number* B = s.B + U - M;
    for (int i = 0; i < M; ++i) {
        for (int j = 0; j < M; ++j) s.Quu[i * M + j] = i == j ? s.luu[i] : Number{};
        for (int j = 0; j < N; ++j) s.Qux[i * N + j] = Number{};
    }
    add_product<M, N>(s.Qux, N, B, 1, U, s.VA, N, R);
    add_product<M, M, true>(s.Quu, M, B, 1, U, s.VB, M, R);
    mirror<M>(s.Quu);
}

// One step backward; returns the lanes whose model has no minimum.
auto backward(Step& s, Number dt, Number near) {
    const Number* B = s.B + U - M;
    pulled(s.V, N, dt, s.FV);
    pulled(s.v, 1, dt, s.w);
    for (int r = 0; r < R; ++r) {
        const Number* row = s.FV + r * N;
        for (int q = 0; q < R; ++q) {
            const int column = q < dense ? q : q + D;
            s.WF[r * R + q] =
                q < 2 * dense ? row[column] : Lane::fma(dt, row[column - H], row[column]);
        }
        for (int j = 0; j < N; ++j) s.VA[r * N + j] = dense <= j && j < H ? row[j] : Number{};
        for (int j = 0; j < M; ++j) s.VB[r * M + j] = Number{};
    }
    add_product<R, N>(s.VA, N, s.WF, R, 1, s.A, N, R);
    add_product<R, M>(s.VB, M, s.WF, R, 1, B, U, R);
    control(s);
    for (int i = 0; i < M; ++i) {
        s.g[i] = s.lu[i];
        for (int r = 0; r < R; ++r) s.g[i] = Lane::fma(B[r * U + i], s.w[r], s.g[i]);
    }
    for (int i = 0; i < N; ++i) {
        const bool is_derived = dense <= i && i < H;
        s.Qx[i] = is_derived ? s.lx[i] + s.v[i] : s.lx[i];
        for (int r = 0; r < R; ++r) s.Qx[i] = Lane::fma(s.A[r * N + i], s.w[r], s.Qx[i]);
        for (int j = dense; is_derived && j <= i; ++j) s.Qxx[i * N + j] += s.V[i * N + j];
    }
    add_product<N, N, true>(s.Qxx, N, s.A, 1, N, s.VA, N, R);
    add_product<D, H>(s.Qxx + dense * N, N, s.FV + dense, 1, N, s.A, N, R);
    // The regularization near (A, B)^T (A, B) enters the gains, not the value.
    const bool is_regular = any(near > 0.0);
    for (int i = 0; i < M * M; ++i) s.plain[i] = s.Quu[i];
    for (int i = 0; i < M * N; ++i) s.minus[i] = -s.Qux[i];
    for (int r = 0; is_regular && r < R; ++r) {
        const Number scale = r < 2 * dense ? near : Lane::fma(near * dt, dt, near);
        for (int j = 0; j < N; ++j)
            s.VA[r * N + j] = Lane::fma(scale, s.A[r * N + j], s.VA[r * N + j]);
        for (int j = 0; j < M; ++j)
            s.VB[r * M + j] = Lane::fma(scale, B[r * U + j], s.VB[r * M + j]);
        if (r >= 2 * dense) s.VA[r * N + r - dense] += near * dt;
    }
    if (is_regular) control(s);
    const auto fails = minimize(s);
    // u = k - K x: V = Qxx + K^T Quu K - K^T Qux - Qux^T K, v = Qx - K^T (Quu k + g) + Qux^T k.
    for (int i = 0; i < M; ++i) {
        for (int j = 0; j < N; ++j)
            s.K[i * N + j] = s.held[i] == 0.0 ? s.Qux[i * N + j] : Number{};
        s.force[i] = Number{};
        for (int j = 0; j < M; ++j) s.force[i] = Lane::fma(s.plain[i * M + j], s.u[j], s.force[i]);
        s.first = Lane::fma(s.u[i], s.g[i], s.first);
        s.second = Lane::fma(Element(0.5) * s.u[i], s.force[i], s.second);
    }
    solve<N>(s.L, s.K);
    for (int j = 0; j < N; ++j) {
        s.v[j] = s.Qx[j];
        for (int i = 0; i < M; ++i) {
            s.v[j] = Lane::fnma(s.K[i * N + j], s.force[i] + s.g[i], s.v[j]);
            s.v[j] = Lane::fnma(s.minus[i * N + j], s.u[i], s.v[j]);
        }
    }
    add_product<N, N, true>(s.Qxx, N, s.minus, 1, N, s.K, N, M);
    if (is_regular) {  // otherwise Quu K = Qux in the rows of free controls, and K is 0 in others
        for (int i = 0; i < M * N; ++i) s.rows[i] = s.minus[i];
        add_product<M, N>(s.rows, N, s.plain, M, 1, s.K, N, M);
        add_product<N, N, true>(s.Qxx, N, s.K, 1, N, s.rows, N, M);
    }
    for (int i = 0; i < N; ++i)
        for (int j = 0; j <= i; ++j) s.V[i * N + j] = s.V[j * N + i] = s.Qxx[i * N + j];
    return fails;
}

// Derivatives of the cost by the states at one time.
GRIDGEN_DEVICE void load_cost(Step& s, const Element* lx, const Element* diagonal,
                              const Element* coupled, int64 at, int64 times, int64 b, int64 lanes) {
    load<N>(s.lx, lx + at * N, times * N, b, lanes);
    load<N>(s.diagonal, diagonal + at * N, times * N, b, lanes);
    load<P * P>(s.coupled, coupled + at * P * P, times * P * P, b, lanes);
    for (int i = 0; i < N * N; ++i) s.Qxx[i] = Number{};
    for (int i = 0; i < P; ++i)
        for (int j = 0; j < P; ++j) s.Qxx[i * N + j] = s.coupled[i * P + j];
    for (int i = 0; i < N; ++i) s.Qxx[i * N + i] += s.diagonal[i];
}

}  // namespace

// For each of ``batch`` trajectories: A (T, N, N), B (T, N, U), lx (T + 1, N), lu (T, U),
// diagonal (T + 1, N) and coupled (T + 1, P, P): parts of the Hessian by the states,
// luu (T, U), lower and upper (T, U): limits of the changes; near: regularization of the states.
// Results: k (T, U), K (T, U, N), the change is k - K x, and ``expected``: the linear and the quadratic
// part of the change of the cost, NaN where Quu is not positive definite.
extern "C" __attribute__((visibility("default"))) void gridgen_riccati(
    int64 batch, int64 T, double dt_, const Element* A, const Element* B, const Element* lx, const Element* lu,
    const Element* diagonal, const Element* coupled, const Element* luu, const Element* lower,
    const Element* upper, const Element* near_, Element* k, Element* K, Element* expected) {
    Borrowed<Step> step;
    const NoSubnormals<Element> flushed;
    Step& s = *step.operator->();
    const Number dt = Lane::broadcast(Element(dt_));
    for (int64 b = 0; b < batch; b += W) {
        const int64 lanes = b + W < batch ? W : batch - b;
        Number near, results[2];
        load<1>(&near, near_, 1, b, lanes);
        s.first = s.second = Number{};
        auto fails = s.first > s.second;
        for (int i = 0; i < M; ++i) s.held[i] = Number{};
        load_cost(s, lx, diagonal, coupled, T, T + 1, b, lanes);
        for (int i = 0; i < N * N; ++i) s.V[i] = s.Qxx[i];
        for (int i = 0; i < N; ++i) s.v[i] = s.lx[i];
        for (int64 t = T - 1; t >= 0; --t) {
            load<dense * N>(s.A, A + t * N * N, T * N * N, b, lanes);
            load<H * N>(s.A + dense * N, A + (t * N + H) * N, T * N * N, b, lanes);
            load<dense * U>(s.B, B + t * N * U, T * N * U, b, lanes);
            load<H * U>(s.B + dense * U, B + (t * N + H) * U, T * N * U, b, lanes);
            load_cost(s, lx, diagonal, coupled, t, T + 1, b, lanes);
            const int64 at = t * U + U - M;
            load<M>(s.lu, lu + at, T * U, b, lanes);
            load<M>(s.luu, luu + at, T * U, b, lanes);
            load<M>(s.lower, lower + at, T * U, b, lanes);
            load<M>(s.upper, upper + at, T * U, b, lanes);
            if (t > 0) {
                prefetch<H * N>(A + ((t - 1) * N + H) * N, T * N * N, b, lanes);
                prefetch<H * U>(B + ((t - 1) * N + H) * U, T * N * U, b, lanes);
            }
            fails |= backward(s, dt, near);
            store<M>(s.u, k + at, T * U, b, lanes);
            store<M * N>(s.K, K + at * N, T * U * N, b, lanes);
        }
        const Number none = Lane::broadcast(__builtin_nan(""));
        results[0] = fails ? none : s.first;
        results[1] = fails ? none : s.second;
        store<2>(results, expected, 2, b, lanes);
    }
}

}  // namespace gridgen
