// Backward pass of iterative LQR for a batch of trajectories, with box limits of the controls (Tassa,
// Mansard, Todorov 2014). All matrices are row-major. GRIDGEN_N and GRIDGEN_M are the numbers of states
// and controls; inner loops have these extents, so the compiler vectorizes them.
namespace {

constexpr int N = GRIDGEN_N, M = GRIDGEN_M;

struct Step {
    double VA[N][N], VB[N][M], Qxx[N][N], Qux[M][N], Quu[M][M], L[M][M], V[N][N], v[N];
};

// Adds the product of a row of ``count`` factors with rows, four at a time: fewer loads and stores.
template <int columns, int count>
void add_product(double* __restrict out, const double* f, int stride, const double* __restrict rows) {
    int k = 0;
    for (; k + 4 <= count; k += 4) {
        const double a = f[k * stride], b = f[(k + 1) * stride];
        const double c = f[(k + 2) * stride], d = f[(k + 3) * stride];
        const double* r = rows + k * columns;
        for (int j = 0; j < columns; ++j)
            out[j] += a * r[j] + b * r[columns + j] + (c * r[2 * columns + j] + d * r[3 * columns + j]);
    }
    for (; k < count; ++k)
        for (int j = 0; j < columns; ++j) out[j] += f[k * stride] * rows[k * columns + j];
}

// Factors Q of the free controls as L L^T; returns false unless it is positive definite.
bool factor(const double (&Q)[M][M], const int* is_free, double (&L)[M][M]) {
    for (int i = 0; i < M; ++i) {
        for (int j = 0; j <= i; ++j) {
            double sum = is_free[i] && is_free[j] ? Q[i][j] : (i == j ? 1.0 : 0.0);
            for (int k = 0; k < j; ++k) sum -= L[i][k] * L[j][k];
            if (i != j) {
                L[i][j] = sum / L[j][j];
            } else if (sum > 0.0) {
                L[i][i] = __builtin_sqrt(sum);
            } else {
                return false;
            }
        }
    }
    return true;
}

template <int columns> void solve(const double (&L)[M][M], double (&x)[M][columns]) {
    for (int i = 0; i < M; ++i) {
        for (int k = 0; k < i; ++k)
            for (int c = 0; c < columns; ++c) x[i][c] -= L[i][k] * x[k][c];
        for (int c = 0; c < columns; ++c) x[i][c] /= L[i][i];
    }
    for (int i = M - 1; i >= 0; --i) {
        for (int k = i + 1; k < M; ++k)
            for (int c = 0; c < columns; ++c) x[i][c] -= L[k][i] * x[k][c];
        for (int c = 0; c < columns; ++c) x[i][c] /= L[i][i];
    }
}

// Minimizes g u + u Q u / 2 between limits by an active set; ``held`` is 1 at the upper limit, -1 at
// the lower. Returns false if a factorization fails.
bool minimize(Step& s, const double* g, const double* lower, const double* upper, int* held, double* u) {
    int is_free[M];
    for (int i = 0; i < M; ++i)
        if (!(lower[i] < upper[i])) held[i] = 1;
    for (int pass = 0; pass < 2 * M + 2; ++pass) {
        double x[M][1];
        for (int i = 0; i < M; ++i) {
            is_free[i] = held[i] == 0;
            u[i] = held[i] > 0 ? upper[i] : held[i] < 0 ? lower[i] : 0.0;
        }
        for (int i = 0; i < M; ++i) {
            x[i][0] = 0.0;
            if (!is_free[i]) continue;
            x[i][0] = -g[i];
            for (int j = 0; j < M; ++j) x[i][0] -= s.Quu[i][j] * u[j];
        }
        if (!factor(s.Quu, is_free, s.L)) return false;
        solve(s.L, x);
        bool is_right = true;
        for (int i = 0; i < M; ++i)
            if (is_free[i]) u[i] = x[i][0];
        int next[M];
        for (int i = 0; i < M; ++i) {
            next[i] = held[i];
            if (is_free[i]) {
                next[i] = u[i] > upper[i] ? 1 : u[i] < lower[i] ? -1 : 0;
            } else {
                double slope = g[i];
                for (int j = 0; j < M; ++j) slope += s.Quu[i][j] * u[j];
                if (held[i] * slope > 0.0 && lower[i] < upper[i]) next[i] = 0;
            }
            is_right = is_right && next[i] == held[i];
        }
        if (is_right) return true;
        for (int i = 0; i < M; ++i) held[i] = next[i];
    }
    for (int i = 0; i < M; ++i) u[i] = u[i] > upper[i] ? upper[i] : u[i] < lower[i] ? lower[i] : u[i];
    return true;
}

}  // namespace

