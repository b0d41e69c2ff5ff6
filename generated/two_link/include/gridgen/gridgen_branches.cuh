// A symmetric matrix that couples each velocity with those on its path to the base, shared by a team.
#ifndef GRIDGEN_BRANCHES_CUH
#define GRIDGEN_BRANCHES_CUH

#include "gridgen_columns.cuh"

namespace gridgen {
namespace scan {

// The sparsity of the matrix. The descendants of a velocity are the next ones, up to its `ends`.
struct Branches {
    const short* parents;  // the previous velocity of each on the path to the base, or -1
    const short* depths;   // number of velocities before it
    const int* starts;     // start of its row
    const short* ends;     // one past its last descendant
    const short* ordered;  // the velocities sorted by depth
    const short* levels;   // start of the velocities of each depth
    int velocities, deepest;

    // Whether velocity a is velocity b, or on its path to the base.
    __device__ __forceinline__ bool leads(int a, int b) const { return a <= b && b < ends[a]; }
};

// A square matrix by rows in an argument, or in memory.
template <class T> struct Square {
    View<T> entries;
    int size;

    GRIDGEN_DEVICE T& at(int row, int column) const { return entries[row * size + column]; }
};

// The matrix M = L^T D L: rows packed up to their diagonal, U = D L after the factorization, and 1/D.
template <class T> struct BranchMatrix {
    Branches branches;
    T* rows;
    T* inverse;

    // Row i, indexed by the depth of the column.
    __device__ __forceinline__ T* row(int i) const { return rows + branches.starts[i]; }
};

// From the leaves to the base, all velocities of a depth at once. An entry subtracts the contributions of
// all its descendants, in descending order, without fill-in (Featherstone 2005).
template <class T, class Team, class Barrier>
__device__ __forceinline__ void eliminate(const Team& team, const BranchMatrix<T>& M,
                                          Barrier barrier) {
    const Branches& tree = M.branches;
    const T one = 1;
#pragma unroll 1
    for (int depth = tree.deepest; depth >= 0; --depth) {
        const int first = tree.levels[depth], width = depth + 1;
        const int count = (tree.levels[depth + 1] - first) * width;
#pragma unroll 1
        for (int t = team.lane(); t < count; t += Team::lanes) {
            const int i = tree.ordered[first + t / width], column = t % width;
            T entry = M.row(i)[column];
#pragma unroll 4
            for (int k = tree.ends[i] - 1; k > i; --k) {
                const T* const row = M.row(k);
                entry = fma(-product(row[depth], M.inverse[k]), row[column], entry);
            }
            M.row(i)[column] = entry;
            if (column == depth) M.inverse[i] = one / entry;
        }
        barrier();
    }
}

// The remainder of x_j after its descendants, times 1/D: an entry of D^-1 L^-T x.
template <class T, class Entries>
__device__ __forceinline__ T reduced(const BranchMatrix<T>& M, int j, int end, const Entries& x) {
    const int depth = M.branches.depths[j];
    T rest = x[j];
#pragma unroll 4
    for (int k = end - 1; k > j; --k) rest = fma(-M.row(k)[depth], x[k], rest);
    return product(rest, M.inverse[j]);
}

// An entry of L^-1 x, given those on the path to the base.
template <class T, class Entries>
__device__ __forceinline__ T followed(const BranchMatrix<T>& M, int k, const Entries& x) {
    const T* const row = M.row(k);
    T rest = 0;
    int depth = M.branches.depths[k];
#pragma unroll 1
    for (int a = M.branches.parents[k]; a >= 0; a = M.branches.parents[a])
        rest = fma(row[--depth], x[a], rest);
    return fma(-M.inverse[k], rest, x[k]);
}

// x = M^-1 x, by the whole team.
template <class T, class Team, class Entries, class Barrier>
__device__ __forceinline__ void solve(const Team& team, const BranchMatrix<T>& M, const Entries& x,
                                      Barrier barrier) {
    const Branches& tree = M.branches;
#pragma unroll 1
    for (int depth = tree.deepest; depth >= 0; --depth) {
        for (int t = tree.levels[depth] + team.lane(); t < tree.levels[depth + 1];
             t += Team::lanes) {
            const int j = tree.ordered[t];
            x[j] = reduced(M, j, tree.ends[j], x);
        }
        barrier();
    }
#pragma unroll 1
    for (int depth = 1; depth <= tree.deepest; ++depth) {
        for (int t = tree.levels[depth] + team.lane(); t < tree.levels[depth + 1];
             t += Team::lanes) {
            const int k = tree.ordered[t];
            x[k] = followed(M, k, x);
        }
        barrier();
    }
}

// x = M^-1 x, by one lane. x is zero in the rows that are neither ancestors nor descendants of `column`.
template <class T, class Entries>
__device__ __forceinline__ void solve_column(const BranchMatrix<T>& M, int column,
                                             const Entries& x) {
    const Branches& tree = M.branches;
#pragma unroll 1
    for (int j = tree.ends[column] - 1; j >= column; --j) x[j] = reduced(M, j, tree.ends[j], x);
    // Rows off the column's path are still zero, and so are those beyond the column's end.
#pragma unroll 1
    for (int j = tree.parents[column]; j >= 0; j = tree.parents[j])
        x[j] = reduced(M, j, tree.ends[column], x);
#pragma unroll 1
    for (int k = 0; k < tree.velocities; ++k) x[k] = followed(M, k, x);
}

}  // namespace scan
}  // namespace gridgen

#endif  // GRIDGEN_BRANCHES_CUH
