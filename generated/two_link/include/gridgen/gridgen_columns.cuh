// Several inverse dynamics at once, and the solution of the resulting linear system (Yang, Wu, Pan
// (prefix sums) Algorithm 2).
#ifndef GRIDGEN_COLUMNS_CUH
#define GRIDGEN_COLUMNS_CUH

#include "gridgen_scan.cuh"

namespace gridgen {
namespace scan {

// --- Columns ------------------------------------------------------------------------------------

// The motions or wrenches of one body in `count` inverse dynamics.
template <class T, int count> struct Columns {
    Spatial<T> at[count];
};

template <class T, class Team, int share, int count>
__device__ __forceinline__ void propagate(Team& team, const short* above,
                                          const Placement<T> (&X)[share],
                                          Columns<T, count> (&A)[share]) {
    Columns<T, count> theirs[share];
    team.fetch(above, A, theirs);
    for (int j = 0; j < share; ++j) {
        if (above[team.body(j)] < 0) continue;
        for (int c = 0; c < count; ++c) A[j].at[c] = A[j].at[c] + to_body(X[j], theirs[j].at[c]);
    }
}

template <class T, class Team, int share, int count>
__device__ __forceinline__ void collect(Team& team, Lists below, const Placement<T> (&X)[share],
                                        Columns<T, count> (&F)[share]) {
    Columns<T, count> sent[share];
    for (int j = 0; j < share; ++j)
        for (int c = 0; c < count; ++c) sent[j].at[c] = to_ancestor(X[j], F[j].at[c]);
    team.add_listed(below, sent, F);
}

// --- Rows of the mass matrix --------------------------------------------------------------------

// Layout of a matrix that couples each velocity with those on its path to the base.
//
// The lane of a body stores the rows of the body's velocities: the entries up to the diagonal, one
// for each column. Velocities that are not on a common path share a column.
struct Paths {
    const short* owners;   // of each velocity: the body whose lane stores its row
    const short* first;    // of each body: its first velocity
    const short* rows;     // of each body: its number of velocities
    const short* columns;  // the column of the first one
    const short* ends;     // of each body: one past its last descendant
    int velocities;

    // The offset of the row of the body's velocity r in the lane's memory.
    __device__ __forceinline__ int row(int i, int r) const { return r * (columns[i] + rows[i]); }

    // Whether velocity s of body `above` is on the path of velocity r of body `below` to the base.
    __device__ __forceinline__ bool precedes(int above, int s, int below, int r) const {
        return above <= below && below < ends[above] && (above < below || s < r);
    }
};

// x = M^-1 x by M = L^T D L, from the leaves to the base and back, without fill-in (Featherstone 2005).
// M is overwritten. `copy` has memory for a row and one more number.
template <class T, class Team, int share, int room, int freedoms>
__device__ __forceinline__ void solve(Team& team, const Paths& paths, T (&M)[share][room],
                                      T (&x)[share][freedoms], T* copy) {
    const T one = 1;
    for (int k = paths.velocities - 1; k >= 0; --k) {
        const int of = paths.owners[k], s = k - paths.first[of];
        const int diagonal = paths.columns[of] + s, row = paths.row(of, s);
        const T* pivot = team.broadcast(
            of, diagonal + 2,
            [&](int j, int c) { return c <= diagonal ? M[j][row + c] : x[j][s]; }, copy);
        const T inverse = one / pivot[diagonal];
        for (int j = 0; j < share; ++j) {
            const int i = team.body(j);
            for (int r = 0; r < paths.rows[i]; ++r) {
                if (!paths.precedes(i, r, of, s)) continue;
                const int column = paths.columns[i] + r, mine = paths.row(i, r);
                const T factor = product(pivot[column], inverse);
                for (int c = 0; c <= column; ++c)
                    M[j][mine + c] = fma(-factor, pivot[c], M[j][mine + c]);
                x[j][r] = fma(-factor, pivot[diagonal + 1], x[j][r]);
            }
            if (i != of) continue;
            for (int c = 0; c < diagonal; ++c) M[j][row + c] = product(M[j][row + c], inverse);
            M[j][row + diagonal] = inverse;
        }
    }
    for (int j = 0; j < share; ++j) {
        const int i = team.body(j);
        for (int r = 0; r < paths.rows[i]; ++r)
            x[j][r] = product(x[j][r], M[j][paths.row(i, r) + paths.columns[i] + r]);
    }
    for (int k = 0; k < paths.velocities; ++k) {
        const int of = paths.owners[k], s = k - paths.first[of];
        const T known = team.broadcast(of, 1, [&](int j, int) { return x[j][s]; }, copy)[0];
        for (int j = 0; j < share; ++j) {
            const int i = team.body(j);
            for (int r = 0; r < paths.rows[i]; ++r) {
                if (!paths.precedes(of, s, i, r)) continue;
                x[j][r] = fma(-M[j][paths.row(i, r) + paths.columns[of] + s], known, x[j][r]);
            }
        }
    }
}

}  // namespace scan
}  // namespace gridgen

#endif  // GRIDGEN_COLUMNS_CUH
