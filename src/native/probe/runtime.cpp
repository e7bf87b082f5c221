// Once per function of the runtime: small code is preferred.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("Os")
#endif

#include "runtime.hpp"

#include <dlfcn.h>
#include <link.h>

#include <cstring>
#include <string>
#include <vector>

namespace ttmem::probe {

namespace {

constexpr char RUNTIME[] = "libtt_metal";

struct Paths {
    std::string runtime;
    std::vector<std::string> all;
};

// Only collects names: loading a library here, which dlopen() does even if it is loaded, could wait for a thread that
// is loading one and waits for us.
int note_path(dl_phdr_info* info, std::size_t, void* data) {
    if (!info->dlpi_name || !*info->dlpi_name) {
        return 0;
    }
    auto& paths = *static_cast<Paths*>(data);
    const char* slash = std::strrchr(info->dlpi_name, '/');
    const char* file = slash ? slash + 1 : info->dlpi_name;
    if (!std::strncmp(file, RUNTIME, sizeof RUNTIME - 1) && paths.runtime.empty()) {
        paths.runtime = info->dlpi_name;
    }
    paths.all.emplace_back(info->dlpi_name);
    return 0;
}

int note_path_safely(dl_phdr_info* info, std::size_t size, void* data) {
    try {
        return note_path(info, size, data);
    } catch (...) {  // out of memory for a name
        return 1;
    }
}

bool is_own(void* address) {
    Dl_info found, own;
    return dladdr(address, &found) && dladdr(reinterpret_cast<void*>(&note_path), &own) &&
           found.dli_fbase == own.dli_fbase;
}

// Never closed: the addresses found in it must stay valid.
std::atomic<void*> library{nullptr};

// If the runtime has another name, it is whichever library has the function, besides ours.
void* runtime_library(const char* function) {
    void* known = library.load(order::OBSERVE);
    if (known) {
        return known;
    }
    Paths paths;
    dl_iterate_phdr(note_path_safely, &paths);
    if (!paths.runtime.empty()) {
        known = dlopen(paths.runtime.c_str(), RTLD_NOLOAD | RTLD_LAZY);
    }
    for (std::size_t i = 0; !known && i < paths.all.size(); ++i) {
        void* handle = dlopen(paths.all[i].c_str(), RTLD_NOLOAD | RTLD_LAZY);
        void* found = handle ? dlsym(handle, function) : nullptr;
        if (found && !is_own(found)) {
            known = handle;
        } else if (handle) {
            dlclose(handle);
        }
    }
    if (known) {
        library.store(known, order::PUBLISH);
    }
    return known;
}

}  // namespace

void* Symbol::find() {
    void* handle = runtime_library(name_);
    void* found = dlsym(handle ? handle : RTLD_NEXT, name_);
    if (found || handle) {
        address_.store(found, order::PUBLISH);
    }
    return found;
}

}  // namespace ttmem::probe
