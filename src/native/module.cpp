// Python bindings, on the stable ABI of CPython 3.10 (which has no buffer protocol: data comes as bytes).
// Converts arguments and results; what is done for each event is elsewhere. Small code is preferred.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("Os")
#endif

#include "listings.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>

#include <sys/ioctl.h>
#include <sys/socket.h>

#include "event_columns.hpp"
#include "event_lines.hpp"
#include "page.hpp"
#include "records.hpp"

namespace {

using namespace ttmem;

struct Object {
    PyObject_HEAD Ledger* ledger;
    EventLines* lines;
    Journal* journal;
};

Ledger& ledger_of(PyObject* self) { return *reinterpret_cast<Object*>(self)->ledger; }
Journal& journal_of(PyObject* self) { return *reinterpret_cast<Object*>(self)->journal; }

// Out of memory, or a list longer than possible: anything else that the accounts throw becomes MemoryError.
template <PyCFunction function>
PyObject* guarded(PyObject* self, PyObject* args) {
    try {
        return function(self, args);
    } catch (const Malformed& problem) {
        PyErr_SetString(PyExc_ValueError, problem.what());
        return nullptr;
    } catch (const std::exception&) {
        return PyErr_NoMemory();
    }
}

// A method: `Ledger.__new__(Ledger)` creates an object without accounts.
template <PyCFunction function>
PyObject* method(PyObject* self, PyObject* args) {
    if (!reinterpret_cast<Object*>(self)->ledger) {
        PyErr_SetString(PyExc_RuntimeError, "this Ledger was not initialised: call Ledger()");
        return nullptr;
    }
    return guarded<function>(self, args);
}

int create(PyObject* self, PyObject* args, PyObject* keywords) {
    static const char* names[] = {"max_live", "max_steps", "seed", nullptr};
    unsigned long long max_live = 4'000'000, max_steps = MAX_STEPS, seed = 0;
    if (!PyArg_ParseTupleAndKeywords(
            args, keywords, "|KKK", const_cast<char**>(names), &max_live, &max_steps, &seed)) {
        return -1;
    }
    Object* object = reinterpret_cast<Object*>(self);
    try {
        auto lines = std::make_unique<EventLines>();
        auto journal = std::make_unique<Journal>();
        Ledger* made = new Ledger(std::min<std::uint64_t>(max_live, MAX_LIVE), std::min<std::uint64_t>(max_steps, MAX_STEPS), seed);
        delete object->ledger;
        delete object->lines;
        delete object->journal;
        object->ledger = made;
        object->lines = lines.release();
        object->journal = journal.release();
        return 0;
    } catch (const std::exception&) {
        PyErr_NoMemory();
        return -1;
    }
}

int traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    const Journal* journal = reinterpret_cast<Object*>(self)->journal;
    return journal ? journal->visit(visit, arg) : 0;
}

int clear(PyObject* self) {
    if (Journal* journal = reinterpret_cast<Object*>(self)->journal) {
        journal->write_to(nullptr);
    }
    return 0;
}

