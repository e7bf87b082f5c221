#include "page.hpp"

#include <algorithm>
#include <cstring>
#include <new>

namespace ttmem {

namespace {

// Journal records in the order in which they came: in memory of its own, or in the bytes in which they were received,
// of which it keeps a reference. The loop of a server fills it, until it is sealed; then a thread reads it.
struct Page {
    PyObject_HEAD;
    struct Part {
        PyObject* received;  // null: its own memory
        std::size_t begin, end;
    };
    struct Content {
        std::vector<char> own;             // grows: most of what a busy server records is referred to
        std::size_t listed = 0;            // bytes of `own` that are in parts
        std::size_t size = 0, held = 0;    // bytes of records, and of memory for them
        std::size_t full;                  // bytes of either with which it takes no more
        std::vector<Part> parts;
        bool sealed = false;
        bool takes() const { return !sealed && held < full && size < full; }
    };
    Content* content;
};

constexpr std::size_t PAGE_FULL = std::size_t{4} << 20;              // bytes of memory
constexpr std::size_t MOST_ADDED = 4096 * sizeof(Event);             // to a page that is not full
constexpr std::size_t REFERRED = 4096;  // bytes of events from which on they are not copied
constexpr std::uint8_t UNKNOWN_OP = BLANK + 1;  // neither an event nor a control record

PyTypeObject* page_type = nullptr;

Page::Content& content_of(PyObject* self) { return *reinterpret_cast<Page*>(self)->content; }

PyObject* new_page(PyTypeObject* type, PyObject* args, PyObject*) {
    Py_ssize_t full = PAGE_FULL;
    if (!PyArg_ParseTuple(args, "|n", &full)) {
        return nullptr;
    }
    PyObject* self = PyType_GenericAlloc(type, 0);
    if (self) {
        auto* content = new (std::nothrow) Page::Content{};
        reinterpret_cast<Page*>(self)->content = content;
        if (content) {
            content->full = std::min(PAGE_FULL, static_cast<std::size_t>(std::max<Py_ssize_t>(1, full)));
        } else {
            Py_DECREF(self);
            return PyErr_NoMemory();
        }
    }
    return self;
}

void destroy_page(PyObject* self) {
    if (auto* content = reinterpret_cast<Page*>(self)->content) {
        for (const Page::Part& part : content->parts) {
            Py_XDECREF(part.received);
        }
        delete content;
    }
    PyTypeObject* type = Py_TYPE(self);
    reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

// So that nothing throws when a part of a batch is there already.
void make_room(Page::Content& page, std::size_t size) {
    if (page.own.capacity() - page.own.size() < size) {
        page.own.reserve(std::max(2 * page.own.capacity(), page.own.size() + size));
    }
    if (page.parts.capacity() - page.parts.size() < 3) {
        page.parts.reserve(2 * page.parts.size() + 64);
    }
}

void copy(Page::Content& page, const void* from, std::size_t size) {
    const char* bytes = static_cast<const char*>(from);
    page.own.insert(page.own.end(), bytes, bytes + size);
    page.size += size, page.held += size;
}

// What was added to its own memory since the last part becomes one.
void list_own(Page::Content& page) {
    if (page.own.size() > page.listed) {
        page.parts.push_back({nullptr, page.listed, page.own.size()});
        page.listed = page.own.size();
    }
}

// Events behind a BATCH record; false if the page takes no more of that size.
bool append(Page::Content& page, const Batch& batch, std::uint64_t serial) {
    const auto size = static_cast<std::size_t>(batch.end - batch.begin);
    if (!page.takes() || size > MOST_ADDED - sizeof(Event)) {
        return false;
    }
    const bool referred = size >= REFERRED;
    make_room(page, sizeof(Event) + (referred ? 0 : size));
    Event control{};
    control.op = BATCH, control.device = batch.account, control.time = batch.arrived, control.id = batch.position;
    control.extra = serial, control.size = size / sizeof(Event);
    copy(page, &control, sizeof control);
    if (!referred) {
        copy(page, PyBytes_AsString(batch.data) + batch.begin, size);
    } else {
        const bool known = !page.parts.empty() && page.parts.back().received == batch.data;
        list_own(page);
        Py_INCREF(batch.data);
        page.parts.push_back(
            {batch.data, static_cast<std::size_t>(batch.begin), static_cast<std::size_t>(batch.end)});
        page.size += size;
        page.held += known ? 0 : static_cast<std::size_t>(PyBytes_Size(batch.data));
    }
    return true;
}

PyObject* unfit() {
    PyErr_SetString(PyExc_ValueError, "these are no whole records, or too many for a page");
    return nullptr;
}

// A control record and the records that belong to it. False if the page takes no more.
PyObject* page_control(PyObject* self, PyObject* args) {
    Page::Content& page = content_of(self);
    const char* records;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(args, "y#", &records, &size)) {
        return nullptr;
    }
    if (size % static_cast<Py_ssize_t>(sizeof(Event)) || static_cast<std::size_t>(size) > MOST_ADDED) {
        return unfit();
    }
    if (!page.takes()) {
        Py_RETURN_FALSE;
    }
    try {
        make_room(page, static_cast<std::size_t>(size));
    } catch (const std::bad_alloc&) {
        return PyErr_NoMemory();
    }
    copy(page, records, static_cast<std::size_t>(size));
    Py_RETURN_TRUE;
}

// Events of one process, behind a BATCH record. Like `page_control`.
PyObject* page_batch(PyObject* self, PyObject* args) {
    Batch batch;
    unsigned long long arrived, position, serial;
    if (!PyArg_ParseTuple(args, "IKKKSnn", &batch.account, &arrived, &position, &serial, &batch.data, &batch.begin, &batch.end)) {
        return nullptr;
    }
    batch.arrived = arrived, batch.position = position;
    const Py_ssize_t size = batch.end - batch.begin;
    if (batch.begin < 0 || size < 0 || batch.end > PyBytes_Size(batch.data) || size % static_cast<Py_ssize_t>(sizeof(Event)) ||
        static_cast<std::size_t>(size) > MOST_ADDED - sizeof(Event)) {
        return unfit();
    }
    try {
        return PyBool_FromLong(append(content_of(self), batch, serial));
    } catch (const std::bad_alloc&) {
        return PyErr_NoMemory();
    }
}

PyObject* seal(PyObject* self, PyObject*) {
    list_own(content_of(self));
    content_of(self).sealed = true;
    Py_RETURN_NONE;
}

template <std::size_t Page::Content::* value>
PyObject* of_page(PyObject* self, PyObject*) {
    return PyLong_FromSize_t(content_of(self).*value);
}

PyMethodDef page_methods[] = {
    {"control", page_control, METH_VARARGS, nullptr},
    {"batch", page_batch, METH_VARARGS, nullptr},
    {"seal", seal, METH_NOARGS, nullptr},
    {"size", of_page<&Page::Content::size>, METH_NOARGS, nullptr},
    {"held", of_page<&Page::Content::held>, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot page_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(new_page)},
    {Py_tp_dealloc, reinterpret_cast<void*>(destroy_page)},
    {Py_tp_methods, page_methods},
    {0, nullptr},
};

PyType_Spec page_spec = {"ttmem._native.Page", sizeof(Page), 0, Py_TPFLAGS_DEFAULT, page_slots};

// Readers tell events from control records by their op, so unknown ops are replaced: the ledger rejects them anyway,
// unless they come from a probe. A new reference; null, with an exception, if memory runs out.
PyObject* without_controls(const Batch& batch) {
    PyObject* result = PyBytes_FromStringAndSize(PyBytes_AsString(batch.data) + batch.begin, batch.end - batch.begin);
    if (result) {
        char* data = PyBytes_AsString(result);
        for (Py_ssize_t at = 0; at < batch.end - batch.begin; at += static_cast<Py_ssize_t>(sizeof(Event))) {
            if (static_cast<std::uint8_t>(data[at]) >= BLANK) {
                data[at] = static_cast<char>(UNKNOWN_OP);
            }
        }
    }
    return result;
}

}  // namespace

PyObject* make_page_type() {
    PyObject* made = PyType_FromSpec(&page_spec);
    page_type = reinterpret_cast<PyTypeObject*>(made);
    return made;
}

bool add_pieces(PyObject* item, std::vector<Piece>& pieces) {
    if (PyBytes_Check(item)) {
        pieces.push_back({PyBytes_AsString(item), static_cast<std::size_t>(PyBytes_Size(item)) / sizeof(Event)});
        return true;
    }
    if (Py_TYPE(item) != page_type || !content_of(item).sealed) {
        PyErr_SetString(PyExc_TypeError, "journal records are bytes, or a sealed page");
        return false;
    }
    const Page::Content& page = content_of(item);
    for (const Page::Part& part : page.parts) {
        const char* data = part.received ? PyBytes_AsString(part.received) : page.own.data();
        pieces.push_back({data + part.begin, (part.end - part.begin) / sizeof(Event)});
    }
    return true;
}

void Journal::write_to(PyObject* receiver) {
    forget_page();
    serials_.clear();
    PyObject* before = receiver_;
    Py_XINCREF(receiver);
    receiver_ = receiver;
    Py_XDECREF(before);
}

void Journal::forget(std::uint32_t account) {
    if (account < serials_.size()) {
        serials_[account] = 0;
    }
}

bool Journal::add(Batch batch, bool odd) {
    if (odd) {
        PyObject* plain = without_controls(batch);
        if (!plain) {
            PyErr_Clear();
            interrupted();  // the ledger has these events, and the next key frame will
            return true;
        }
        batch.data = plain, batch.end -= batch.begin, batch.begin = 0;
        const bool done = ask(batch);
        Py_DECREF(plain);
        return done;
    }
    const std::uint64_t serial = batch.account < serials_.size() ? serials_[batch.account] : 0;
    try {
        return (page_ && serial && append(content_of(page_), batch, serial)) || ask(batch);
    } catch (const std::bad_alloc&) {
        interrupted();
        return true;
    }
}

bool Journal::ask(const Batch& batch) {
    if (serials_.size() <= batch.account) {
        serials_.resize(batch.account + std::size_t{1});
    }
    PyObject* receiver = receiver_;
    Py_INCREF(receiver);  // it may end the journal
    PyObject* answer = PyObject_CallMethod(receiver, "batch", "IKKOnn", batch.account,
                                           static_cast<unsigned long long>(batch.arrived),
                                           static_cast<unsigned long long>(batch.position), batch.data, batch.begin, batch.end);
    const bool same = receiver == receiver_;
    Py_DECREF(receiver);
    forget_page();
    if (!answer) {
        return false;
    }
    PyObject* page;
    unsigned long long serial;
    const bool more = same && PyTuple_Check(answer) && PyArg_ParseTuple(answer, "O!K", page_type, &page, &serial);
    if (more) {
        serials_[batch.account] = serial;
        Py_INCREF(page);
        page_ = page;
    }
    Py_DECREF(answer);
    return more || !PyErr_Occurred();
}

void Journal::interrupted() {
    if (receiver_) {
        PyObject* done = PyObject_CallMethod(receiver_, "interrupted", nullptr);
        Py_XDECREF(done);
        if (!done) {
            PyErr_Clear();  // memory has run out, which is what the caller is told
        }
    }
}

int Journal::visit(visitproc visit, void* arg) const {
    Py_VISIT(receiver_);
    return 0;
}

}  // namespace ttmem
