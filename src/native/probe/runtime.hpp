// Functions of the runtime, found by name in the libtt_metal.so that this process has loaded.
#pragma once

#include <utility>

#include "hot.hpp"
#include "memory_order.hpp"

namespace ttmem::probe {

// Looked up once. RTLD_NEXT would not work: a Python extension loads libtt_metal.so into a scope of its own.
class Symbol {
public:
    constexpr explicit Symbol(const char* name) : name_(name) {}

    // Null if this runtime does not have it.
    void* address() {
        void* known = address_.load(order::OBSERVE);
        return known == unknown() ? find() : known;
    }
    const char* name() const { return name_; }

private:
    static inline char not_looked_up = 0;
    static constexpr void* unknown() { return &not_looked_up; }
    void* find();

    const char* name_;
    std::atomic<void*> address_{unknown()};
};

template <typename Signature>
class Function;

template <typename Result, typename... Arguments>
class Function<Result(Arguments...)> : public Symbol {
public:
    using Symbol::Symbol;

    Result operator()(Arguments... arguments) {
        auto* function = reinterpret_cast<Result (*)(Arguments...)>(address());
        if (!function) {
            return Result();
        }
        return function(std::forward<Arguments>(arguments)...);
    }
};

// A hook: our function under the runtime's name, and `name_real`, the runtime's own.
#define TTMEM_HOOK(result, name, symbol, ...)                                                        \
    TTMEM_HOT_DATA static ::ttmem::probe::Function<result(__VA_ARGS__)> name##_real{symbol};         \
    extern "C" __attribute__((visibility("default"))) TTMEM_HOT_CODE result name(__VA_ARGS__) asm(symbol);

}  // namespace ttmem::probe