void destroy(PyObject* self) {
    PyObject_GC_UnTrack(self);
    delete reinterpret_cast<Object*>(self)->ledger;
    delete reinterpret_cast<Object*>(self)->lines;
    delete reinterpret_cast<Object*>(self)->journal;
    PyTypeObject* type = Py_TYPE(self);
    reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

bool process_exists(PyObject* self, unsigned int process) {
    if (ledger_of(self).valid_process(process)) {
        return true;
    }
    PyErr_Format(PyExc_IndexError, "no open process %u", process);
    return false;
}

bool device_exists(PyObject* self, unsigned int device) {
    if (ledger_of(self).valid_device(device)) {
        return true;
    }
    PyErr_Format(PyExc_IndexError, "no device %u", device);
    return false;
}

PyObject* open_process(PyObject* self, PyObject* args) {
    unsigned int owner = 0;
    if (!PyArg_ParseTuple(args, "|I", &owner)) {
        return nullptr;
    }
    if (owner > MAX_OWNERS) {
        PyErr_SetString(PyExc_OverflowError, "too many owners");
        return nullptr;
    }
    if (ledger_of(self).next_process() >= MAX_PROCESSES) {
        PyErr_SetString(PyExc_OverflowError, "too many processes");
        return nullptr;
    }
    return PyLong_FromUnsignedLong(ledger_of(self).open_process(owner));
}

PyObject* add_device(PyObject* self, PyObject*) {
    if (ledger_of(self).devices().size() >= MAX_DEVICES) {
        PyErr_SetString(PyExc_OverflowError, "too many devices");
        return nullptr;
    }
    return PyLong_FromUnsignedLong(ledger_of(self).add_device());
}

PyObject* clear_device(PyObject* self, PyObject* args) {
    unsigned int device;
    int unbind;
    if (!PyArg_ParseTuple(args, "Ip", &device, &unbind) || !device_exists(self, device)) {
        return nullptr;
    }
    return PyBool_FromLong(ledger_of(self).clear_device(device, unbind != 0));
}

template <void (Ledger::*method)(std::uint32_t), bool (*exists)(PyObject*, unsigned int)>
PyObject* on_index(PyObject* self, PyObject* args) {
    unsigned int index;
    if (!PyArg_ParseTuple(args, "I", &index) || !exists(self, index)) {
        return nullptr;
    }
    (ledger_of(self).*method)(index);
    Py_RETURN_NONE;
}

PyObject* set_l1_banks(PyObject* self, PyObject* args) {
    unsigned int device, banks;
    if (!PyArg_ParseTuple(args, "II", &device, &banks) || !device_exists(self, device)) {
        return nullptr;
    }
    if (banks > MAX_L1_BANKS) {
        PyErr_SetString(PyExc_OverflowError, "too many banks");
        return nullptr;
    }
    ledger_of(self).set_l1_banks(device, banks);
    Py_RETURN_NONE;
}

PyObject* bind(PyObject* self, PyObject* args) {
    unsigned int process, logical, device;
    if (!PyArg_ParseTuple(args, "III", &process, &logical, &device) || !process_exists(self, process) ||
        !device_exists(self, device)) {
        return nullptr;
    }
    ledger_of(self).bind(process, logical, device);
    Py_RETURN_NONE;
}

PyObject* define_cores(PyObject* self, PyObject* args) {
    unsigned int process, id;
    const char* data;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(args, "IIy#", &process, &id, &data, &size) || !process_exists(self, process)) {
        return nullptr;
    }
    CoreMask mask;
    if (size != static_cast<Py_ssize_t>(sizeof mask.words)) {
        PyErr_SetString(PyExc_ValueError, "a core mask has 128 bytes");
        return nullptr;
    }
    std::memcpy(mask.words.data(), data, sizeof mask.words);
    ledger_of(self).define_cores(process, id, mask);
    Py_RETURN_NONE;
}

PyObject* move_account(PyObject* self, PyObject* args) {
    unsigned int process, old, device;
    unsigned long long now;
    if (!PyArg_ParseTuple(args, "IIIK", &process, &old, &device, &now) || !process_exists(self, process) ||
        !device_exists(self, old) || !device_exists(self, device)) {
        return nullptr;
    }
    return PyBool_FromLong(ledger_of(self).move_account(process, old, device, now));
}

// Events may be unaligned in what was received; `take` gets them in aligned blocks, until it takes less than a block.
// The journal gets those that were taken. The number of them; nothing, with an exception, if that is not possible.
template <typename Take>
std::optional<Py_ssize_t> journaled(PyObject* self, Batch batch, Py_ssize_t length, Take take) {
    const Py_ssize_t size = PyBytes_Size(batch.data), offset = batch.begin;
    if (offset < 0 || length < 0 || offset > size || length > size - offset) {
        PyErr_SetString(PyExc_ValueError, "offset and length are not inside the data");
        return std::nullopt;
    }
    const char* data = PyBytes_AsString(batch.data) + offset;
    const std::size_t count = static_cast<std::size_t>(length) / sizeof(Event);
    const std::uint64_t rejected = ledger_of(self).rejected();
    std::size_t done = 0;
    Event block[256];
    try {
        while (done < count) {
            const std::size_t wanted = std::min(count - done, std::size_t{256});
            std::memcpy(block, data + done * sizeof(Event), wanted * sizeof(Event));
            const std::size_t taken = take(block, wanted);
            done += taken;
            if (taken < wanted) {
                break;
            }
        }
    } catch (const std::bad_alloc&) {
        journal_of(self).interrupted();
        throw;
    }
    batch.end = offset + static_cast<Py_ssize_t>(done * sizeof(Event));
    if (done && journal_of(self)) {
        const bool odd = ledger_of(self).rejected() != rejected || ledger_of(self).processes()[batch.account].follows_table;
        if (!journal_of(self).add(batch, odd)) {
            return std::nullopt;
        }
    }
    return static_cast<Py_ssize_t>(done);
}

