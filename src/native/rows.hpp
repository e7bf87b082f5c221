// Rows of unsigned 64-bit numbers, little-endian; ttmem/wire/rows.py names the columns.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string>

#include "ledger.hpp"

namespace ttmem {

class Rows {
public:
    Rows& operator<<(std::uint64_t value) {
        text_.append(reinterpret_cast<const char*>(&value), sizeof value);
        return *this;
    }
    template <std::size_t N>
    Rows& operator<<(const std::uint64_t (&values)[N]) {
        for (const std::uint64_t value : values) {
            *this << value;
        }
        return *this;
    }
    Rows& operator<<(const Counters& c) { return *this << c.loads << c.unloads << c.dispatches << c.hits << c.misses; }
    PyObject* bytes() const { return PyBytes_FromStringAndSize(text_.data(), static_cast<Py_ssize_t>(text_.size())); }
    void reserve(std::size_t rows, std::size_t columns) { text_.reserve(rows * columns * 8); }

private:
    std::string text_;
};

}  // namespace ttmem
