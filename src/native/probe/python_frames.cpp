#include "python_frames.hpp"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "careful_read.hpp"
#include "hot.hpp"
#include "python_lines.hpp"
#include "python_operations.hpp"
#include "strings.hpp"

namespace ttmem::probe {

namespace {

constexpr int MAX_DEPTH = 200;

using ThisThread = void* (*)();

struct Python {
    const PythonLayout* layout = nullptr;
    ThisThread this_thread = nullptr;
    int (*running)() = nullptr;
    int owner_at = -1;  // where a thread's state has the thread's own identity
    const char* problem = "no Python in this process";
    std::string ttnn;  // its directory, with the slash
};

int is_ttnn(dl_phdr_info* info, std::size_t, void* folder) {
    const char* slash = info->dlpi_name ? std::strrchr(info->dlpi_name, '/') : nullptr;
    if (slash && !std::strncmp(slash + 1, "_ttnn.", 6)) {
        static_cast<std::string*>(folder)->assign(info->dlpi_name, slash + 1);
        return 1;
    }
    return 0;
}

// The current frame of a thread of the main interpreter; null for another one, or if no Python is running there.
void* current_frame(const PythonLayout& layout, const void* thread) {
    void *interpreter, *frame;
    const auto main_interpreter = reinterpret_cast<void* (*)()>(dlsym(RTLD_DEFAULT, "PyInterpreterState_Main"));
    if (!main_interpreter || !careful_field(thread, THREAD_INTERPRETER, interpreter) ||
        interpreter != main_interpreter() || !careful_field(thread, layout.thread_frame, frame) ||
        (layout.through >= 0 && !careful_field(frame, layout.through, frame))) {
        return nullptr;
    }
    return frame;
}

// Whether the code of the current frame looks like code at the place that this layout expects.
bool layout_fits(const PythonLayout& layout, const void* thread) {
    void *code, *type, *filename;
    if (!careful_field(current_frame(layout, thread), layout.code, code) || !careful_field(code, OBJECT_TYPE, type) ||
        type != dlsym(RTLD_DEFAULT, "PyCode_Type") || !careful_field(code, layout.filename, filename) ||
        !careful_field(filename, OBJECT_TYPE, type)) {
        return false;
    }
    return type == dlsym(RTLD_DEFAULT, "PyUnicode_Type");
}

std::uint64_t own_identity() { return reinterpret_cast<std::uint64_t>(pthread_self()); }

int find_owner(const void* thread) {
    constexpr int FAR = 512;
    std::uint64_t word;
    for (int at = 0; at < FAR; at += sizeof word) {
        if (careful_field(thread, at, word) && word == own_identity()) {
            return at;
        }
    }
    return -1;
}

// Since 3.11 the main thread's state is part of the interpreter's static data: it is emptied at the end, never freed.
bool is_static(const void* thread) {
    Dl_info of_thread, of_python;
    return dladdr(thread, &of_thread) && dladdr(dlsym(RTLD_DEFAULT, "PyCode_Type"), &of_python) &&
           of_thread.dli_fbase == of_python.dli_fbase;
}

const PythonLayout* layout_of_version() {
    const auto version = reinterpret_cast<const char* (*)()>(dlsym(RTLD_DEFAULT, "Py_GetVersion"));
    const int minor = version && !std::strncmp(version(), "3.", 2) ? std::atoi(version() + 2) : -1;
    for (const PythonLayout& layout : PYTHON_LAYOUTS) {
        if (layout.minor == minor) {
            return &layout;
        }
    }
    return nullptr;
}

// A thread that runs no Python now, or belongs to a sub-interpreter, proves nothing. Only a limited number is checked.
bool shows_nothing(const void* thread) {
    constexpr int ENOUGH = 64;
    static std::atomic<int> looked_at{0};
    const PythonLayout* layout = layout_of_version();
    return layout && !current_frame(*layout, thread) && looked_at.fetch_add(1, order::ALONE) < ENOUGH;
}

Python find_python(const void* thread, ThisThread this_thread) {
    Python python;
    python.problem = "this version of Python is not known";
    if (const PythonLayout* layout = layout_of_version()) {
        python.problem = "the frames of this build of Python are not where they should be";
        if (layout_fits(*layout, thread)) {
            python.layout = layout;
            python.problem = nullptr;
        }
    }
    python.this_thread = this_thread;
    python.running = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "Py_IsInitialized"));
    python.owner_at = find_owner(thread);
    dl_iterate_phdr(is_ttnn, &python.ttnn);
    return python;
}

TTMEM_HOT_DATA std::atomic<const Python*> found{nullptr};