PyObject* apply(PyObject* self, PyObject* args) {
    Batch batch{};
    Py_ssize_t length;
    unsigned long long now, position = NO_POSITION;
    if (!PyArg_ParseTuple(args, "ISnnK|K", &batch.account, &batch.data, &batch.begin, &length, &now, &position) ||
        !process_exists(self, batch.account)) {
        return nullptr;
    }
    batch.arrived = now, batch.position = position;
    const auto done = journaled(self, batch, length, [&](const Event* events, std::size_t count) {
        return ledger_of(self).apply(batch.account, events, count, now);
    });
    return done ? PyLong_FromSsize_t(*done) : nullptr;
}

PyObject* apply_in_words(PyObject* self, PyObject* args) {
    Batch batch{};
    EventLines::Sender sender;
    Py_ssize_t length;
    unsigned long long now, pid, elapsed_ms, position = NO_POSITION;
    int dispatches;
    if (!PyArg_ParseTuple(args, "ISnnKKKp|K", &batch.account, &batch.data, &batch.begin, &length, &now, &pid, &elapsed_ms,
                          &dispatches, &position) ||
        !process_exists(self, batch.account)) {
        return nullptr;
    }
    batch.arrived = now, batch.position = position;
    sender.process = batch.account, sender.pid = pid, sender.elapsed_ms = elapsed_ms, sender.dispatches = dispatches != 0;
    EventLines& lines = *reinterpret_cast<Object*>(self)->lines;
    std::string text;
    const auto done = journaled(self, batch, length, [&](const Event* events, std::size_t count) {
        return lines.apply(ledger_of(self), sender, events, count, now, text);
    });
    return done ? Py_BuildValue("(ny#)", *done, text.data(), static_cast<Py_ssize_t>(text.size())) : nullptr;
}

PyObject* write_to(PyObject* self, PyObject* receiver) {
    journal_of(self).write_to(receiver == Py_None ? nullptr : receiver);
    Py_RETURN_NONE;
}

PyObject* forget_page(PyObject* self, PyObject*) {
    journal_of(self).forget_page();
    Py_RETURN_NONE;
}

PyObject* release_process(PyObject* self, PyObject* args) {
    unsigned int process;
    if (!PyArg_ParseTuple(args, "I", &process) || !process_exists(self, process)) {
        return nullptr;
    }
    journal_of(self).forget(process);
    ledger_of(self).release_process(process);
    Py_RETURN_NONE;
}

// Sets `done` to the number of records taken; nothing if one of them is malformed.
bool replay_all(PyObject* self, const char* data, Py_ssize_t size, std::size_t& done, ReplayLog* log) {
    const std::size_t count = static_cast<std::size_t>(size) / sizeof(Event);
    Event block[256];
    std::size_t taken = 1;
    while (done < count && taken) {
        const std::size_t here = std::min(count - done, std::size_t{256});
        std::memcpy(block, data + done * sizeof(Event), here * sizeof(Event));
        taken = 0;
        if (log) {
            log->count_from(done);
        }
        try {
            ledger_of(self).replay(block, here, taken, log);
        } catch (const Malformed& problem) {
            PyErr_Format(PyExc_ValueError, "record %zu: %s", done + taken, problem.what());
            return false;
        }
        done += taken;
    }
    return true;
}

PyObject* replay(PyObject* self, PyObject* args) {
    const char* data;
    Py_ssize_t size;
    std::size_t done = 0;
    const bool parsed = PyArg_ParseTuple(args, "y#", &data, &size);
    return parsed && replay_all(self, data, size, done, nullptr) ? PyLong_FromSize_t(done) : nullptr;
}

template <typename Row>
PyObject* all_bytes(const std::vector<Row>& rows) {
    const auto size = static_cast<Py_ssize_t>(rows.size() * sizeof(Row));
    return PyBytes_FromStringAndSize(reinterpret_cast<const char*>(rows.data()), size);
}

// Like replay, with three tables of rows: changes of device totals, buffers allocated and freed, and anomalies.
PyObject* replay_logged(PyObject* self, PyObject* args) {
    const char* data;
    Py_ssize_t size;
    std::size_t done = 0;
    ReplayLog log(ledger_of(self).devices());
    if (!PyArg_ParseTuple(args, "y#", &data, &size) || !replay_all(self, data, size, done, &log)) {
        return nullptr;
    }
    return Py_BuildValue("(nNNN)", static_cast<Py_ssize_t>(done), all_bytes(log.totals()), all_bytes(log.buffers()),
                         all_bytes(log.findings()));
}

