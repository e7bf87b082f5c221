// Reads the records of a region for Python, with the same checksum that wrote them. Data comes as bytes (the stable
// ABI of CPython 3.10 has no buffer protocol) and may be anything: every number in it is checked before it is used.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "layout.hpp"
#include "text_hash.hpp"

namespace {

using namespace ttmem;
using namespace ttmem::probe;

// What accompanies an event in its slot: phase, thread, layout.
struct Side {
    std::uint32_t phase;
    std::uint16_t thread;
    std::uint8_t layout, reserved;
};

struct SlotCopy {
    std::uint64_t check, ticket;
    Side side;
    Event event;
};
static_assert(sizeof(SlotCopy) == sizeof(Slot), "a slot without its atomic");

class Taken {
public:
    Taken(const char* sets, std::size_t size) : sets_(sets), count_(size / sizeof(SetRecord)) {}

    void add(const SlotCopy& slot) {
        Event event = slot.event;
        if (event.op == ALLOC || event.op == FREE) {
            event.cores = slot.side.phase;  // where the ledger expects it: a buffer has no cores
        }
        if (!(event.device & SET_OF_DEVICES)) {
            return put(event, slot.side);
        }
        SetRecord set;
        const std::uint32_t number = event.device & ~SET_OF_DEVICES;
        if (number >= count_) {
            return;
        }
        std::memcpy(&set, sets_ + number * sizeof set, sizeof set);
        if (set.check != checksum(&set, sizeof set)) {
            return;
        }
        for (std::uint32_t i = 0; i < set.count && i < MAX_DEVICES; ++i) {
            event.device = set.chips[i];
            put(event, slot.side);
            event.flags |= SAME_SLOT;
        }
    }
    void reserve(std::size_t slots) {
        events.reserve(slots * sizeof(Event));
        sides.reserve(slots * sizeof(Side));
    }

    std::string events, sides;

private:
    void put(const Event& event, const Side& side) {
        events.append(reinterpret_cast<const char*>(&event), sizeof event);
        sides.append(reinterpret_cast<const char*>(&side), sizeof side);
    }