// A program without Python: dlsym() is slow, and waits for any thread that is loading a library.
constexpr std::uint32_t SELDOM = 4096;
std::atomic<std::uint32_t> not_asked_for{0};


// The state of this thread. Asking the interpreter takes half the time of a call site, so the main thread's state is
// remembered where it can be verified.
const void* state_of(const Python& python, ThreadState& own) {
    if (own.python && field<std::uint64_t>(own.python, python.owner_at) == own_identity()) {
        return own.python;
    }
    own.python = nullptr;
    // At its end the interpreter frees the states of threads that are still running here.
    const bool running = python.layout && python.running && python.running();
    const void* state = running ? python.this_thread() : nullptr;
    if (state && !own.python_known) {
        own.python_known = true;
        own.python = python.owner_at >= 0 && is_static(state) ? state : nullptr;
    }
    return state;
}

// Null for a thread without Python, which says nothing about the others.
const Python* python_of(ThreadState& own, const void*& thread) {
    const Python* known = found.load(order::OBSERVE);
    if (known) {
        thread = state_of(*known, own);
        return thread ? known : nullptr;
    }
    if (not_asked_for.load(order::ALONE)) {
        not_asked_for.fetch_sub(1, order::ALONE);
        return nullptr;
    }
    const auto this_thread =
        reinterpret_cast<ThisThread>(dlsym(RTLD_DEFAULT, "PyGILState_GetThisThreadState"));
    if (!this_thread) {
        not_asked_for.store(SELDOM, order::ALONE);
    }
    thread = this_thread ? this_thread() : nullptr;
    if (!thread || shows_nothing(thread)) {
        return nullptr;
    }
    Python* fresh = nullptr;
    try {
        fresh = new Python(find_python(thread, this_thread));
    } catch (...) {  // out of memory
        return nullptr;
    }
    if (!found.compare_exchange_strong(known, fresh)) {
        delete fresh;
        return python_of(own, thread);
    }
    return fresh->layout ? fresh : nullptr;
}

std::atomic<bool> ending{false};
std::atomic<int> walks{0};

// The main thread's own state stays; those of others may be freed, but not in the middle of a walk.
class Walk {
public:
    explicit Walk(const ThreadState& own) : counted_(!own.python) {
        if (counted_) {
            walks.fetch_add(1);
        }
    }
    ~Walk() {
        if (counted_) {
            walks.fetch_sub(1);
        }
    }
    Walk(const Walk&) = delete;
    Walk& operator=(const Walk&) = delete;
    bool too_late() const { return counted_ && ending.load(); }

private:
    const bool counted_;
};

class Frame {
public:
    Frame(const PythonLayout& layout, const void* at) : layout_(&layout), at_(at) { skip_entries(); }

    explicit operator bool() const { return at_; }
    const void* code() const { return field<void*>(at_, layout_->code); }
    const void* first_local() const { return field<void*>(at_, layout_->locals); }
    void go_out() {
        at_ = field<void*>(at_, layout_->previous);
        skip_entries();
    }
    std::uint32_t instruction() const {
        if (layout_->bytecode < 0) {
            return static_cast<std::uint32_t>(field<int>(at_, layout_->instruction));
        }
        const char* bytecode = static_cast<const char*>(code()) + layout_->bytecode;
        return static_cast<std::uint32_t>((field<const char*>(at_, layout_->instruction) - bytecode) / 2);
    }

private:
    void skip_entries() {
        while (at_ && layout_->owner >= 0 && field<char>(at_, layout_->owner) == OWNED_BY_C) {
            at_ = field<void*>(at_, layout_->previous);
        }
    }

    const PythonLayout* layout_;
    const void* at_;
};

bool belongs_to_ttnn(const Python& python, const void* code) {
    TextBuffer buffer;
    const Text file = text_of(*python.layout, field<void*>(code, python.layout->filename), buffer);
    return !python.ttnn.empty() && file.length >= python.ttnn.size() &&
           !std::memcmp(file.data, python.ttnn.data(), python.ttnn.size());
}

bool is_operation_call(const Python& python, const void* code) {
    TextBuffer one, other;
    const Text name = text_of(*python.layout, field<void*>(code, python.layout->name), one);
    const Text file = text_of(*python.layout, field<void*>(code, python.layout->filename), other);
    return name.is("__call__") && file.ends_with("decorators.py");
}