PyObject* save(PyObject* self, PyObject*) {
    const std::string state = ledger_of(self).save();
    return PyBytes_FromStringAndSize(state.data(), static_cast<Py_ssize_t>(state.size()));
}

PyObject* restore(PyObject* self, PyObject* args) {
    const char* data;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(args, "y#", &data, &size)) {
        return nullptr;
    }
    Object* object = reinterpret_cast<Object*>(self);
    auto lines = std::make_unique<EventLines>();
    auto restored = Ledger::restored(data, static_cast<std::size_t>(size), object->ledger->seed());
    delete object->ledger;
    delete object->lines;
    object->ledger = restored.release();
    object->lines = lines.release();
    Py_RETURN_NONE;
}

PyObject* process_live(PyObject* self, PyObject* args) {
    unsigned int process;
    if (!PyArg_ParseTuple(args, "I", &process) || !process_exists(self, process)) {
        return nullptr;
    }
    return PyLong_FromUnsignedLongLong(ledger_of(self).processes()[process].live);
}

PyObject* process_room(PyObject* self, PyObject* args) {
    unsigned int process;
    if (!PyArg_ParseTuple(args, "I", &process) || !process_exists(self, process)) {
        return nullptr;
    }
    return PyLong_FromUnsignedLongLong(ledger_of(self).room_for(ledger_of(self).processes()[process]));
}

PyObject* accounts(PyObject* self, PyObject* args) {
    Rows<AccountRow> rows;
    const std::vector<Process>& processes = ledger_of(self).processes();
    std::size_t index = 0, end = processes.size();
    Py_ssize_t only = -1;  // of all processes
    if (!PyArg_ParseTuple(args, "|n", &only)) {
        return nullptr;
    }
    if (only >= 0) {
        index = std::min(static_cast<std::size_t>(only), end);
        end = std::min(index + 1, end);
    }
    for (; index < end; ++index) {
        for (const auto& [device, entry] : processes[index].accounts) {
            const Account& a = *entry;
            const std::optional<std::uint64_t> shared = ledger_of(self).shared(a, device);
            rows << AccountRow{.process = index,
                               .device = device,
                               .requested = a.requested,
                               .held = a.held,
                               .counts = a.count,
                               .unreserved = a.unreserved,
                               .cb_demand = a.cb_demand,
                               .cb_count = a.cb_count,
                               .cb_unplaced = a.cb_unplaced,
                               .cb_cached = a.cb_cached.total(),
                               .cb_map_full = a.cb_map_full,
                               .cb_resident = a.cb_resident,
                               .cb_dataflow = a.cb_dataflow.total(),
                               .cb_used = a.cb_used(),
                               .cb_shared = shared.value_or(0),
                               .cb_shared_unknown = !shared,
                               .footprint = a.footprint,
                               .kernels = a.kernels,
                               .dram_binaries = a.dram_binaries,
                               .unknown_binaries = a.unknown_binaries,
                               .programs = a.programs,
                               .counters = columns(a.counters),
                               .cache_seen = a.cache_seen,
                               .cache_entries = a.cache_entries,
                               .cache_entries_known = a.cache_entries_known,
                               .ring_occupied = a.ring.occupied,
                               .ring_capacity = a.ring.capacity,
                               .ring_wraps = a.ring.wraps,
                               .ring_syncs = a.ring.syncs,
                               .ring_programs = a.ring.programs,
                               .ring_time = a.ring.time,
                               .live = processes[index].live};
        }
    }
    return rows.bytes();
}

// What is allocated on a device now, and its ring according to the last writer: (held by kind, CBs, footprint, ring's
// time, occupied, capacity, programs).
PyObject* usage(PyObject* self, PyObject* args) {
    unsigned int index;
    if (!PyArg_ParseTuple(args, "I", &index) || !device_exists(self, index)) {
        return nullptr;
    }
    const Device& d = ledger_of(self).devices()[index];
    const Ring none, *ring = &none;
    for (const Process& process : ledger_of(self).processes()) {
        const auto found = process.accounts.find(index);
        if (found != process.accounts.end() && found->second->ring.time > ring->time) {
            ring = &found->second->ring;
        }
    }
    return Py_BuildValue("((KKKKK)KKKKKK)", d.held[0], d.held[1], d.held[2], d.held[3], d.held[4], d.cb_used, d.footprint,
                         ring->time, ring->occupied, ring->capacity, ring->programs);
}