// Trajectories from ``begin`` to ``end``. A (T, N, N), B (T, N, M), lx (T + 1, N), lu (T, M),
// lxx (T + 1, N, N), luu (T, M), lower and upper (T, M): limits of the changes; near: regularization
// of the states. Results: k (T, M), K (T, M, N), and ``expected``: the linear and the quadratic part
// of the change of the cost, NaN where Quu is not positive definite.
extern "C" __attribute__((visibility("default"))) void gridgen_riccati(
    long long begin, long long end, long long T, const double* A_, const double* B_,
    const double* lx_, const double* lu_, const double* lxx_, const double* luu_,
    const double* lower_, const double* upper_, const double* near_, double* k_, double* K_,
    double* expected) {
    Step s;
    for (long long b = begin; b < end; ++b) {
        int held[M] = {};
        double first = 0.0, second = 0.0;
        const double* last = lxx_ + (b * (T + 1) + T) * N * N;
        for (int i = 0; i < N; ++i) {
            s.v[i] = lx_[(b * (T + 1) + T) * N + i];
            for (int j = 0; j < N; ++j) s.V[i][j] = last[i * N + j];
        }
        for (long long t = T - 1; t >= 0; --t) {
            const double* A = A_ + (b * T + t) * N * N;
            const double* B = B_ + (b * T + t) * N * M;
            const double* lxx = lxx_ + (b * (T + 1) + t) * N * N;
            for (int i = 0; i < N; ++i) {
                for (int j = 0; j < N; ++j) s.VA[i][j] = 0.0;
                for (int j = 0; j < M; ++j) s.VB[i][j] = 0.0;
                add_product<N, N>(s.VA[i], s.V[i], 1, A);
                add_product<M, N>(s.VB[i], s.V[i], 1, B);
            }
            double g[M], Qx[N];
            for (int i = 0; i < M; ++i) {
                g[i] = lu_[(b * T + t) * M + i];
                for (int j = 0; j < N; ++j) s.Qux[i][j] = 0.0;
                for (int j = 0; j < M; ++j) s.Quu[i][j] = 0.0;
                s.Quu[i][i] = luu_[(b * T + t) * M + i];
            }
            for (int i = 0; i < N; ++i) {
                Qx[i] = lx_[(b * (T + 1) + t) * N + i];
                for (int j = 0; j < N; ++j) s.Qxx[i][j] = lxx[i * N + j];
            }
            for (int i = 0; i < N; ++i) {
                for (int k = 0; k < N; ++k) Qx[i] += A[k * N + i] * s.v[k];
                add_product<N, N>(s.Qxx[i], A + i, N, s.VA[0]);
            }
            for (int i = 0; i < M; ++i) {
                for (int k = 0; k < N; ++k) g[i] += B[k * M + i] * s.v[k];
                add_product<N, N>(s.Qux[i], B + i, M, s.VA[0]);
                add_product<M, N>(s.Quu[i], B + i, M, s.VB[0]);
            }
            // The regularization near (A, B)^T (A, B) enters the gains, not the value.
            double plain[M][M], cross[M][N];
            for (int i = 0; i < M; ++i) {
                for (int j = 0; j < M; ++j) plain[i][j] = s.Quu[i][j];
                for (int j = 0; j < N; ++j) cross[i][j] = s.Qux[i][j];
            }
            for (int k = 0; near_[b] > 0.0 && k < N; ++k)
                for (int i = 0; i < M; ++i) {
                    const double f = near_[b] * B[k * M + i];
                    for (int j = 0; j < M; ++j) s.Quu[i][j] += f * B[k * M + j];
                    for (int j = 0; j < N; ++j) s.Qux[i][j] += f * A[k * N + j];
                }
            double u[M], K[M][N];
            const double* lower = lower_ + (b * T + t) * M;
            const double* upper = upper_ + (b * T + t) * M;
            if (!minimize(s, g, lower, upper, held, u)) {
                first = second = __builtin_nan("");
                break;
            }
            for (int i = 0; i < M; ++i)
                for (int j = 0; j < N; ++j) K[i][j] = held[i] ? 0.0 : -s.Qux[i][j];
            solve(s.L, K);
            // V = Qxx + K^T Quu K + K^T Qux + Qux^T K, v = Qx + K^T (Quu u + g) + Qux^T u.
            double force[M];
            for (int i = 0; i < M; ++i) {
                force[i] = 0.0;
                for (int j = 0; j < M; ++j) force[i] += plain[i][j] * u[j];
                first += u[i] * g[i];
                second += 0.5 * u[i] * force[i];
            }
            for (int i = 0; i < N; ++i) s.v[i] = Qx[i];
            double rows[M][N];  // Quu K + Qux
            for (int k = 0; k < M; ++k) {
                for (int j = 0; j < N; ++j) rows[k][j] = cross[k][j];
                add_product<N, M>(rows[k], plain[k], 1, K[0]);
                for (int i = 0; i < N; ++i) s.v[i] += K[k][i] * (force[k] + g[k]) + cross[k][i] * u[k];
            }
            for (int i = 0; i < N; ++i) {
                add_product<N, M>(s.Qxx[i], K[0] + i, N, rows[0]);
                add_product<N, M>(s.Qxx[i], cross[0] + i, N, K[0]);
            }
            for (int i = 0; i < N; ++i)
                for (int j = 0; j < N; ++j) s.V[i][j] = 0.5 * (s.Qxx[i][j] + s.Qxx[j][i]);
            for (int i = 0; i < M; ++i) {
                k_[(b * T + t) * M + i] = u[i];
                for (int j = 0; j < N; ++j) K_[((b * T + t) * M + i) * N + j] = K[i][j];
            }
        }
        expected[2 * b] = first;
        expected[2 * b + 1] = second;
    }
}
