// Facts about a buffer, read from the runtime.
//
// Newer runtimes export a function for each fact. In older ones (0.69 to 0.75 were examined) most of these are inline;
// there the facts are read from the object, after the first buffer has confirmed, through the functions that are
// exported, that they are where those versions have them. If not, buffers are off.
#pragma once

#include <cstdint>

namespace ttmem::probe {

struct BufferFacts {
    std::uint64_t id;
    std::uint64_t size;
    const void* device;
    std::uint32_t kind;    // the runtime's BufferType
    std::uint32_t layout;  // the runtime's TensorMemoryLayout
};

// Only the id; false if it is not known yet how this runtime provides it.
bool buffer_id(const void* buffer, std::uint64_t& id);

// True if a later buffer has a higher id: it is not just its address.
bool ids_are_numbers();

// False if this runtime does not provide it.
bool buffer_facts(const void* buffer, BufferFacts& facts);

}  // namespace ttmem::probe