PyObject* devices(PyObject* self, PyObject*) {
    Rows<DeviceRow> rows;
    for (const Device& d : ledger_of(self).devices()) {
        rows << DeviceRow{.held = d.held,
                          .peak = d.peak,
                          .peak_time = d.peak_time,
                          .cb_used = d.cb_used,
                          .l1_used = d.l1_used(),
                          .l1_peak = d.l1_peak,
                          .l1_peak_time = d.l1_peak_time,
                          .distinct = d.contents.size(),
                          .distinct_bytes = d.distinct_bytes,
                          .unknown_contents = d.unknown_contents,
                          .counters = columns(d.counters),
                          .cache_seen = d.cache_seen};
    }
    return rows.bytes();
}

template <PyObject* (*rows)(const Ledger&, const Narrowed&)>
PyObject* listing(PyObject* self, PyObject* args) {
    Narrowed by;
    return PyArg_ParseTuple(args, "|nn", &by.limit, &by.device) ? rows(ledger_of(self), by) : nullptr;
}

template <PyObject* (*make)(const Ledger&, std::uint32_t)>
PyObject* of_device(PyObject* self, PyObject* args) {
    unsigned int device;
    return PyArg_ParseTuple(args, "I", &device) && device_exists(self, device) ? make(ledger_of(self), device) : nullptr;
}

PyObject* largest_free(PyObject* self, PyObject* args) {
    unsigned int device, kind;
    unsigned long long base, bank_size, banks;
    if (!PyArg_ParseTuple(args, "IIKKK", &device, &kind, &base, &bank_size, &banks) || !device_exists(self, device)) {
        return nullptr;
    }
    // Sums of two and three numbers of ttmem/events/device.py, each of them 1 << 44 at most.
    constexpr unsigned long long largest = 1ull << 46;
    if (kind >= KINDS || base > largest || bank_size > largest || banks > largest) {
        PyErr_SetString(PyExc_ValueError, "this is no region of a device");
        return nullptr;
    }
    const auto hole = ledger_of(self).largest_free(device, static_cast<int>(kind), Region{base, bank_size, banks});
    if (!hole) {
        Py_RETURN_NONE;
    }
    return PyLong_FromUnsignedLongLong(*hole);
}

PyObject* findings(PyObject* self, PyObject*) {
    Rows<FindingRow> rows;
    for (const Finding& f : ledger_of(self).findings()) {
        rows << FindingRow{.anomaly = static_cast<std::uint64_t>(f.anomaly),
                           .process = f.process,
                           .device = f.device,
                           .times = f.times,
                           .bytes = f.bytes,
                           .last_id = f.last_id};
    }
    return rows.bytes();
}

PyObject* trim(PyObject* self, PyObject*) {
    ledger_of(self).trim();
    Py_RETURN_NONE;
}

PyObject* take_rejections(PyObject* self, PyObject*) {
    const std::vector<Rejection> rejections = ledger_of(self).take_rejections();
    PyObject* out = PyList_New(0);
    for (const Rejection& r : rejections) {
        PyObject* row = Py_BuildValue("(iIy#)", static_cast<int>(r.reason), r.process,
                                      reinterpret_cast<const char*>(&r.event), static_cast<Py_ssize_t>(sizeof r.event));
        if (!out || !row || PyList_Append(out, row) != 0) {
            Py_XDECREF(row), Py_XDECREF(out);
            return nullptr;
        }
        Py_DECREF(row);
    }
    return out;
}

template <std::uint64_t (Ledger::*value)() const>
PyObject* number(PyObject* self, PyObject*) {
    return PyLong_FromUnsignedLongLong((ledger_of(self).*value)());
}

PyObject* decode(PyObject*, PyObject* args) {
    const char* data;
    Py_ssize_t size, offset, record_size;
    int pid;
    if (!PyArg_ParseTuple(args, "y#nni", &data, &size, &offset, &record_size, &pid)) {
        return nullptr;
    }
    if (offset < 0 || offset > size || record_size < 40 || record_size % 8) {
        PyErr_SetString(PyExc_ValueError, "offset or record size is impossible");
        return nullptr;
    }
    const Decoded decoded =
        decode_records(reinterpret_cast<const std::uint8_t*>(data) + offset, static_cast<std::size_t>(size - offset),
                       static_cast<std::size_t>(record_size), pid);
    // The data pointer of an empty vector is null, which `y#` would turn into None.
    const char* events = decoded.events.empty() ? "" : reinterpret_cast<const char*>(decoded.events.data());
    return Py_BuildValue("(y#ni)", events,
                         static_cast<Py_ssize_t>(decoded.events.size() * sizeof(Event)),
                         static_cast<Py_ssize_t>(decoded.used), static_cast<int>(decoded.stop));
}