std::size_t describe(const Python& python, const Frame& frame, char* line, std::size_t size) {
    const void* code = frame.code();
    TextBuffer one, other;
    const Text file = text_of(*python.layout, field<void*>(code, python.layout->filename), one);
    const Text name = text_of(*python.layout, field<void*>(code, python.layout->name), other);
    const int written = std::snprintf(line, size, "%.*s:%d %.*s", static_cast<int>(file.length), file.data,
                                      line_of(*python.layout, code, frame.instruction()),
                                      static_cast<int>(name.length), name.data);
    return written < 0 ? 0 : std::min<std::size_t>(written, size - 1);
}

// The meaning of a frame, besides the numbers of sites, which are small.
constexpr std::uint32_t UNKNOWN = 0, OF_TTNN = 0xFFFFFFFFu, CALL_OF_OPERATION = 0xFFFFFFFEu, OF_USER = 0xFFFFFFFDu;

std::uint32_t find_meaning(Region& region, const Python& python, const Frame& frame) {
    if (belongs_to_ttnn(python, frame.code())) {
        return is_operation_call(python, frame.code()) ? CALL_OF_OPERATION : OF_TTNN;
    }
    if (region.header->options & STACKS) {
        return OF_USER;
    }
    char line[1024];
    return intern(region, line, describe(python, frame, line, sizeof line));
}

// Cached for each instruction: file names are long, and seldom in the CPU cache.
SiteCacheEntry& meaning_of(Region& region, ThreadState& thread, const Python& python, const Frame& frame) {
    const void* code = frame.code();
    const std::uint32_t instruction = frame.instruction();
    const PythonLayout& layout = *python.layout;
    const std::uint64_t identity = layout.version >= 0
                                       ? field<std::uint32_t>(code, layout.version)
                                       : field<std::uint64_t>(code, layout.line_table) ^
                                             field<std::uint64_t>(code, layout.filename);
    const auto address = reinterpret_cast<std::uint64_t>(code);
    SiteCacheEntry& entry = thread.sites[mixed(address, instruction) >> 30 & (SITE_CACHE - 1)];
    if (entry.meaning == UNKNOWN || entry.code != address || entry.instruction != instruction ||
        entry.identity != identity) {
        entry = {address, identity, instruction, find_meaning(region, python, frame), nullptr, 0};
    }
    return entry;
}

std::uint32_t name_of(SiteCacheEntry& site, const void* operation) {
    if (operation && (site.operation != operation || !site.name)) {
        site.operation = operation;
        site.name = operation_name(operation);
    }
    return operation ? site.name : 0;
}

std::uint32_t stack_of(Region& region, const Python& python, Frame frame) {
    constexpr char CUT[] = "\n(callers beyond these are not recorded)";
    char lines[MAX_TEXT];
    const std::size_t capacity = sizeof lines - sizeof CUT;
    std::size_t used = 0;
    for (int depth = 0; frame && depth < MAX_DEPTH && used + 2 < capacity; ++depth, frame.go_out()) {
        if (used) {
            lines[used++] = '\n';
        }
        used += describe(python, frame, lines + used, capacity - used);
    }
    if (frame) {
        std::memcpy(lines + used, CUT, sizeof CUT - 1);
        used += sizeof CUT - 1;
    }
    return intern(region, lines, used);
}

}  // namespace

PythonCaller python_caller(Region& region, ThreadState& thread) {
    PythonCaller caller{0, 0};
    const void* operation = nullptr;
    const void* state = nullptr;
    const Walk walk(thread);
    if (walk.too_late()) {
        return caller;
    }
    const Python* python = python_of(thread, state);
    if (!python) {
        return caller;
    }
    const PythonLayout& layout = *python->layout;
    const void* innermost = field<void*>(state, layout.thread_frame);
    if (innermost && layout.through >= 0) {
        innermost = field<void*>(innermost, layout.through);
    }
    Frame frame(layout, innermost);
    for (int depth = 0; frame && depth < MAX_DEPTH; ++depth, frame.go_out()) {
        SiteCacheEntry& known = meaning_of(region, thread, *python, frame);
        if (known.meaning == CALL_OF_OPERATION) {
            operation = frame.first_local();
        } else if (known.meaning != OF_TTNN) {
            caller.site = known.meaning == OF_USER ? stack_of(region, *python, frame) : known.meaning;
            caller.name = name_of(known, operation);
            break;
        }
    }
    return caller;
}

void stop_walks() {
    constexpr int PATIENCE = 100;  // times 100 us: a walk takes less than one
    ending.store(true);
    for (int i = 0; i < PATIENCE && walks.load(); ++i) {
        usleep(100);
    }
}

void forget_walks() { walks.store(0); }

const char* call_sites_missing() {
    const Python* known = found.load(order::OBSERVE);
    return known ? known->problem : nullptr;
}

}  // namespace ttmem::probe
