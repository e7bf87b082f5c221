// What this runtime lets us see. A missing symbol switches one feature off, with one line, here and in the region.
#pragma once

#include "region.hpp"
#include "runtime.hpp"

namespace ttmem::probe {

// A static object beside the hooks that a feature is made of: it registers what they need. Files that serve the same feature
// name it alike; it works where the runtime has all of their symbols.
class Feature {
public:
    template <typename... Symbols>
    explicit Feature(const char* name, Symbols&... symbols) : name_(name), symbols_{&symbols...} {
        static_assert(sizeof...(symbols) <= MOST_SYMBOLS, "split it in two of the same name");
        *last_ = this;
        last_ = &next_;
    }
    Feature(const Feature&) = delete;
    Feature& operator=(const Feature&) = delete;

    static Feature* first() { return first_; }
    Feature* next() const { return next_; }
    const char* name() const { return name_; }
    const char* first_missing() const;  // null: all are there

private:
    static constexpr std::size_t MOST_SYMBOLS = 6;
    // Constant initialisers: these are there before the first object of any file is made.
    static inline Feature* first_ = nullptr;
    static inline Feature** last_ = &first_;

    const char* name_;
    Symbol* symbols_[MOST_SYMBOLS];
    Feature* next_ = nullptr;
};

void look_for_features(Region& region);

// A feature whose symbols are there turned out not to work after all.
void switch_off(const char* feature, const char* why);

}  // namespace ttmem::probe
