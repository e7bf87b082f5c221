// Reads through the kernel, so that an invalid address is an error instead of a fault.
#pragma once

#include <sys/uio.h>
#include <unistd.h>

namespace ttmem::probe {

template <typename T>
bool careful_field(const void* object, int offset, T& value) {
    iovec to{&value, sizeof value};
    iovec from{const_cast<char*>(static_cast<const char*>(object)) + offset, sizeof value};
    return object && process_vm_readv(getpid(), &to, 1, &from, 1, 0) == static_cast<ssize_t>(sizeof value);
}

}  // namespace ttmem::probe
