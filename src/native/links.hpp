// Doubly linked lists through chosen members, and the mixing function of hashes: shared by the ledger's parts.
#pragma once

#include <cstdint>

namespace ttmem {

inline std::uint64_t mix(std::uint64_t x) {
    x ^= x >> 33, x *= 0xff51afd7ed558ccdull, x ^= x >> 33, x *= 0xc4ceb9fe1a85ec53ull;
    return x ^ (x >> 33);
}

template <typename T>
void link_into(T*& head, T& item, T* T::*previous, T* T::*next) {
    item.*previous = nullptr;
    item.*next = head;
    if (head) {
        head->*previous = &item;
    }
    head = &item;
}

template <typename T>
void unlink_from(T*& head, T& item, T* T::*previous, T* T::*next) {
    (item.*previous ? (item.*previous)->*next : head) = item.*next;
    if (item.*next) {
        (item.*next)->*previous = item.*previous;
    }
}

}  // namespace ttmem
