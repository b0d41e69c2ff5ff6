/* A program in C: two states in any layout, and what is refused. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "two_link.h"

static int failed(const char *what)
{
    fprintf(stderr, "%s\n", what);
    return 1;
}

int main(void)
{
    const double q[] = {0.1, 0.2, 0.3, 0.4}, qd[] = {1, 2, 3, 4}, qdd[] = {5, 6, 7, 8};
    const double weightless[3] = {0, 0, 0};
    double by_columns[2][2], columns[2][2], tau[2][two_link_nv], other[2][two_link_nv];
    gridgen_array arrays[5];
    int i, j;

    if (two_link_inverse_dynamics_f64(q, qd, qdd, tau[0], 2, NULL) != gridgen_done)
        return failed("refused");
    for (i = 0; i < 2; ++i)
        for (j = 0; j < 2; ++j) by_columns[j][i] = q[2 * i + j];
    arrays[0].data = by_columns, arrays[0].batch = 1, arrays[0].component = 2;
    arrays[1].data = (void *)qd, arrays[1].batch = 2, arrays[1].component = 1;
    arrays[2].data = (void *)qdd, arrays[2].batch = 2, arrays[2].component = 1;
    arrays[3].data = (void *)weightless, arrays[3].batch = 0, arrays[3].component = 1;
    arrays[4].data = columns, arrays[4].batch = 1, arrays[4].component = 2;
    if (two_link_inverse_dynamics_f64(q, qd, qdd, other[0], 2, weightless) != gridgen_done ||
        two_link_inverse_dynamics_f64_strided(arrays, 0, 2, 2) != gridgen_done)
        return failed("refused");
    for (i = 0; i < 2; ++i)
        for (j = 0; j < 2; ++j)
            if (columns[j][i] != other[i][j] || fabs(tau[i][j] - other[i][j]) < 1e-3)
                return failed("strides or gravity are not what was given");

    if (two_link_inverse_dynamics_f64(q, NULL, qdd, tau[0], 2, NULL) != gridgen_no_array ||
        two_link_inverse_dynamics_f64(q, qd, qdd, NULL, 1, NULL) != gridgen_no_array ||
        two_link_inverse_dynamics_f64(q, qd, qdd, tau[0], -1, NULL) != gridgen_bad_count ||
        two_link_inverse_dynamics_f64_strided(arrays, 1, 3, 2) != gridgen_bad_count ||
        two_link_inverse_dynamics_f64_strided(NULL, 0, 1, 2) != gridgen_no_array ||
        two_link_inverse_dynamics_f64(NULL, NULL, NULL, NULL, 0, NULL) != gridgen_done)
        return failed("what is wrong is not refused as such");
    return strcmp(gridgen_status_text(gridgen_done), "done") ? failed("text") : 0;
}