// A thread calls this and `planes` next to the server's loop, so it runs without the interpreter's lock.
PyObject* transposed(PyObject*, PyObject* args) {
    const char* from;
    Py_ssize_t size, columns;
    if (!PyArg_ParseTuple(args, "y#n", &from, &size, &columns)) {
        return nullptr;
    }
    if (columns < 1 || size % columns) {
        PyErr_SetString(PyExc_ValueError, "these are not whole rows");
        return nullptr;
    }
    PyObject* result = PyBytes_FromStringAndSize(nullptr, size);
    if (!result) {
        return nullptr;
    }
    char* to = PyBytes_AsString(result);
    Py_BEGIN_ALLOW_THREADS
    const std::size_t rows = static_cast<std::size_t>(size / columns);
    transpose(from, rows, static_cast<std::size_t>(columns), to, rows);
    Py_END_ALLOW_THREADS
    return result;
}

// Events, aligned.
const Event* aligned(const char* data, std::size_t count, std::vector<Event>& copy) {
    if (reinterpret_cast<std::uintptr_t>(data) % alignof(Event) == 0) {
        return reinterpret_cast<const Event*>(data);
    }
    copy.resize(count);
    std::memcpy(static_cast<void*>(copy.data()), data, count * sizeof(Event));
    return copy.data();
}

PyObject* latest_time(PyObject*, PyObject* args) {
    const char* data;
    Py_ssize_t size;
    unsigned long long before;
    if (!PyArg_ParseTuple(args, "y#K", &data, &size, &before)) {
        return nullptr;
    }
    std::vector<Event> copy;
    const std::size_t count = static_cast<std::size_t>(size) / sizeof(Event);
    Reached time(before);
    time.take(aligned(data, count, copy), count);
    return PyLong_FromUnsignedLongLong(time.latest);
}

// What a socket has now, at most so many bytes, behind some bytes of which the rest was missing: so nothing that was
// received needs to be copied. Only these bytes if the other end has closed it. Does not wait.
PyObject* receive(PyObject*, PyObject* args) {
    int descriptor, available = 0;
    const char* head;
    Py_ssize_t size, most;
    if (!PyArg_ParseTuple(args, "iy#n", &descriptor, &head, &size, &most)) {
        return nullptr;
    }
    ioctl(descriptor, FIONREAD, &available);
    const Py_ssize_t wanted = std::max<Py_ssize_t>(1, std::min<Py_ssize_t>(available, most));
    PyObject* result = PyBytes_FromStringAndSize(nullptr, size + wanted);
    if (!result) {
        return nullptr;
    }
    char* to = PyBytes_AsString(result);
    std::memcpy(to, head, static_cast<std::size_t>(size));
    Py_ssize_t received;
    Py_BEGIN_ALLOW_THREADS
    received = recv(descriptor, to + size, static_cast<std::size_t>(wanted), MSG_DONTWAIT);
    Py_END_ALLOW_THREADS
    if (received == wanted) {
        return result;
    }
    PyObject* less = received < 0 ? PyErr_SetFromErrno(PyExc_OSError) : PyBytes_FromStringAndSize(to, size + received);
    Py_DECREF(result);
    return less;
}

// Journal records as the planes of one chunk, at the beginning of `out`; the time that they reach. Runs without the
// interpreter's lock, next to the loop of a server.
PyObject* planes_of(PyObject*, PyObject* args) {
    PyObject *records, *out;
    unsigned long long before, latest = 0;
    std::vector<Piece> pieces;
    if (!PyArg_ParseTuple(args, "OKY", &records, &before, &out) || !add_pieces(records, pieces)) {
        return nullptr;
    }
    std::size_t count = 0;
    for (const Piece& piece : pieces) {
        count += piece.records;
    }
    if (count > static_cast<std::size_t>(PyByteArray_Size(out)) / sizeof(Event)) {
        PyErr_SetString(PyExc_ValueError, "there is no room for the planes");
        return nullptr;
    }
    char* to = PyByteArray_AsString(out);
    std::string problem;
    Py_BEGIN_ALLOW_THREADS
    try {
        latest = planes(pieces, before, to, count);
    } catch (const Malformed& reason) {
        problem = reason.what();
    }
    Py_END_ALLOW_THREADS
    if (problem.empty()) {
        return PyLong_FromUnsignedLongLong(latest);
    }
    PyErr_SetString(PyExc_ValueError, problem.c_str());
    return nullptr;
}

