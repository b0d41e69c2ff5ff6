// The shared memory of an emulated CUDA block: its location and initial contents.
#pragma once

#include <cstddef>
#include <cstring>
#include <string_view>
#include <vector>

#if defined(__linux__)
#include <dlfcn.h>
#include <elf.h>
#include <fstream>
#include <iterator>
#endif

namespace gridgen::emulated {

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
inline std::vector<Region> find_shared_variables() {
    std::vector<Region> found;
#if defined(__linux__) && defined(__LP64__)
    Dl_info object{};
    if (dladdr(reinterpret_cast<void*>(&find_shared_variables), &object) == 0) return found;
    std::ifstream stream(object.dli_fname, std::ios::binary);
    const std::vector<char> file{std::istreambuf_iterator<char>(stream), {}};
    const auto read = [&file](auto& into, std::size_t offset) {
        if (offset + sizeof into > file.size()) return false;
        std::memcpy(&into, file.data() + offset, sizeof into);
        return true;
    };
    Elf64_Ehdr header{};
    if (!read(header, 0) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return found;
    std::vector<Elf64_Shdr> sections(header.e_shnum);
    for (std::size_t i = 0; i < sections.size(); ++i) {
        if (!read(sections[i], header.e_shoff + i * sizeof(Elf64_Shdr))) return found;
    }
    const auto text = [&](std::size_t table, std::size_t offset) {
        const std::size_t begin = sections[table].sh_offset + offset;
        return begin < file.size() ? std::string_view(file.data() + begin) : std::string_view();
    };
    for (const Elf64_Shdr& table : sections) {
        if (table.sh_type != SHT_SYMTAB) continue;
        for (std::size_t i = 0; i < table.sh_size / sizeof(Elf64_Sym); ++i) {
            Elf64_Sym symbol{};
            if (!read(symbol, table.sh_offset + i * sizeof symbol)) return found;
            if (ELF64_ST_TYPE(symbol.st_info) != STT_OBJECT) continue;
            if (symbol.st_shndx == SHN_UNDEF || symbol.st_shndx >= sections.size()) continue;
            const Elf64_Shdr& section = sections[symbol.st_shndx];
            // Constants that hold addresses are writable only until the file is loaded.
            const bool written = (section.sh_flags & SHF_WRITE) != 0 &&
                                 !text(header.e_shstrndx, section.sh_name).starts_with(".data.rel");
            const std::string_view name = text(table.sh_link, symbol.st_name);
            const bool local = name.starts_with("_ZZ") && !name.starts_with("_ZZSt") &&
                               !name.starts_with("_ZZNSt") && !name.starts_with("_ZZNKSt") &&
                               !name.starts_with("_ZZN7gridgen8emulated");
            if (!written || !local) continue;
            const std::size_t base = header.e_type == ET_EXEC
                                         ? 0
                                         : reinterpret_cast<std::size_t>(object.dli_fbase);
            found.push_back({reinterpret_cast<void*>(base + symbol.st_value), symbol.st_size});
        }
    }
#endif
    return found;
}

inline const std::vector<Region>& shared_variables() {
    static const std::vector<Region> all = find_shared_variables();
    return all;
}

}  // namespace gridgen::emulated
