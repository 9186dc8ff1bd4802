// Whether AddressSanitizer or ThreadSanitizer is in this build: their shadows and quarantines take
// memory that no limit of ours should count.
#ifndef CHX_BASE_SANITIZERS_H_
#define CHX_BASE_SANITIZERS_H_

namespace chx {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)  // GCC
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)  // Clang
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
#else
inline constexpr bool kSanitized = false;
#endif

// How many rounds of a random test: a fifth of them under a sanitizer, which slows each down.
constexpr int Rounds(int rounds) { return kSanitized ? (rounds + 4) / 5 : rounds; }

}  // namespace chx

#endif  // CHX_BASE_SANITIZERS_H_