// -- events as columns --------------------------------------------------------------------------------------------------

template <typename T>
PyObject* packed(const std::vector<T>& values) {
    return PyBytes_FromStringAndSize(reinterpret_cast<const char*>(values.data()),
                                     static_cast<Py_ssize_t>(values.size() * sizeof(T)));
}

// (values, a byte for each row that says whether it has one, lowest, highest)
template <typename T>
PyObject* numbers(const Numbers<T>& column) {
    return Py_BuildValue("(NNKK)", packed(column.values), packed(column.present),
                         static_cast<unsigned long long>(column.lowest), static_cast<unsigned long long>(column.highest));
}

// (an index for each row, keys)
PyObject* keyed(const Keys& column) { return Py_BuildValue("(NN)", packed(column.rows), packed(column.keys)); }

PyObject* columns_of_events(PyObject*, PyObject* args) {
    PyObject* list;
    const char* classes;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(args, "Oy#", &list, &classes, &size)) {
        return nullptr;
    }
    if (size != 256) {
        PyErr_SetString(PyExc_ValueError, "there is a class for each of 256 ops");
        return nullptr;
    }
    std::vector<EventRun> runs;
    const Py_ssize_t count = PyList_Size(list);
    std::vector<std::vector<Event>> copies(count > 0 ? static_cast<std::size_t>(count) : 0);
    for (Py_ssize_t i = 0; i < count; ++i) {
        EventRun run;
        unsigned long long arrived, position;
        const char* data;
        Py_ssize_t bytes;
        if (!PyArg_ParseTuple(PyList_GetItem(list, i), "IIKKy#", &run.process, &run.pid, &arrived, &position, &data, &bytes)) {
            return nullptr;
        }
        run.arrived = arrived, run.position = position, run.count = static_cast<std::size_t>(bytes) / sizeof(Event);
        run.events = aligned(data, run.count, copies[static_cast<std::size_t>(i)]);
        runs.push_back(run);
    }
    if (count < 0) {
        return nullptr;
    }
    const EventColumns out = event_columns(runs, reinterpret_cast<const std::uint8_t*>(classes));
    return Py_BuildValue("(NNNNNNNNNNNNNNN)", numbers(out.position), numbers(out.time), numbers(out.pid), keyed(out.device),
                         keyed(out.event), keyed(out.memory), numbers(out.id), numbers(out.requested), numbers(out.reserved),
                         numbers(out.address), numbers(out.program), numbers(out.number), keyed(out.op), keyed(out.site),
                         keyed(out.phase));
}

// The entry of a table for each index, and which of them have one: 2^32 - 1 stands for none.
PyObject* looked_up(PyObject*, PyObject* args) {
    const char *indices, *table;
    Py_ssize_t size, entries;
    if (!PyArg_ParseTuple(args, "y#y#", &indices, &size, &table, &entries)) {
        return nullptr;
    }
    const std::size_t rows = static_cast<std::size_t>(size) / 4, known = static_cast<std::size_t>(entries) / 4;
    std::vector<std::uint32_t> values;
    std::vector<std::uint8_t> present(rows);
    for (std::size_t row = 0; row < rows; ++row) {
        std::uint32_t index, value = ~std::uint32_t{0};
        std::memcpy(&index, indices + 4 * row, 4);
        if (index < known) {
            std::memcpy(&value, table + 4 * std::size_t{index}, 4);
        }
        if ((present[row] = value != ~std::uint32_t{0})) {
            values.push_back(value);
        }
    }
    return Py_BuildValue("(NN)", packed(values), packed(present));
}

