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

// The text of a str: in place if it is ASCII, its cached UTF-8 if there is any, else it is encoded into `buffer`, cut to
// fit.
struct TextBuffer {
    char bytes[1024];
};
Text text_of(const PythonLayout& layout, const void* unicode, TextBuffer& buffer);

// The line of an instruction (counted in code units); the first line of the function if the table does not say.
int line_of(const PythonLayout& layout, const void* code, std::uint32_t instruction);

}  // namespace ttmem::probe
