// Teams of lanes and their scans: one body per lane, one team per state. gridgen_bodies.cuh contains the
// operations on one body, and the conventions.
#ifndef GRIDGEN_SCAN_CUH
#define GRIDGEN_SCAN_CUH

#include "gridgen_bodies.cuh"
#include "gridgen_math.cuh"
#include "gridgen_shared.cuh"

namespace gridgen {
namespace scan {

// --- Vectors ------------------------------------------------------------------------------------

template <class T> GRIDGEN_DEVICE Vector<T> operator+(Vector<T> a, Vector<T> b) {
    return {a.x + b.x, a.y + b.y, a.z + b.z};
}

template <class T> GRIDGEN_DEVICE Vector<T> operator-(Vector<T> a, Vector<T> b) {
    return {a.x - b.x, a.y - b.y, a.z - b.z};
}

template <class T> GRIDGEN_DEVICE Vector<T> operator-(Vector<T> a) { return {-a.x, -a.y, -a.z}; }

template <class T> GRIDGEN_DEVICE Spatial<T> operator+(const Spatial<T>& a, const Spatial<T>& b) {
    return {a.linear + b.linear, a.angular + b.angular};
}

template <class T> GRIDGEN_DEVICE Spatial<T> operator-(const Spatial<T>& a, const Spatial<T>& b) {
    return {a.linear - b.linear, a.angular - b.angular};
}

// s a
template <class T> GRIDGEN_DEVICE Vector<T> scaled(T s, Vector<T> a) {
    return {product(s, a.x), product(s, a.y), product(s, a.z)};
}

template <class T> GRIDGEN_DEVICE Spatial<T> scaled(T s, const Spatial<T>& a) {
    return {scaled(s, a.linear), scaled(s, a.angular)};
}

// s a + b
template <class T> GRIDGEN_DEVICE Vector<T> scale_add(T s, Vector<T> a, Vector<T> b) {
    return {fma(s, a.x, b.x), fma(s, a.y, b.y), fma(s, a.z, b.z)};
}

// The placement X of a body after a rotation of its joint.
template <class T> GRIDGEN_DEVICE Placement<T> spun(const Placement<T>& X, T angle) {
    T s, c;
    sincos<T>(angle, s, c);
    return spun(X, s, c);
}

// --- Axes of joints -----------------------------------------------------------------------------

// Motion of a joint with one degree of freedom: along z, or about it with `pitch` of translation along it
// per radian. In headers `pitch` is the constant zero if no joint of the robot has one.
template <class T> struct Screw {
    bool slides;
    T pitch;
};

// The motion at a joint rate: S rate.
template <class T> GRIDGEN_DEVICE Spatial<T> motion_of(const Screw<T>& axis, T rate) {
    Spatial<T> motion{};
    (axis.slides ? motion.linear : motion.angular).z = rate;
    if (axis.pitch != T(0)) motion.linear.z = product(axis.pitch, rate);
    return motion;
}

// The joint rate of such a motion.
template <class T> GRIDGEN_DEVICE T rate_of(const Screw<T>& axis, const Spatial<T>& motion) {
    return axis.slides ? motion.linear.z : motion.angular.z;
}

// The joint torque of a wrench: S^T F.
template <class T> GRIDGEN_DEVICE T effort_of(const Screw<T>& axis, const Spatial<T>& F) {
    const T effort = axis.slides ? F.linear.z : F.angular.z;
    return axis.pitch != T(0) ? fma(axis.pitch, F.linear.z, effort) : effort;
}

// A wrench with that joint torque.
template <class T> GRIDGEN_DEVICE Spatial<T> wrench_of(const Screw<T>& axis, T effort) {
    Spatial<T> F{};
    (axis.slides ? F.linear : F.angular).z = effort;
    return F;
}

// --- Records of numbers -------------------------------------------------------------------------

// Component c of a record that consists of numbers of type T only.
template <class T, class Record> GRIDGEN_DEVICE T& component(Record& record, int c) {
    return reinterpret_cast<T*>(&record)[c];
}

template <class T, class Record> GRIDGEN_DEVICE T component(const Record& record, int c) {
    return reinterpret_cast<const T*>(&record)[c];
}

// Column i of a table with one row for each component.
template <class Record, class T, int components, int columns>
GRIDGEN_DEVICE Record load(const T (&table)[components][columns], int i) {
    static_assert(sizeof(Record) == components * sizeof(T), "one row for each component");
    Record record;
    for (int c = 0; c < components; ++c) component<T>(record, c) = table[c][i];
    return record;
}

// Three or six consecutive elements of an argument.
template <class T> GRIDGEN_DEVICE Vector<T> load_vector(View<const T> array, int first) {
    return {array[first], array[first + 1], array[first + 2]};
}

template <class T> GRIDGEN_DEVICE Spatial<T> load_spatial(View<const T> array, int first) {
    return {load_vector(array, first), load_vector(array, first + 3)};
}

// --- Teams --------------------------------------------------------------------------------------
//
// A team of lanes computes one state; each lane owns `share` bodies. Kernels are the same for all teams:
// they store a record for each body that the lane owns, and fetch those of others.

// For every body, a list of bodies: those of body i are members[starts[i]] to members[starts[i + 1]
// - 1], in ascending order. No list is longer than `most`.
struct Lists {
    const short* starts;
    const short* members;
    int most;
};

// For an exchange in which all bodies take part.
struct Everyone {
    __device__ __forceinline__ bool operator()(int) const { return true; }
};

// A state on `width` neighboring lanes of a warp (a power of two): lane i owns body i. Lanes
// beyond the last body and states beyond the last state repeat it without writing results.
template <class T, int bodies, int width> class WarpTeam {
  public:
    static constexpr int share = 1;
    int64 state;

    __device__ __forceinline__ explicit WarpTeam(int64 states) {
        const int64 index = (int64(blockIdx.x) * blockDim.x + threadIdx.x) / width;
        lane_ = int(threadIdx.x) % width;
        state = index < states ? index : states - 1;
        heard_ = index < states;
    }

    // The team of the requested state, of those before `end`.
    __device__ __forceinline__ WarpTeam(int64 index, int64 end)
        : state(index < end ? index : end - 1),
          lane_(int(threadIdx.x) % width),
          heard_(index < end) {}

    // The j-th body of this lane, and whether this lane may write its results.
    __device__ __forceinline__ int body(int) const { return lane_ < bodies ? lane_ : bodies - 1; }
    __device__ __forceinline__ bool owns(int) const { return heard_ && lane_ < bodies; }
    // Whether it writes the body to the team's memory: teams beyond the last state also have one.
    __device__ __forceinline__ bool keeps(int) const { return lane_ < bodies; }

    // The lane's number in the team, and the number of lanes; whether the team may write results.
    __device__ __forceinline__ int lane() const { return lane_; }
    __device__ __forceinline__ bool heard() const { return heard_; }
    static constexpr int lanes = width;

    // The team's number in the block, and in the grid.
    __device__ __forceinline__ int own() const { return int(threadIdx.x) / width; }
    __device__ __forceinline__ int64 number() const {
        return (int64(blockIdx.x) * blockDim.x + threadIdx.x) / width;
    }

    // The records of the bodies that `source` names for each body; the result for a body without one (-1)
    // is unspecified.
    template <class Record>
    __device__ __forceinline__ void fetch(const short* source, const Record (&mine)[1],
                                          Record (&theirs)[1]) {
        const int from = source[body(0)];
        for (int c = 0; c < int(sizeof(Record) / sizeof(T)); ++c)
            component<T>(theirs[0], c) = receive(component<T>(mine[0], c), from);
    }

    // Adds to each total the records of the bodies on its list, in the order of the list. `adds` returns
    // whether the lane's j-th body has a total; all bodies on its list must be among `sends`.
    template <class Record, class Sends = Everyone, class Adds = Everyone>
    __device__ __forceinline__ void add_listed(Lists lists, const Record (&sent)[1],
                                               Record (&total)[1], Sends = {}, Adds adds = {}) {
        const int first = lists.starts[body(0)];
        const int count = adds(0) ? lists.starts[body(0) + 1] - first : 0;
        for (int s = 0; s < lists.most; ++s) {
            const bool listed = s < count;
            const int from = listed ? lists.members[first + s] : 0;
            for (int c = 0; c < int(sizeof(Record) / sizeof(T)); ++c) {
                const T received = receive(component<T>(sent[0], c), from);
                if (listed) component<T>(total[0], c) += received;
            }
        }
    }

    // Broadcasts `count` numbers of one body from the lane that owns it to all lanes; number(j, c)
    // returns number c of the lane's j-th body. `copy` is a buffer for teams that need one.
    template <class Number>
    __device__ __forceinline__ const T* broadcast(int of, int count, Number number, T* copy) {
        for (int c = 0; c < count; ++c) copy[c] = receive(body(0) == of ? number(0, c) : T(0), of);
        return copy;
    }
    static constexpr bool copies = true;

    // Saves a record to shared memory to free registers; restore_record() restores it. `place` is the number
    // of values that are already saved.
    template <class Record>
    __device__ __forceinline__ void save_record(int place, const Record (&record)[1]) const {
        for (int c = 0; c < int(sizeof(Record) / sizeof(T)); ++c)
            dynamic_shared<T>()[(place + c) * blockDim.x + threadIdx.x] =
                component<T>(record[0], c);
    }

    template <class Record>
    __device__ __forceinline__ void restore_record(int place, Record (&record)[1]) const {
        __syncwarp();  // prevents the compiler from holding the record in registers
        for (int c = 0; c < int(sizeof(Record) / sizeof(T)); ++c)
            component<T>(record[0], c) =
                dynamic_shared<T>()[(place + c) * blockDim.x + threadIdx.x];
    }

  private:
    static constexpr unsigned everyone = 0xffffffffu;

    __device__ __forceinline__ T receive(T value, int from) const {
        return __shfl_sync(everyone, value, from < 0 ? 0 : from, width);
    }

    int lane_;
    bool heard_;
};

// A state on a block: lane t owns the bodies t, t + threads, ... Lanes exchange records through shared
// memory, `piece` numbers of each body at a time. Two buffers alternate, so that one barrier is enough: a
// thread that fills a buffer again has passed the barrier of the other one, which all threads reach only
// after they have read this one.
template <class T, int bodies, int threads, int piece> class BlockTeam {
  public:
    static constexpr int share = (bodies + threads - 1) / threads;
    static constexpr int lanes = threads;
    static constexpr int shared_numbers = 2 * piece * bodies;
    int64 state;

    __device__ __forceinline__ explicit BlockTeam(int64)
        : state(blockIdx.x), buffer_(dynamic_shared<T>()), other_(buffer_ + piece * bodies) {}

    __device__ __forceinline__ int body(int j) const {
        const int i = lane() + j * threads;
        return i < bodies ? i : bodies - 1;
    }
    __device__ __forceinline__ bool owns(int j) const { return lane() + j * threads < bodies; }
    __device__ __forceinline__ bool keeps(int j) const { return owns(j); }
    __device__ __forceinline__ int lane() const { return int(threadIdx.x); }
    __device__ __forceinline__ bool heard() const { return true; }
    __device__ __forceinline__ int own() const { return 0; }
    __device__ __forceinline__ int64 number() const { return blockIdx.x; }

    template <class Record>
    __device__ __forceinline__ void fetch(const short* source, const Record (&mine)[share],
                                          Record (&theirs)[share]) {
        constexpr int count = sizeof(Record) / sizeof(T);
        for (int first = 0; first < count; first += piece) {
            publish(mine, first, Everyone{});
            for (int j = 0; j < share; ++j) {
                const int from = source[body(j)] < 0 ? 0 : source[body(j)];
                for (int c = 0; c < piece && first + c < count; ++c)
                    component<T>(theirs[j], first + c) = buffer_[c * bodies + from];
            }
        }
    }

    template <class Record, class Sends = Everyone, class Adds = Everyone>
    __device__ __forceinline__ void add_listed(Lists lists, const Record (&sent)[share],
                                               Record (&total)[share], Sends sends = {},
                                               Adds adds = {}) {
        constexpr int count = sizeof(Record) / sizeof(T);
        for (int first = 0; first < count; first += piece) {
            publish(sent, first, sends);
            for (int j = 0; j < share; ++j) {
                if (!adds(j)) continue;
                const int end = lists.starts[body(j) + 1];
                for (int s = lists.starts[body(j)]; s < end; ++s) {
                    for (int c = 0; c < piece && first + c < count; ++c)
                        component<T>(total[j], first + c) +=
                            buffer_[c * bodies + lists.members[s]];
                }
            }
        }
    }

    template <class Number>
    __device__ __forceinline__ const T* broadcast(int of, int count, Number number, T*) {
        take_turns();
        for (int j = 0; j < share; ++j) {
            if (!owns(j) || body(j) != of) continue;
            for (int c = 0; c < count; ++c) buffer_[c] = number(j, c);
        }
        __syncthreads();
        return buffer_;
    }
    static constexpr bool copies = false;

    // On a block the compiler alone manages the registers.
    template <class Record>
    __device__ __forceinline__ void save_record(int, const Record (&)[share]) const {}
    template <class Record>
    __device__ __forceinline__ void restore_record(int, Record (&)[share]) const {}

  private:
    // Shares a piece of the records of the sending lanes with all lanes, in buffer_.
    template <class Record, class Sends>
    __device__ __forceinline__ void publish(const Record (&mine)[share], int first, Sends sends) {
        constexpr int count = sizeof(Record) / sizeof(T);
        take_turns();
        for (int j = 0; j < share; ++j) {
            if (!owns(j) || !sends(j)) continue;
            for (int c = 0; c < piece && first + c < count; ++c)
                buffer_[c * bodies + body(j)] = component<T>(mine[j], first + c);
        }
        __syncthreads();
    }

    __device__ __forceinline__ void take_turns() {
        T* const free = other_;
        other_ = buffer_;
        buffer_ = free;
    }

    T* buffer_;
    T* other_;
};

// --- Scans --------------------------------------------------------------------------------------
//
// Round k of a scan toward the leaves combines each body with its ancestor 2^k above, `above`;
// bodies without one have already reached the base. X places each body in that ancestor.

// The placement over twice as many joints.
template <class T, class Team, int share>
__device__ __forceinline__ void extend(Team& team, const short* above,
                                       const Placement<T> (&X)[share],
                                       Placement<T> (&twice)[share]) {
    Placement<T> theirs[share];
    team.fetch(above, X, theirs);
    for (int j = 0; j < share; ++j)
        twice[j] = above[team.body(j)] >= 0 ? compose(theirs[j], X[j]) : X[j];
}

// A motion and the placement over which it is accumulated.
template <class T> struct Moved {
    Placement<T> X;
    Spatial<T> V;
};

// V += X V_ancestor, and the placement over twice as many joints.
template <class T, class Team, int share>
__device__ __forceinline__ void extend(Team& team, const short* above,
                                       const Placement<T> (&X)[share], Spatial<T> (&V)[share],
                                       Placement<T> (&twice)[share]) {
    Moved<T> mine[share], theirs[share];
    for (int j = 0; j < share; ++j) mine[j] = {X[j], V[j]};
    team.fetch(above, mine, theirs);
    for (int j = 0; j < share; ++j) {
        const bool meets = above[team.body(j)] >= 0;
        twice[j] = meets ? compose(theirs[j].X, X[j]) : X[j];
        if (meets) V[j] = V[j] + to_body(X[j], theirs[j].V);
    }
}

// The same in the last round, which needs no further placement.
template <class T, class Team, int share>
__device__ __forceinline__ void propagate(Team& team, const short* above,
                                          const Placement<T> (&X)[share],
                                          Spatial<T> (&V)[share]) {
    Spatial<T> theirs[share];
    team.fetch(above, V, theirs);
    for (int j = 0; j < share; ++j)
        if (above[team.body(j)] >= 0) V[j] = V[j] + to_body(X[j], theirs[j]);
}

// Round k of a scan toward the root: each body adds the wrenches of its descendants exactly 2^k
// below, each the sum over those less than 2^k below it.
template <class T, class Team, int share>
__device__ __forceinline__ void collect(Team& team, Lists below, const Placement<T> (&X)[share],
                                        Spatial<T> (&F)[share]) {
    Spatial<T> sent[share];
    for (int j = 0; j < share; ++j) sent[j] = to_ancestor(X[j], F[j]);
    team.add_listed(below, sent, F);
}

// --- Observation --------------------------------------------------------------------------------

// Kernels pass intermediate quantities to an observer; this one ignores them.
struct Unwatched {
    template <class Record>
    __device__ __forceinline__ void operator()(int, int, const Record&) const {}
};

// This one stores them: the record of body i with an offset of `before` numbers of each body.
template <class T, int bodies> struct Recorder {
    View<T> trace;

    template <class Record>
    __device__ __forceinline__ void operator()(int before, int i, const Record& record) const {
        constexpr int count = sizeof(Record) / sizeof(T);
        for (int c = 0; c < count; ++c)
            trace[before * bodies + i * count + c] = component<T>(record, c);
    }
};

}  // namespace scan
}  // namespace gridgen

#endif  // GRIDGEN_SCAN_CUH
