#pragma once

namespace gridgen {

struct Array {
    void* data;
    long long batch;
    long long component;
};

template <class T>
struct Strided {
    T* data;
    long long batch;
    long long component;
};

}  // namespace gridgen
