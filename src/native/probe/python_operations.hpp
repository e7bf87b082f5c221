// The names of ttnn's operations, by the address of the object that the user called.
#pragma once

#include "region.hpp"

namespace ttmem::probe {

// 0 while the name is unknown. An unknown operation makes the interpreter list all of them, when the main thread next
// runs Python: nobody waits for the GIL.
std::uint32_t operation_name(const void* operation);

void ask_for_operations();

void forget_operations();  // in the child of a fork

}  // namespace ttmem::probe
