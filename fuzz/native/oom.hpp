// Memory that runs out: operator new fails once, at the allocation that an input names.
//
// All forms are replaced, those that do not throw as well: std::stable_sort (libFuzzer's own, over the corpus) takes its
// buffer from new(std::nothrow) and gives it to plain delete, so one that was left to the sanitizer would meet ours.
#pragma once

#include <cstdlib>
#include <new>

inline long allocations_left = -1;  // negative: all succeed

inline void* allocate_or_fail(std::size_t size) noexcept {
    if (allocations_left >= 0 && allocations_left-- == 0) {
        return nullptr;
    }
    return std::malloc(size ? size : 1);
}

inline void* allocate_or_throw(std::size_t size) {
    if (void* made = allocate_or_fail(size)) {
        return made;
    }
    throw std::bad_alloc();
}

void* operator new(std::size_t size) { return allocate_or_throw(size); }
void* operator new[](std::size_t size) { return allocate_or_throw(size); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return allocate_or_fail(size); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return allocate_or_fail(size); }
void operator delete(void* at) noexcept { std::free(at); }
void operator delete[](void* at) noexcept { std::free(at); }
void operator delete(void* at, std::size_t) noexcept { std::free(at); }
void operator delete[](void* at, std::size_t) noexcept { std::free(at); }
void operator delete(void* at, const std::nothrow_t&) noexcept { std::free(at); }
void operator delete[](void* at, const std::nothrow_t&) noexcept { std::free(at); }
