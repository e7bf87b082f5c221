// Rows of unsigned 64-bit numbers, little-endian, as defined in tables.hpp.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string>

#include "ledger.hpp"

namespace ttmem {

template <typename Row>
class Rows {
public:
    void operator<<(const Row& row) { text_.append(reinterpret_cast<const char*>(&row), sizeof row); }
    PyObject* bytes() const { return PyBytes_FromStringAndSize(text_.data(), static_cast<Py_ssize_t>(text_.size())); }
    void reserve(std::size_t rows) { text_.reserve(rows * sizeof(Row)); }

private:
    std::string text_;
};

inline CounterColumns columns(const Counters& c) { return {c.loads, c.unloads, c.dispatches, c.hits, c.misses}; }

}  // namespace ttmem
