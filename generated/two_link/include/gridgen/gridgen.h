/* Declarations shared by the C interfaces of all robots. C99 and C++. */
#ifndef GRIDGEN_H
#define GRIDGEN_H

#ifdef __cplusplus
extern "C" {
#endif

/* Status codes of functions. If the status is not gridgen_done, the results are invalid. */
typedef enum gridgen_status {
    gridgen_done = 0,
    gridgen_no_array = 1,     /* an array is missing: only those with a default may be NULL */
    gridgen_bad_count = 2,    /* the number of states is negative, or a range exceeds it */
    gridgen_no_rotation = 3,  /* a quaternion of q is not of unit norm, up to rounding */
    gridgen_bad_size = 4,     /* a C++ range has another number of elements, or gaps */
    gridgen_no_memory = 5     /* the memory for a batch, or for the loops of a large robot */
} gridgen_status;

/* A batch of any layout: element j of state i is data[i * batch + j * component], strides counted in
   elements. batch = 0: one for all states. */
typedef struct gridgen_array {
    void *data;
    long long batch;
    long long component;
} gridgen_array;

/* Returns the description of a status. */
static inline const char *gridgen_status_text(gridgen_status status)
{
    switch (status) {
    case gridgen_done: return "done";
    case gridgen_no_array: return "an array is missing: only those with a default may be NULL";
    case gridgen_bad_count: return "the number of states is negative, or a range exceeds it";
    case gridgen_no_rotation: return "a quaternion is not of unit norm";
    case gridgen_bad_size: return "a range has another number of elements, or gaps between them";
    case gridgen_no_memory: return "the system has no memory for the computation";
    }
    return "unknown";
}

#ifdef __cplusplus
}
#endif

#endif /* GRIDGEN_H */