PyMethodDef methods[] = {
    {"open_process", method<open_process>, METH_VARARGS, nullptr},
    {"release_process", method<release_process>, METH_VARARGS, nullptr},
    {"add_device", method<add_device>, METH_NOARGS, nullptr},
    {"clear_device", method<clear_device>, METH_VARARGS, nullptr},
    {"forget_device", method<on_index<&Ledger::forget_device, device_exists>>, METH_VARARGS, nullptr},
    {"bind", method<bind>, METH_VARARGS, nullptr},
    {"move_account", method<move_account>, METH_VARARGS, nullptr},
    {"define_cores", method<define_cores>, METH_VARARGS, nullptr},
    {"follow_table", method<on_index<&Ledger::follow_table, process_exists>>, METH_VARARGS, nullptr},
    {"begin_resync", method<on_index<&Ledger::begin_resync, process_exists>>, METH_VARARGS, nullptr},
    {"end_resync", method<on_index<&Ledger::end_resync, process_exists>>, METH_VARARGS, nullptr},
    {"set_l1_banks", method<set_l1_banks>, METH_VARARGS, nullptr},
    {"reset_peak", method<on_index<&Ledger::reset_peak, device_exists>>, METH_VARARGS, nullptr},
    {"apply", method<apply>, METH_VARARGS, nullptr},
    {"apply_in_words", method<apply_in_words>, METH_VARARGS, nullptr},
    {"write_to", method<write_to>, METH_O, nullptr},
    {"forget_page", method<forget_page>, METH_NOARGS, nullptr},
    {"replay", method<replay>, METH_VARARGS, nullptr},
    {"replay_logged", method<replay_logged>, METH_VARARGS, nullptr},
    {"save", method<save>, METH_NOARGS, nullptr},
    {"restore", method<restore>, METH_VARARGS, nullptr},
    {"process_room", method<process_room>, METH_VARARGS, nullptr},
    {"process_live", method<process_live>, METH_VARARGS, nullptr},
    {"accounts", method<accounts>, METH_VARARGS, nullptr},
    {"devices", method<devices>, METH_NOARGS, nullptr},
    {"usage", method<usage>, METH_VARARGS, nullptr},
    {"buffers", method<listing<buffer_rows>>, METH_VARARGS, nullptr},
    {"l1_buffers", method<listing<l1_buffer_rows>>, METH_VARARGS, nullptr},
    {"circular_buffers", method<listing<circular_buffer_rows>>, METH_VARARGS, nullptr},
    {"kernels", method<listing<kernel_rows>>, METH_VARARGS, nullptr},
    {"programs", method<listing<program_rows>>, METH_VARARGS, nullptr},
    {"core_map", method<of_device<core_map>>, METH_VARARGS, nullptr},
    {"resident_map", method<of_device<resident_map>>, METH_VARARGS, nullptr},
    {"largest_free", method<largest_free>, METH_VARARGS, nullptr},
    {"findings", method<findings>, METH_NOARGS, nullptr},
    {"trim", method<trim>, METH_NOARGS, nullptr},
    {"take_rejections", method<take_rejections>, METH_NOARGS, nullptr},
    {"rejected", method<number<&Ledger::rejected>>, METH_NOARGS, nullptr},
    {"dropped", method<number<&Ledger::dropped>>, METH_NOARGS, nullptr},
    {"live", method<number<&Ledger::live>>, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_doc, const_cast<char*>("The accounts: applies event batches, answers with rows.")},
    {Py_tp_new, reinterpret_cast<void*>(PyType_GenericNew)},
    {Py_tp_init, reinterpret_cast<void*>(create)},
    {Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(clear)},
    {Py_tp_methods, methods},
    {0, nullptr},
};

PyType_Spec spec = {"ttmem._native.Ledger", sizeof(Object), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};

PyMethodDef functions[] = {
    {"decode_records", guarded<decode>, METH_VARARGS, nullptr},
    {"event_columns", guarded<columns_of_events>, METH_VARARGS, nullptr},
    {"looked_up", guarded<looked_up>, METH_VARARGS, nullptr},
    {"planes", guarded<planes_of>, METH_VARARGS, nullptr},
    {"receive", receive, METH_VARARGS, nullptr},
    {"reached", guarded<latest_time>, METH_VARARGS, nullptr},
    {"transposed", transposed, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "ttmem._native", nullptr, -1, functions, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__native() {
    PyObject* made = PyModule_Create(&module);
    if (!made) {
        return nullptr;
    }
    PyObject *type = PyType_FromSpec(&spec), *page = make_page_type();
    if (!type || !page || PyModule_AddObject(made, "Ledger", type) != 0 || PyModule_AddObject(made, "Page", page) != 0) {
        Py_DECREF(made);
        return nullptr;
    }
    return made;
}
