// Texts and line numbers of CPython's objects, read in place.
#pragma once

#include <cstddef>
#include <cstring>

#include "python_layout.hpp"

namespace ttmem::probe {

struct Text {
    const char* data;
    std::size_t length;

    bool is(const char* other) const { return length == std::strlen(other) && !std::memcmp(data, other, length); }
    bool ends_with(const char* end) const {
        const std::size_t size = std::strlen(end);
        return length >= size && !std::memcmp(data + length - size, end, size);
    }
};

// Of a str: the text itself if it is ASCII, its UTF-8 if that was made before, else it is made in `room`, cut to fit.
struct Room {
    char bytes[1024];
};
Text text_of(const PythonLayout& layout, const void* unicode, Room& room);

// The line of an instruction (counted in code units); the first line of the function if the table does not say.
int line_of(const PythonLayout& layout, const void* code, std::uint32_t instruction);

}  // namespace ttmem::probe
