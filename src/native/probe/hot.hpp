// Placement of code and data.
#pragma once

// What nearly every call needs is kept together. Between two calls the application evicts it from the caches: each line
// and page that a hook touches costs more than its instructions.
#define TTMEM_HOT_DATA __attribute__((section("ttmem_hot_data")))
#define TTMEM_HOT_CODE __attribute__((section("ttmem_hot_code")))
// The rest of a hook, out of the way of calls that are not recorded.
#define TTMEM_RECORDS __attribute__((noinline))
