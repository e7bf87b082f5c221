#include "runtime.hpp"

#include <dlfcn.h>
#include <link.h>

#include <cstring>

namespace ttmem::probe {

namespace {

int is_runtime(dl_phdr_info* info, std::size_t, void* found) {
    const char* slash = info->dlpi_name ? std::strrchr(info->dlpi_name, '/') : nullptr;
    const char* file = slash ? slash + 1 : info->dlpi_name;
    if (file && !std::strncmp(file, "libtt_metal.so", 14)) {
        *static_cast<void**>(found) = dlopen(info->dlpi_name, RTLD_NOLOAD | RTLD_LAZY);
        return 1;
    }
    return 0;
}

// Kept open for ever: the addresses that were found in it must stay good.
std::atomic<void*> library{nullptr};

void* runtime_library() {
    void* known = library.load(std::memory_order_acquire);
    if (!known) {
        dl_iterate_phdr(is_runtime, &known);
        if (known) {
            library.store(known, std::memory_order_release);
        }
    }
    return known;
}

}  // namespace

void* Symbol::find() {
    void* handle = runtime_library();
    void* found = dlsym(handle ? handle : RTLD_NEXT, name_);
    if (found || handle) {
        address_.store(found, std::memory_order_release);
    }
    return found;
}

}  // namespace ttmem::probe
