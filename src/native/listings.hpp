// What is alive, as rows: everything, or what one query needs.
#pragma once

#include "rows.hpp"

namespace ttmem {

struct Narrowed {
    Py_ssize_t limit = 0;    // 0: all
    Py_ssize_t device = -1;  // -1: any
};

PyObject* buffer_rows(const Ledger& ledger, const Narrowed& by);            // the largest
PyObject* l1_buffer_rows(const Ledger& ledger, const Narrowed& by);         // of L1 and L1_SMALL, the lowest addresses
PyObject* circular_buffer_rows(const Ledger& ledger, const Narrowed& by);   // the largest
PyObject* kernel_rows(const Ledger& ledger, const Narrowed& by);            // of the largest footprint
PyObject* program_rows(const Ledger& ledger, const Narrowed& by);           // dispatched last

// [(process, cores, covered, [(start, end), ...], program), ...] of one device; the program is the one whose circular
// buffer ends highest, 0 if it has no id.
PyObject* core_map(const Ledger& ledger, std::uint32_t device);

// [(process, program, cores, start, end, dataflow), ...]: what is resident on the cores of one device.
PyObject* resident_map(const Ledger& ledger, std::uint32_t device);

}  // namespace ttmem
