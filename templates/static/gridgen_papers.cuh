// Parts of kernels that reproduce experiments of papers, on the teams of the scan schedule.
#ifndef GRIDGEN_PAPERS_CUH
#define GRIDGEN_PAPERS_CUH

#include "gridgen_articulated.cuh"

namespace gridgen {
namespace scan {

// Entry i of an array of inertias: M, H by rows, I.
template <class T> GRIDGEN_DEVICE Articulated<T> load_articulated(View<const T> array, int i) {
    constexpr int numbers = sizeof(Articulated<T>) / sizeof(T);
    Articulated<T> A;
#pragma unroll
    for (int k = 0; k < numbers; ++k) component<T>(A, k) = array[numbers * i + k];
    return A;
}

// The element (g, xi_1, xi_2) of prefix sums eq. 13, where xi_1 becomes the acceleration, xi_2 the
// velocity.
template <class T> struct Element {
    Placement<T> X;
    Spatial<T> A, V;
};

// The motions of the element `mine`, of joints that follow those of `theirs` (eq. 13 again).
template <class T>
__device__ __forceinline__ void append(const Placement<T>& X, Spatial<T>& V, Spatial<T>& A,
                                       const Spatial<T>& V_before, const Spatial<T>& A_before) {
    const Spatial<T> arriving = to_body(X, V_before);
    A = ad_add(arriving, V, A + to_body(X, A_before));  // -ad_a b = ad_b a
    V = V + arriving;
}

// Velocity and acceleration at once.
template <class T, class Team, int share>
__device__ __forceinline__ void extend(Team& team, const short* above,
                                       const Placement<T> (&X)[share], Spatial<T> (&V)[share],
                                       Spatial<T> (&A)[share], Placement<T> (&twice)[share]) {
    Element<T> mine[share], theirs[share];
    for (int j = 0; j < share; ++j) mine[j] = {X[j], A[j], V[j]};
    team.fetch(above, mine, theirs);
    for (int j = 0; j < share; ++j) {
        const bool meets = above[team.body(j)] >= 0;
        twice[j] = meets ? compose(theirs[j].X, X[j]) : X[j];
        if (meets) append(X[j], V[j], A[j], theirs[j].V, theirs[j].A);
    }
}

template <class T> struct Motions {
    Spatial<T> A, V;
};

template <class T, class Team, int share>
__device__ __forceinline__ void propagate(Team& team, const short* above,
                                          const Placement<T> (&X)[share], Spatial<T> (&V)[share],
                                          Spatial<T> (&A)[share]) {
    Motions<T> mine[share], theirs[share];
    for (int j = 0; j < share; ++j) mine[j] = {A[j], V[j]};
    team.fetch(above, mine, theirs);
    for (int j = 0; j < share; ++j)
        if (above[team.body(j)] >= 0) append(X[j], V[j], A[j], theirs[j].V, theirs[j].A);
}

}  // namespace scan
}  // namespace gridgen

#endif  // GRIDGEN_PAPERS_CUH
