#include "python_operations.hpp"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>

#include "address_table.hpp"
#include "python_frames.hpp"
#include "strings.hpp"

namespace ttmem::probe {

namespace {

struct Name {
    std::atomic<std::uint32_t> number;
    void clear() { number = 0; }
};

AddressTable<Name, 4096> names;
std::atomic<bool> asked{false};

// CPython's functions, by name: the library must load where there is no Python.
template <typename Signature>
Signature* python(const char* name) {
    return reinterpret_cast<Signature*>(dlsym(RTLD_DEFAULT, name));
}

class Reference {
public:
    explicit Reference(void* object) : object_(object) {}
    ~Reference() {
        if (object_) {
            python<void(void*)>("Py_DecRef")(object_);
        }
    }
    Reference(const Reference&) = delete;
    Reference& operator=(const Reference&) = delete;
    explicit operator bool() const { return object_; }
    void* get() const { return object_; }

private:
    void* object_;
};

void remember(Region& region, void* operation) {
    const auto attribute = python<void*(void*, const char*)>("PyObject_GetAttrString");
    const Reference name(attribute(operation, "python_fully_qualified_name"));
    std::ptrdiff_t length = 0;
    const char* text =
        name ? python<const char*(void*, std::ptrdiff_t*)>("PyUnicode_AsUTF8AndSize")(name.get(), &length) : nullptr;
    Name* entry = text ? names.find_or_insert(reinterpret_cast<std::uint64_t>(operation)) : nullptr;
    if (entry) {
        entry->number = intern(region, text, static_cast<std::size_t>(length));
    }
}

void* at_exit(void*, void*) {
    stop_walks();
    return python<void*(const char*, ...)>("Py_BuildValue")("");  // None
}

// As `atexit.register(at_exit)`: called while all threads still have their states.
void register_at_exit() {
    static std::atomic<bool> done{false};
    struct Method {  // CPython's PyMethodDef
        const char* name;
        void* (*function)(void*, void*);
        int flags;
        const char* doc;
    };
    constexpr int WITHOUT_ARGUMENTS = 4;
    static Method method{"ttmem_probe_at_exit", at_exit, WITHOUT_ARGUMENTS, nullptr};
    if (done.exchange(true)) {
        return;
    }
    const Reference module(python<void*(const char*)>("PyImport_ImportModule")("atexit"));
    const Reference function(python<void*(Method*, void*, void*)>("PyCFunction_NewEx")(&method, nullptr, nullptr));
    if (module && function) {
        const Reference kept(python<void*(void*, const char*, const char*, ...)>("PyObject_CallMethod")(
            module.get(), "register", "O", function.get()));
    }
}

// Runs in the main thread, with the GIL.
int list_operations(void*) {
    asked = false;
    register_at_exit();
    Region* region = mapped_region.load(order::OBSERVE);
    void* modules = python<void*()>("PyImport_GetModuleDict")();
    void* module = modules ? python<void*(void*, const char*)>("PyDict_GetItemString")(modules, "ttnn.decorators")
                           : nullptr;
    if (region && module) {
        const Reference all(
            python<void*(void*, const char*)>("PyObject_GetAttrString")(module, "REGISTERED_OPERATIONS"));
        const Reference iterator(all ? python<void*(void*)>("PyObject_GetIter")(all.get()) : nullptr);
        while (iterator) {
            const Reference operation(python<void*(void*)>("PyIter_Next")(iterator.get()));
            if (!operation) {
                break;
            }
            remember(*region, operation.get());
        }
    }
    python<void()>("PyErr_Clear")();
    return 0;
}

// A main thread that waits for its workers runs no Python: then a thread of our own waits for the GIL, so that nobody
// else has to. If the interpreter ends meanwhile, it ends this thread.
void* list_in_own_thread(void*) {
    const int before = python<int()>("PyGILState_Ensure")();
    list_operations(nullptr);
    python<void(int)>("PyGILState_Release")(before);
    return nullptr;
}

void do_not_wait_for_main() {
    constexpr std::uint32_t ENOUGH = 32;  // requests that the main thread has not handled
    static std::atomic<std::uint32_t> open_questions{0};
    if (open_questions.fetch_add(1, order::ALONE) != ENOUGH) {
        return;
    }
    pthread_attr_t detached;
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are the application's
    pthread_create(&thread, &detached, list_in_own_thread, nullptr);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    pthread_attr_destroy(&detached);
}

}  // namespace

std::uint32_t operation_name(const void* operation) {
    const auto key = reinterpret_cast<std::uint64_t>(operation);
    if (Name* known = names.find(key)) {
        const std::uint32_t number = known->number.load(order::ALONE);
        if (!number && asked.load(order::ALONE)) {
            do_not_wait_for_main();
        }
        return number;
    }
    names.find_or_insert(key);  // it is requested once
    ask_for_operations();
    return 0;
}

void ask_for_operations() {
    const auto later = python<int(int (*)(void*), void*)>("Py_AddPendingCall");
    const auto running = python<int()>("Py_IsInitialized");
    if (later && running && running() && !asked.exchange(true) && later(list_operations, nullptr) != 0) {
        asked = false;
    }
}

void forget_operations() {
    names.forget();
    asked = false;
}

}  // namespace ttmem::probe