    const char* sets_;
    std::size_t count_;
};

// take_slots(slots, first, sets, limit, until) -> (events, sides, taken, lost): slots from ticket `first` on. A slot that
// is not that ticket's, or is not whole, ends it; those before ticket `until` are counted as lost and passed over. An
// event of a set of devices becomes one for each of them, so it also ends where there are `limit` bytes of events.
PyObject* take_slots(PyObject*, PyObject* args) {
    const char *slots, *sets;
    Py_ssize_t size, sets_size, limit;
    unsigned long long first, until;
    if (!PyArg_ParseTuple(args, "y#Ky#nK", &slots, &size, &first, &sets, &sets_size, &limit, &until)) {
        return nullptr;
    }
    try {
        Taken taken(sets, static_cast<std::size_t>(sets_size));
        const std::size_t count = static_cast<std::size_t>(size) / sizeof(SlotCopy);
        const std::size_t most = limit < 0 ? 0 : static_cast<std::size_t>(limit);
        taken.reserve(std::min(count, most / sizeof(Event)));
        std::size_t done = 0, lost = 0;
        for (; done < count && taken.events.size() < most; ++done) {
            SlotCopy slot;
            std::memcpy(&slot, slots + done * sizeof slot, sizeof slot);
            if (slot.ticket == first + done && slot.check == checksum(&slot, sizeof slot)) {
                taken.add(slot);
            } else if (first + done < until) {
                ++lost;
            } else {
                break;
            }
        }
        return Py_BuildValue("(y#y#nn)", taken.events.data(), static_cast<Py_ssize_t>(taken.events.size()),
                             taken.sides.data(), static_cast<Py_ssize_t>(taken.sides.size()),
                             static_cast<Py_ssize_t>(done), static_cast<Py_ssize_t>(lost));
    } catch (const std::bad_alloc&) {
        return PyErr_NoMemory();
    }
}

// whole_live(keys, entries) -> bytes: the entries that are alive and whole, one after the other.
PyObject* whole_live(PyObject*, PyObject* args) {
    const char *keys, *entries;
    Py_ssize_t keys_size, size;
    if (!PyArg_ParseTuple(args, "y#y#", &keys, &keys_size, &entries, &size)) {
        return nullptr;
    }
    try {
        std::string found;
        const Py_ssize_t count = std::min(keys_size / 8, size / static_cast<Py_ssize_t>(sizeof(LiveEntry)));
        for (Py_ssize_t i = 0; i < count; ++i) {
            const std::uint64_t key = word_at(keys, static_cast<std::size_t>(i) * 8);
            if (!key) {
                continue;
            }
            LiveEntry entry;
            std::memcpy(&entry, entries + i * static_cast<Py_ssize_t>(sizeof entry), sizeof entry);
            // A freed entry keeps its bytes; only its key shows that it is alive.
            if (entry.key == key && entry.check == checksum(&entry, sizeof entry)) {
                found.append(reinterpret_cast<const char*>(&entry), sizeof entry);
            }
        }
        return PyBytes_FromStringAndSize(found.data(), static_cast<Py_ssize_t>(found.size()));
    } catch (const std::bad_alloc&) {
        return PyErr_NoMemory();
    }
}

// whole_records(data, stride) -> bytes: 1 for each record whose checksum is right.
PyObject* whole_records(PyObject*, PyObject* args) {
    const char* data;
    Py_ssize_t size, stride;
    if (!PyArg_ParseTuple(args, "y#n", &data, &size, &stride)) {
        return nullptr;
    }
    if (stride < 16 || stride % 8 || stride > 4096) {
        PyErr_SetString(PyExc_ValueError, "no record has this size");
        return nullptr;
    }
    PyObject* out = PyBytes_FromStringAndSize(nullptr, size / stride);
    char* whole = out ? PyBytes_AsString(out) : nullptr;
    if (!whole) {
        Py_XDECREF(out);
        return nullptr;
    }
    alignas(8) char record[4096];
    for (Py_ssize_t i = 0; i < size / stride; ++i) {
        std::memcpy(record, data + i * stride, static_cast<std::size_t>(stride));
        std::uint64_t check;
        std::memcpy(&check, record, sizeof check);
        whole[i] = check == checksum(record, static_cast<std::size_t>(stride));
    }
    return out;
}

// whole_strings(records, text, limit) -> (list of str, bytes): None where the checksum is wrong. Texts lie side by side,
// so all of them together have no more than `limit` bytes: records that share a text could name it a thousand times.
PyObject* whole_strings(PyObject*, PyObject* args) {
    const char *records, *text;
    Py_ssize_t size, text_size, limit;
    if (!PyArg_ParseTuple(args, "y#y#n", &records, &size, &text, &text_size, &limit)) {
        return nullptr;
    }
    PyObject* list = PyList_New(0);
    Py_ssize_t used = 0;
    for (Py_ssize_t at = 0; list && at + static_cast<Py_ssize_t>(sizeof(StringRecord)) <= size; at += sizeof(StringRecord)) {
        StringRecord record;
        std::memcpy(&record, records + at, sizeof record);
        const bool inside = std::uint64_t{record.offset} + record.length <= static_cast<std::uint64_t>(text_size) &&
                            static_cast<Py_ssize_t>(record.length) <= limit - used;
        const bool whole = inside && record.check == checksum(&record, sizeof record,
                                                              text_hash(text + record.offset, record.length));
        used += inside ? static_cast<Py_ssize_t>(record.length) : 0;
        PyObject* item = whole ? PyUnicode_DecodeUTF8(text + record.offset, record.length, "replace") : Py_None;
        if (!whole) {
            Py_INCREF(item);
        }
        const bool failed = !item || PyList_Append(list, item) != 0;
        Py_XDECREF(item);
        if (failed) {
            Py_DECREF(list);
            return nullptr;
        }
    }
    return list ? Py_BuildValue("(Nn)", list, used) : nullptr;
}

PyMethodDef methods[] = {
    {"take_slots", take_slots, METH_VARARGS, "Events of the ring, from a ticket on."},
    {"whole_live", whole_live, METH_VARARGS, "Entries of the live table that are alive."},
    {"whole_records", whole_records, METH_VARARGS, "Which records have the right checksum."},
    {"whole_strings", whole_strings, METH_VARARGS, "The texts of string records."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_records", nullptr, 0, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__records() { return PyModule_Create(&definition); }
