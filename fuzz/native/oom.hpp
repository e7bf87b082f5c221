// Memory that runs out: operator new fails once, at the allocation that an input names.
#pragma once

#include <cstdlib>
#include <new>

// The fuzzer's own memory comes from one operator new and may go to another's delete.
extern "C" const char* __asan_default_options() { return "alloc_dealloc_mismatch=0"; }

inline long allocations_left = -1;  // negative: all succeed

inline void* allocate_or_fail(std::size_t size) {
    if (allocations_left >= 0 && allocations_left-- == 0) {
        throw std::bad_alloc();
    }
    if (void* made = std::malloc(size ? size : 1)) {
        return made;
    }
    throw std::bad_alloc();
}

void* operator new(std::size_t size) { return allocate_or_fail(size); }
void* operator new[](std::size_t size) { return allocate_or_fail(size); }
void operator delete(void* at) noexcept { std::free(at); }
void operator delete[](void* at) noexcept { std::free(at); }
void operator delete(void* at, std::size_t) noexcept { std::free(at); }
void operator delete[](void* at, std::size_t) noexcept { std::free(at); }
