// Made for people, a few times a second. Small code is preferred.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("Os")
#endif

#include "listings.hpp"

#include <algorithm>
#include <utility>

namespace ttmem {

namespace {

template <typename T>
using Ranked = std::pair<std::uint64_t, const T*>;

// The `limit` highest ranks first. Ranks are stored with the pointers: comparing them does not touch the entries.
template <typename T, typename Row>
PyObject* listing(const Ledger& ledger, const Narrowed& by, Chain<T> Process::* chain,
                  std::uint64_t (*rank)(const T&), Row (*row)(const T&), bool (*wanted)(const T&) = nullptr) {
    std::vector<Ranked<T>> items;
    for (const Process& process : ledger.processes()) {
        for (const T* item = (process.*chain).head; item; item = item->next) {
            if ((by.device < 0 || item->key.device == by.device) && (!wanted || wanted(*item))) {
                items.emplace_back(rank(*item), item);
            }
        }
    }
    if (by.limit > 0 && static_cast<std::size_t>(by.limit) < items.size()) {
        const auto higher = [](const Ranked<T>& a, const Ranked<T>& b) { return a.first > b.first; };
        std::partial_sort(items.begin(), items.begin() + by.limit, items.end(), higher);
        items.resize(static_cast<std::size_t>(by.limit));
    }
    Rows<Row> rows;
    rows.reserve(items.size());
    for (const Ranked<T>& item : items) {
        rows << row(*item.second);
    }
    return rows.bytes();
}

BufferRow buffer_row(const Buffer& b) {
    return {.process = b.key.process,
            .device = b.key.device,
            .kind = b.key.kind,
            .id = b.key.id,
            .size = b.size,
            .reserved = b.reserved,
            .address = b.address,
            .time = b.time,
            .references = b.references,
            .name = b.name,
            .site = b.site,
            .phase = b.phase};
}

CircularBufferRow circular_buffer_row(const CircularBuffer& cb) {
    return {.process = cb.key.process,
            .device = cb.key.device,
            .flags = cb.flags,
            .address = cb.address,
            .size = cb.size,
            .per_core = cb.per_core,
            .program = cb.program ? cb.program->key.id : 0,
            .time = cb.time,
            .references = cb.references,
            .cores = cb.cores};
}

KernelRow kernel_row(const Kernel& k) {
    return {.process = k.key.process,
            .device = k.key.device,
            .type = k.type,
            .id = k.key.id,
            .binary = k.binary,
            .binary_known = k.binary_known,
            .cores = k.cores,
            .footprint = k.footprint,
            .content = k.content,
            .program = k.program ? k.program->key.id : 0,
            .dispatches = k.dispatches(),
            .time = k.time,
            .name = k.name,
            .site = k.site,
            .loads = k.loads};
}

ProgramRow program_row(const Program& p) {
    return {.process = p.key.process,
            .device = p.key.device,
            .id = p.key.id,
            .status = p.status,
            .status_known = p.status_known,
            .dispatches = p.dispatches,
            .hits = p.hits,
            .misses = p.misses,
            .last_dispatch = p.last_dispatch,
            .resident = p.resident_bytes,
            .resident_cores = static_cast<std::uint64_t>(p.resident.count()),
            .name = p.name,
            .site = p.site,
            .last_site = p.last_site};
}

PyObject* mask_bytes(const CoreMask& mask) {
    return PyBytes_FromStringAndSize(reinterpret_cast<const char*>(mask.words.data()), sizeof mask.words);
}

// Released if the accounts throw.
struct Owned {
    PyObject* object;
    ~Owned() { Py_XDECREF(object); }
};

// Appends, and takes over `row`; false on failure.
bool append(PyObject* list, PyObject* row) {
    const bool done = row && PyList_Append(list, row) == 0;
    Py_XDECREF(row);
    return done;
}

PyObject* ranges_list(const std::vector<Coverage::Range>& ranges) {
    PyObject* out = PyList_New(0);
    for (const auto& [start, end] : ranges) {
        if (out && !append(out, Py_BuildValue("(KK)", static_cast<unsigned long long>(start),
                                              static_cast<unsigned long long>(end)))) {
            Py_CLEAR(out);
        }
    }
    return out;
}

// For each class of cores the program whose circular buffer ends where the class ends.
std::vector<std::uint64_t> highest_programs(const Process& process, std::uint32_t device,
                                            const std::vector<GridCoverage::Class>& classes) {
    std::vector<std::uint64_t> ends(classes.size()), programs(classes.size());
    for (std::size_t i = 0; i < classes.size(); ++i) {
        const auto regions = classes[i].coverage.regions();
        ends[i] = regions.empty() ? 0 : regions.back().second;
    }
    for (const CircularBuffer* cb = process.circular_buffers.head; cb; cb = cb->next) {
        if (cb->key.device != device || !cb->mask || !cb->counted() || !cb->program) {
            continue;
        }
        for (std::size_t i = 0; i < classes.size(); ++i) {
            if (cb->address + cb->per_core == ends[i] && !(*cb->mask & classes[i].cores).empty()) {
                programs[i] = cb->program->key.id;
            }
        }
    }
    return programs;
}

}  // namespace

PyObject* buffer_rows(const Ledger& ledger, const Narrowed& by) {
    return listing<Buffer>(ledger, by, &Process::buffers, [](const Buffer& b) { return b.held(); }, buffer_row);
}

PyObject* l1_buffer_rows(const Ledger& ledger, const Narrowed& by) {
    return listing<Buffer>(
        ledger, by, &Process::buffers, [](const Buffer& b) { return ~b.address; }, buffer_row,
        [](const Buffer& b) { return b.key.kind == KIND_L1 || b.key.kind == KIND_L1_SMALL; });
}

PyObject* circular_buffer_rows(const Ledger& ledger, const Narrowed& by) {
    return listing<CircularBuffer>(
        ledger, by, &Process::circular_buffers, [](const CircularBuffer& cb) { return cb.size; }, circular_buffer_row);
}

PyObject* kernel_rows(const Ledger& ledger, const Narrowed& by) {
    return listing<Kernel>(
        ledger, by, &Process::kernels, [](const Kernel& k) { return k.footprint; }, kernel_row);
}

PyObject* program_rows(const Ledger& ledger, const Narrowed& by) {
    return listing<Program>(
        ledger, by, &Process::programs, [](const Program& p) { return p.last_dispatch; }, program_row);
}

PyObject* core_map(const Ledger& ledger, std::uint32_t device) {
    Owned out{PyList_New(0)};
    const std::vector<Process>& processes = ledger.processes();
    for (std::size_t index = 0; out.object && index < processes.size(); ++index) {
        const auto found = processes[index].accounts.find(device);
        if (found == processes[index].accounts.end()) {
            continue;
        }
        const std::vector<GridCoverage::Class>& classes = found->second->cb_cached.classes();
        const std::vector<std::uint64_t> programs = highest_programs(processes[index], device, classes);
        for (std::size_t i = 0; out.object && i < classes.size(); ++i) {
            const Coverage& coverage = classes[i].coverage;
            const std::vector<Coverage::Range> ranges = coverage.regions();
            PyObject* row = Py_BuildValue("(nNKNK)", static_cast<Py_ssize_t>(index), mask_bytes(classes[i].cores),
                                          static_cast<unsigned long long>(coverage.covered()), ranges_list(ranges),
                                          static_cast<unsigned long long>(programs[i]));
            if (!append(out.object, row)) {
                Py_CLEAR(out.object);
            }
        }
    }
    return std::exchange(out.object, nullptr);
}

PyObject* resident_map(const Ledger& ledger, std::uint32_t device) {
    PyObject* out = PyList_New(0);
    for (const Program* program : ledger.devices()[device].residents) {
        for (const CircularBuffer* cb = program->circular_buffers; out && cb; cb = cb->program_next) {
            const CoreMask cores = cb->mask && cb->counted() ? *cb->mask & program->resident : CoreMask{};
            if (cores.empty()) {
                continue;
            }
            PyObject* row = Py_BuildValue("(IKNKKi)", program->key.process,
                                          static_cast<unsigned long long>(program->key.id), mask_bytes(cores),
                                          static_cast<unsigned long long>(cb->address),
                                          static_cast<unsigned long long>(cb->address + cb->per_core),
                                          cb->flags & DATAFLOW ? 1 : 0);
            if (!append(out, row)) {
                Py_CLEAR(out);
            }
        }
    }
    return out;
}

}  // namespace ttmem
