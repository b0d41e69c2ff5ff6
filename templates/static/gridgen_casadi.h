// Code shared by the CasADi functions of all robots: CasADi's interface of external functions.
#ifndef GRIDGEN_CASADI_H
#define GRIDGEN_CASADI_H

#include "gridgen.h"

namespace gridgen {
namespace casadi {

using Index = long long;

// An array of a function, dense and row-major; CasADi stores its nonzeros by columns.
struct Matrix {
    const char* name;
    Index rows, columns;
    const Index* sparsity;   // rows, columns, then starts of columns and rows of nonzeros, or 1 if dense
    const int* quaternions;  // where the quaternions of a configuration begin, ended by -1

    constexpr Index size() const { return rows * columns; }
    // The row-major index of a column-major element.
    constexpr Index by_rows(Index element) const {
        return element % rows * columns + element / rows;
    }
};

struct Function {
    const Matrix* in;
    Index inputs;
    const Matrix* out;
    Index outputs;
    int (*evaluate)(const double** arg, double** res, double* room);
    Index room;
};

template <int In, int Out>
constexpr Function describe(const Matrix (&in)[In], const Matrix (&out)[Out],
                            int (*evaluate)(const double**, double**, double*), Index room) {
    return {in, In, out, Out, evaluate, room};
}

// Calls visit(row, column) for every nonzero, in CasADi's order.
template <class Visit> void each_nonzero(const Index* sparsity, Visit visit) {
    const Index rows = sparsity[0], columns = sparsity[1];
    const Index *starts = sparsity + 2, *listed = starts + columns + 1;
    const bool dense = starts[0] == 1;
    for (Index column = 0; column < columns; ++column) {
        const Index begin = dense ? 0 : starts[column], end = dense ? rows : starts[column + 1];
        for (Index i = begin; i < end; ++i) visit(dense ? i : listed[i], column);
    }
}

inline double norm(const double* quaternion) {
    double sum = 0;
    for (int i = 0; i < 4; ++i) sum += quaternion[i] * quaternion[i];
    return __builtin_sqrt(sum);
}

// Copies an argument, which CasADi stores by columns; null stands for zeros.
inline void bring(const Matrix& matrix, const double* given, double* to) {
    for (Index i = 0; i < matrix.size(); ++i) to[matrix.by_rows(i)] = given ? given[i] : 0;
    if (matrix.quaternions)
        for (const int* first = matrix.quaternions; *first >= 0; ++first) {
            const double length = norm(to + *first);
            for (int i = 0; i < 4; ++i) to[*first + i] /= length;
        }
}

template <int In, int Out>
int values(const Matrix (&in)[In], const Matrix (&out)[Out],
           int (*call)(const double* const*, double* const*), const double** arg, double** res,
           double* room) {
    const double* given[In];
    double* found[Out];
    for (int i = 0; i < In; room += in[i++].size()) bring(in[i], arg[i], room), given[i] = room;
    for (int i = 0; i < Out; room += out[i++].size()) found[i] = room;
    if (call(given, found) != gridgen_done) return 1;
    for (int i = 0; i < Out; ++i)
        if (double* to = res[i])
            each_nonzero(out[i].sparsity, [&](Index row, Index column) {
                *to++ = found[i][row * out[i].columns + column];
            });
    return 0;
}

// The role of an array of a product with a Jacobian.
struct Role {
    enum Kind { value, direction, result, discarded, change, usual } kind;
    int of;      // index of its input or result
    Index size;  // of a written array
};
constexpr Role::Kind value = Role::value, direction = Role::direction, result = Role::result,
                     discarded = Role::discarded, change = Role::change, usual = Role::usual;

// The Jacobian by all inputs, one state of a batch per column: the directions are columns of an identity.
template <int In, int Out, int Blocks, int Arrays>
int columns(const Matrix (&in)[In], const Matrix (&out)[Out], const Matrix (&blocks)[Blocks],
            const Role (&roles)[Arrays],
            gridgen_status (*product)(const gridgen_array*, long long, long long, long long),
            const double* gravity, const double** arg, double** res, double* room) {
    static_assert(Blocks == In * Out, "a block for each result and input");
    Index begins[In], count = 0;
    double *given[In], *changes[Out] = {};
    for (int i = 0; i < In; room += in[i++].size()) {
        bring(in[i], arg[i], room), given[i] = room;
        begins[i] = count, count += in[i].size();
    }
    // Element j of direction i is element j - i of this array, whose only one is at the start.
    double* const one = room + count;
    for (Index i = -count; i < count; ++i) one[i] = i == 0;
    room += 2 * count;
    gridgen_array arrays[Arrays];
    for (int i = 0; i < Arrays; ++i) {
        const Role& role = roles[i];
        switch (role.kind) {
        case Role::value: arrays[i] = {given[role.of], 0, 1}; break;
        case Role::result:
            bring(out[role.of], arg[In + role.of], room);
            arrays[i] = {room, 0, 1}, room += out[role.of].size();
            break;
        case Role::direction: arrays[i] = {one + begins[role.of], -1, 1}; break;
        case Role::usual: arrays[i] = {const_cast<double*>(gravity), 0, 1}; break;
        case Role::change: changes[role.of] = room; [[fallthrough]];
        case Role::discarded: arrays[i] = {room, role.size, 1}, room += count * role.size; break;
        }
    }
    if (product(arrays, 0, count, count) != gridgen_done) return 1;
    for (int i = 0; i < Blocks; ++i) {
        double* to = res[i];
        if (!to) continue;
        const Matrix &by = in[i % In], &of = out[i / In];
        each_nonzero(blocks[i].sparsity, [&](Index row, Index column) {
            const Index element = by.by_rows(column);
            double scale = 1;
            // Differentiates by the given quaternion, at the normalized one.
            if (by.quaternions)
                for (const int* first = by.quaternions; *first >= 0; ++first)
                    if (element >= *first && element < *first + 4) scale = norm(arg[i % In] + *first);
            *to++ = changes[i / In][(begins[i % In] + element) * of.size() + of.by_rows(row)] / scale;
        });
    }
    return 0;
}

}  // namespace casadi
}  // namespace gridgen

