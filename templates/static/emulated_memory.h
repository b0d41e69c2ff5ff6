// The memory of the emulation: arrays, and the location and initial contents of shared memory.
#pragma once

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#if defined(__linux__)
#include <dlfcn.h>
#include <elf.h>
#endif

namespace gridgen::emulated {

// Up to `most` objects. It needs no C++ library, as all generated code.
template <class T>
class Items {
  public:
    explicit Items(std::size_t most)
        : first_(static_cast<T*>(std::malloc(most * sizeof(T) + (most == 0)))) {}
    ~Items() {
        for (T& item : *this) item.~T();
        std::free(first_);
    }
    Items(const Items&) = delete;
    Items& operator=(const Items&) = delete;

    // Whether the system had memory for them.
    bool allocated() const { return first_ != nullptr; }

    template <class... Arguments>
    T& add(Arguments&&... arguments) {
        return *new (first_ + count_++) T{static_cast<Arguments&&>(arguments)...};
    }

    T* begin() const { return first_; }
    T* end() const { return first_ + count_; }
    T& operator[](std::size_t i) const { return first_[i]; }
    std::size_t size() const { return count_; }

  private:
    T* const first_;
    std::size_t count_ = 0;
};

// Uninitialized shared memory and inactive lanes: a NaN as float and as double, and as an index far
// outside of any array.
constexpr unsigned char poison_bytes[4] = {0xAD, 0xDE, 0xF4, 0x7F};

inline void poison(void* memory, std::size_t size) {
    auto* bytes = static_cast<unsigned char*>(memory);
    for (std::size_t i = 0; i < size; ++i) bytes[i] = poison_bytes[i % sizeof poison_bytes];
}

struct Region {
    void* memory;
    std::size_t size;
};

// The `__shared__` variables of this object file: static variables of functions, which the symbol
// table of the file lists as writable objects with a local mangled name. C++ has no other way to list
// them. On other systems than Linux, shared variables retain the values of the previous block.
#if defined(__linux__) && defined(__LP64__)
class SharedVariables {
  public:
    template <class Visit>
    void each(const Visit& visit) const {
        Elf64_Ehdr header{};
        if (!read(header, 0) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return;
        for (std::size_t i = 0; i < header.e_shnum; ++i) {
            Elf64_Shdr table{};
            if (!section(table, header, i)) return;
            if (table.sh_type != SHT_SYMTAB) continue;
            for (std::size_t k = 0; k < table.sh_size / sizeof(Elf64_Sym); ++k) {
                Elf64_Sym symbol{};
                if (!read(symbol, table.sh_offset + k * sizeof symbol)) return;
                if (!is_shared(header, table, symbol)) continue;
                const std::size_t base = header.e_type == ET_EXEC ? 0 : base_;
                visit(Region{reinterpret_cast<void*>(base + symbol.st_value), symbol.st_size});
            }
        }
    }

    std::size_t count() const {
        std::size_t found = 0;
        each([&found](const Region&) { ++found; });
        return found;
    }

    // Reads the file once; launches come one at a time.
    static const SharedVariables& of_this_file() {
        static constinit SharedVariables all;
        if (all.file_ == nullptr) all.open();
        return all;
    }

  private:
    void open() {
        Dl_info object{};
        if (dladdr(reinterpret_cast<void*>(&of_this_file), &object) == 0) return;
        base_ = reinterpret_cast<std::size_t>(object.dli_fbase);
        std::FILE* stream = std::fopen(object.dli_fname, "rb");
        if (stream == nullptr) return;
        std::fseek(stream, 0, SEEK_END);
        const long size = std::ftell(stream);
        std::rewind(stream);
        file_ = size > 0 ? static_cast<char*>(std::malloc(static_cast<std::size_t>(size))) : nullptr;
        if (file_ != nullptr) size_ = std::fread(file_, 1, static_cast<std::size_t>(size), stream);
        std::fclose(stream);
    }

    template <class T>
    bool read(T& into, std::size_t offset) const {
        if (offset + sizeof into > size_) return false;
        std::memcpy(&into, file_ + offset, sizeof into);
        return true;
    }

    bool section(Elf64_Shdr& into, const Elf64_Ehdr& header, std::size_t index) const {
        return index < header.e_shnum && read(into, header.e_shoff + index * sizeof into);
    }

    // Whether an entry of a table of strings begins with these characters.
    bool begins(const Elf64_Ehdr& header, std::size_t table, std::size_t offset,
                const char* text) const {
        Elf64_Shdr strings{};
        const std::size_t length = std::strlen(text);
        if (!section(strings, header, table)) return false;
        const std::size_t begin = strings.sh_offset + offset;
        return begin + length <= size_ && std::memcmp(file_ + begin, text, length) == 0;
    }

    bool is_shared(const Elf64_Ehdr& header, const Elf64_Shdr& table, const Elf64_Sym& symbol) const {
        Elf64_Shdr place{};
        if (ELF64_ST_TYPE(symbol.st_info) != STT_OBJECT || symbol.st_shndx == SHN_UNDEF) return false;
        if (!section(place, header, symbol.st_shndx) || !(place.sh_flags & SHF_WRITE)) return false;
        // Constants that hold addresses are writable only until the file is loaded.
        if (begins(header, header.e_shstrndx, place.sh_name, ".data.rel")) return false;
        constexpr const char* others[] = {"_ZZSt", "_ZZNSt", "_ZZNKSt", "_ZZN7gridgen8emulated"};
        for (const char* other : others) {
            if (begins(header, table.sh_link, symbol.st_name, other)) return false;
        }
        return begins(header, table.sh_link, symbol.st_name, "_ZZ");
    }

    char* file_ = nullptr;
    std::size_t size_ = 0;
    std::size_t base_ = 0;
};
#else
struct SharedVariables {
    template <class Visit>
    void each(const Visit&) const {}
    std::size_t count() const { return 0; }
    static SharedVariables of_this_file() { return {}; }
};
#endif

}  // namespace gridgen::emulated
