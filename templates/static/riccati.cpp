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
    Number A[N * N], B[N * U], cost, lx[N], lu[U], luu[U], lxx[N + P * P], lower[M], upper[M];
    Number V[N * N], v[N], VF[R * D + 1], w[R], WF[R * R], VA[R * N], VB[R * M], Qxx[N * N], Qx[N];
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

template <int rows, int columns, bool is_symmetric>
GRIDGEN_DEVICE void add_strip(Number* sum, int stride, const Number* a, int down, int along,
                              const Number* b, int width, int depth, int first) {
    int i = is_symmetric ? first / tile * tile : 0;
    for (; i + tile <= rows; i += tile)
        add_block<tile, columns>(sum + i * stride, stride, a + i * down, down, along, b, width, depth);
    if constexpr (rows % tile > 0)
        add_block<rows % tile, columns>(sum + i * stride, stride, a + i * down, down, along, b, width,
                                        depth);
}

// Adds a product, in blocks that stay in registers; of a square result without blocks above the
// diagonal, if it is symmetric. Element (i, k) of a is a[i * down + k * along].
template <int rows, int columns, bool is_symmetric = false>
GRIDGEN_PART void add_product(Number* sum, int stride, const Number* a, int down, int along,
                              const Number* b, int width, int depth) {
    int j = 0;
    for (; j + tile <= columns; j += tile)
        add_strip<rows, tile, is_symmetric>(sum + j, stride, a, down, along, b + j, width, depth, j);
    if constexpr (columns % tile > 0)
        add_strip<rows, columns % tile, is_symmetric>(sum + j, stride, a, down, along, b + j, width,
                                                      depth, j);
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

// Row i of x, less the products of its numbers in L with rows [begin, end), times the inverse diagonal.
template <int columns, int width>
GRIDGEN_DEVICE void solve_row(const Number* L, int along, int begin, int end, Number scale, Number* x,
                              int i) {
    Number row[width];
    for (int c = 0; c < width; ++c) row[c] = x[i * columns + c];
    for (int k = begin; k < end; ++k)
        for (int c = 0; c < width; ++c) row[c] = Lane::fnma(L[k * along], x[k * columns + c], row[c]);
    for (int c = 0; c < width; ++c) x[i * columns + c] = scale * row[c];
}

template <int columns, int width> GRIDGEN_DEVICE void solve_strip(const Number* L, Number* x) {
    for (int i = 0; i < M; ++i)
        solve_row<columns, width>(L + i * M, 1, 0, i, L[i * M + i], x, i);
    for (int i = M - 1; i >= 0; --i)
        solve_row<columns, width>(L + i, M, i + 1, M, L[i * M + i], x, i);
}

// x = (L L^T)^-1 x, in strips that stay in the first-level cache.
template <int columns> GRIDGEN_PART void solve(const Number* L, Number* x) {
    constexpr int width = 6;
    int c = 0;
    for (; c + width <= columns; c += width) solve_strip<columns, width>(L, x + c);
    if constexpr (columns % width > 0) solve_strip<columns, columns % width>(L, x + c);
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

// Writes numbers of one pack of problems to the rows of a result in double precision.
template <int count>
void store(const Number* x, double* result, int64 stride, const int64* rows, int64 lanes, void* buffer) {
    Element* from = static_cast<Element*>(buffer);
    reinterpret_cast<const Result<Element, count>*>(x)->store(Array{from, count, 1}, 0, lanes, false);
    for (int64 i = 0; i < lanes; ++i, from += count) {
        double* __restrict to = result + rows[i] * stride;
        const Element* __restrict own = from;
        if constexpr (has_streams && sizeof(Element) == 8 && count >= 64) {
            stream(reinterpret_cast<char*>(to), reinterpret_cast<const char*>(own), count * 8);
        } else {
            for (int j = 0; j < count; ++j) to[j] = own[j];
        }
    }
}

// Row r of F^T x.
GRIDGEN_DEVICE void pulled(const Number* x, int columns, Number dt, int r, Number* result) {
    const Number* row = x + (r < dense ? r : r + D) * columns;
    for (int j = 0; j < columns; ++j)
        result[j] = r < 2 * dense ? row[j] : Lane::fma(dt, row[j - H * columns], row[j]);
}

// Qux and Quu from V A and V B.
void control(Step& s) {
    const Number* B = s.B + D * U + U - M;
    for (int i = 0; i < M; ++i) {
        for (int j = 0; j < M; ++j) s.Quu[i * M + j] = i == j ? s.luu[U - M + i] : Number{};
        for (int j = 0; j < N; ++j) s.Qux[i * N + j] = Number{};
    }
    add_product<M, N>(s.Qux, N, B, 1, U, s.VA, N, R);
    add_product<M, M, true>(s.Quu, M, B, 1, U, s.VB, M, R);
    mirror<M>(s.Quu);
}

// Moves the first rows to those of y, which begin at row D: the rows before are not read.
template <int columns> GRIDGEN_DEVICE void join_rows(Number* x) {
    __builtin_memmove(x + D * columns, x, dense * columns * sizeof *x);
}

// One step backward; returns the lanes whose model has no minimum.
auto backward(Step& s, Number dt, Number near) {
    const Number *A = s.A + D * N, *B = s.B + D * U + U - M;
    for (int r = 0; r < R; ++r) {
        Number row[N], *WF = s.WF + r * R, *VA = s.VA + r * N;
        pulled(s.V, N, dt, r, row);
        pulled(s.v, 1, dt, r, s.w + r);
        for (int q = 0; q < dense; ++q) WF[q] = row[q];
        for (int q = dense; q < 2 * dense; ++q) WF[q] = row[q + D];
        for (int q = 2 * dense; q < R; ++q) WF[q] = Lane::fma(dt, row[q + D - H], row[q + D]);
        for (int j = 0; j < N; ++j) VA[j] = Number{};
        for (int j = 0; j < D; ++j) s.VF[r * D + j] = VA[dense + j] = row[dense + j];
        for (int j = 0; j < M; ++j) s.VB[r * M + j] = Number{};
    }
    add_product<R, N>(s.VA, N, s.WF, R, 1, A, N, R);
    add_product<R, M>(s.VB, M, s.WF, R, 1, B, U, R);
    control(s);
    for (int i = 0; i < M; ++i) s.g[i] = s.lu[U - M + i];
    add_product<M, 1>(s.g, 1, B, 1, U, s.w, 1, R);
    for (int i = 0; i < N; ++i) {
        const bool is_derived = dense <= i && i < H;
        s.Qx[i] = is_derived ? s.lx[i] + s.v[i] : s.lx[i];
        for (int j = dense; is_derived && j <= i; ++j) s.Qxx[i * N + j] += s.V[i * N + j];
    }
    add_product<N, 1>(s.Qx, 1, A, 1, N, s.w, 1, R);
    add_product<N, N, true>(s.Qxx, N, A, 1, N, s.VA, N, R);
    add_product<D, H>(s.Qxx + dense * N, N, s.VF, 1, D, A, N, R);
    // The regularization near (A, B)^T (A, B) enters the gains, not the value.
    const bool is_regular = any(near > 0.0);
    for (int i = 0; is_regular && i < M * M; ++i) s.plain[i] = s.Quu[i];
    const Number* plain = is_regular ? s.plain : s.Quu;
    for (int i = 0; i < M * N; ++i) s.minus[i] = -s.Qux[i];
    for (int r = 0; is_regular && r < R; ++r) {
        const Number scale = r < 2 * dense ? near : Lane::fma(near * dt, dt, near);
        for (int j = 0; j < N; ++j)
            s.VA[r * N + j] = Lane::fma(scale, A[r * N + j], s.VA[r * N + j]);
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
    }
    solve<N>(s.L, s.K);
    add_product<M, 1>(s.force, 1, plain, M, 1, s.u, 1, M);
    for (int i = 0; i < M; ++i) {
        s.first = Lane::fma(s.u[i], s.g[i], s.first);
        s.second = Lane::fma(Element(0.5) * s.u[i], s.force[i], s.second);
        s.force[i] = -(s.force[i] + s.g[i]);
        s.u[i] = -s.u[i];
    }
    for (int j = 0; j < N; ++j) s.v[j] = s.Qx[j];
    add_product<N, 1>(s.v, 1, s.K, 1, N, s.force, 1, M);
    add_product<N, 1>(s.v, 1, s.minus, 1, N, s.u, 1, M);
    for (int i = 0; i < M; ++i) s.u[i] = -s.u[i];
    add_product<N, N, true>(s.Qxx, N, s.minus, 1, N, s.K, N, M);
    if (is_regular) {  // otherwise Quu K = Qux in the rows of free controls, and K is 0 in others
        for (int i = 0; i < M * N; ++i) s.rows[i] = s.minus[i];
        add_product<M, N>(s.rows, N, plain, M, 1, s.K, N, M);
        add_product<N, N, true>(s.Qxx, N, s.K, 1, N, s.rows, N, M);
    }
    for (int i = 0; i < N; ++i)
        for (int j = 0; j <= i; ++j) s.V[i * N + j] = s.V[j * N + i] = s.Qxx[i * N + j];
    return fails;
}

template <int...> struct Sizes {};

// An array of problems and times: strides of problems and elements, stride of times in bytes, and
// number of times; the last one repeats.
struct Given {
    char* data;
    int64 batch, component, time, times;
};

// A function of a robot with its inputs; without an entry, its results.
struct Called {
    void (*entry)(const Array*, int64, int64, int64);
    const Given* arrays;
    int64 count;
};

// Results of a function for a pack of problems at time t, of these sizes.
template <int... size>
void evaluate(const Called& called, int64 t, int64 b, int64 lanes, Sizes<size...>,
              decltype(size, (Number*)nullptr)... results) {
    Array arrays[64];
    for (int i = 0; i < called.count; ++i) {
        const Given& from = called.arrays[i];
        const int64 time = (t < from.times ? t : from.times - 1) * from.time;
        const int64 problem = b * from.batch * int64(sizeof(Element));
        arrays[i] = {from.data + time + problem, from.batch, from.component};
    }
    if (called.entry == nullptr) {
        int i = 0;
        (reinterpret_cast<Argument<Element, size>*>(results)->load(arrays[i++], 0, lanes), ...);
        return;
    }
    int64 i = called.count;
    ((arrays[i++] = {results, 1, W}), ...);
    called.entry(arrays, 0, lanes, lanes);
}

// Derivatives of the cost at one time.
void evaluate_cost(Step& s, const Called& costs, int64 t, int64 b, int64 lanes) {
    evaluate(costs, t, b, lanes, Sizes<1, N, U, U, N + P * P>(), &s.cost, s.lx, s.lu, s.luu, s.lxx);
    for (int i = 0; i < N * N; ++i) s.Qxx[i] = Number{};
    for (int i = 0; i < P; ++i)
        for (int j = 0; j < P; ++j) s.Qxx[i * N + j] = s.lxx[N + i * P + j];
    for (int i = 0; i < N; ++i) s.Qxx[i * N + i] += s.lxx[i];
}

}  // namespace

// For each of ``batch`` trajectories with T steps, at each time: ``steps`` computes A (N, N) and
// B (N, U), ``costs`` a cost, its derivatives by the state (N), and by the controls (U), the diagonal of
// its Hessian by these (U), and its Hessian by the state, a diagonal (N) and the first rows and
// columns (P, P). `efforts` (T, U): controls; limits (U): of these; near: regularization of the states.
// Results, for each trajectory in the row that ``rows`` names: k (T, U), K (T, U, N), the change is
// k - K x, and ``expected``: the linear and the quadratic part of the change of the cost, NaN where Quu
// is not positive definite.
extern "C" __attribute__((visibility("default"))) void gridgen_riccati(
    int64 batch, int64 T, double dt_, const Called* steps, const Called* costs,
    const Element* efforts, const Element* limits, const Element* near_, const int64* rows, double* k, double* K,
    double* expected) {
    const Borrowed<Step> step;
    if (!step) __builtin_trap();  // no memory
    const NoSubnormals<Element> flushed;
    Step& s = *step.operator->();
    __builtin_memset(&s, 0, sizeof s);
    const Number dt = Lane::broadcast(Element(dt_));
    for (int64 b = 0; b < batch; b += W) {
        const int64 lanes = b + W < batch ? W : batch - b;
        Number near, results[2];
        load<1>(&near, near_, 1, b, lanes);
        s.first = s.second = Number{};
        auto fails = s.first > s.second;
        for (int i = 0; i < M; ++i) s.held[i] = Number{};
        evaluate_cost(s, *costs, T, b, lanes);
        for (int i = 0; i < N * N; ++i) s.V[i] = s.Qxx[i];
        for (int i = 0; i < N; ++i) s.v[i] = s.lx[i];
        for (int64 t = T - 1; t >= 0; --t) {
            evaluate(*steps, t, b, lanes, Sizes<N * N, N * U>(), s.A, s.B);
            join_rows<N>(s.A);
            join_rows<U>(s.B);
            evaluate_cost(s, *costs, t, b, lanes);
            const int64 at = t * U + U - M;
            load<M>(s.u, efforts + at, T * U, b, lanes);
            for (int i = 0; i < M; ++i) {
                const Number limit = Lane::broadcast(limits[U - M + i]);
                s.lower[i] = -limit - s.u[i];
                s.upper[i] = limit - s.u[i];
            }
            fails |= backward(s, dt, near);
            store<M>(s.u, k + at, T * U, rows + b, lanes, s.rows);
            store<M * N>(s.K, K + at * N, T * U * N, rows + b, lanes, s.rows);
        }
        const Number none = Lane::broadcast(__builtin_nan(""));
        results[0] = fails ? none : s.first;
        results[1] = fails ? none : s.second;
        store<2>(results, expected, 2, rows + b, lanes, s.rows);
    }
    finish_streams();
}

}  // namespace gridgen