#define GRIDGEN_CASADI_EXPORT extern "C" __attribute__((visibility("default")))

// The symbols for CasADi.
#define GRIDGEN_CASADI(NAME, FUNCTION)                                                            \
    GRIDGEN_CASADI_EXPORT int NAME(const double** arg, double** res, long long*, double* w, int) { \
        return FUNCTION.evaluate(arg, res, w);                                                    \
    }                                                                                             \
    GRIDGEN_CASADI_EXPORT long long NAME##_n_in(void) { return FUNCTION.inputs; }                 \
    GRIDGEN_CASADI_EXPORT long long NAME##_n_out(void) { return FUNCTION.outputs; }               \
    GRIDGEN_CASADI_EXPORT const char* NAME##_name_in(long long i) { return FUNCTION.in[i].name; } \
    GRIDGEN_CASADI_EXPORT const char* NAME##_name_out(long long i) { return FUNCTION.out[i].name; } \
    GRIDGEN_CASADI_EXPORT const long long* NAME##_sparsity_in(long long i) {                      \
        return FUNCTION.in[i].sparsity;                                                           \
    }                                                                                             \
    GRIDGEN_CASADI_EXPORT const long long* NAME##_sparsity_out(long long i) {                     \
        return FUNCTION.out[i].sparsity;                                                          \
    }                                                                                             \
    GRIDGEN_CASADI_EXPORT int NAME##_work(long long* arg, long long* res, long long* iw,          \
                                          long long* w) {                                         \
        if (arg) *arg = FUNCTION.inputs;                                                          \
        if (res) *res = FUNCTION.outputs;                                                         \
        if (iw) *iw = 0;                                                                          \
        if (w) *w = FUNCTION.room;                                                                \
        return 0;                                                                                 \
    }

#endif  // GRIDGEN_CASADI_H
