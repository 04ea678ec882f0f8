// SPDX-License-Identifier: Apache-2.0
/*
 * base.h - the words every other file is written in.
 *
 * Guest-physical addresses and little-endian wire integers are structs, so that mixing them up with host numbers
 * fails to compile. Cleanups are attributes, so that a function has one way out. Nothing here allocates or blocks.
 */
#ifndef VMM_BASE_H
#define VMM_BASE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ARRAY_LEN(a)      (sizeof(a) / sizeof((a)[0]))
#define must_check        __attribute__((warn_unused_result))
#define rare              __attribute__((cold, noinline)) /* kept out of the way of what is not */
#define printf_like(f, a) __attribute__((format(printf, f, a)))
#define ALIGN_UP(x, a)    (((x) + ((__typeof__(x))(a)-1)) & ~((__typeof__(x))(a)-1))
#define ALIGN_DOWN(x, a)  ((x) & ~((__typeof__(x))(a)-1))
#define IS_ALIGNED(x, a)  (((x) & ((__typeof__(x))(a)-1)) == 0)
#define KIB(n)            ((uint64_t)(n) << 10)
#define MIB(n)            ((uint64_t)(n) << 20)
#define GIB(n)            ((uint64_t)(n) << 30)
#define container_of(p, type, member)                               \
	({                                                          \
		const __typeof__(((type *)(p))->member) *mp_ = (p); \
		(type *)((uintptr_t)mp_ - offsetof(type, member));  \
	})
#define MIN(a, b)                       \
	({                              \
		__typeof__(a) a_ = (a); \
		__typeof__(b) b_ = (b); \
		a_ < b_ ? a_ : b_;      \
	})
#define MAX(a, b)                       \
	({                              \
		__typeof__(a) a_ = (a); \
		__typeof__(b) b_ = (b); \
		a_ > b_ ? a_ : b_;      \
	})

static inline bool is_pow2(uint64_t v)
{
	return v && !(v & (v - 1));
}

/* A guest-physical address: cannot be dereferenced, added to, or passed as a length. */
typedef struct {
	uint64_t v;
} gpa_t;
#define GPA(x) ((gpa_t){(uint64_t)(x)})

/* Integers as they lie in guest memory and on the wire; only leNN_get() yields a number. */
typedef struct {
	uint16_t raw;
} le16;
typedef struct {
	uint32_t raw;
} le32;
typedef struct {
	uint64_t raw;
} le64;

static inline uint16_t le16_get(le16 v)
{
	return le16toh(v.raw);
}
static inline uint32_t le32_get(le32 v)
{
	return le32toh(v.raw);
}
static inline uint64_t le64_get(le64 v)
{
	return le64toh(v.raw);
}
static inline le16 le16_of(uint16_t v)
{
	return (le16){htole16(v)};
}
static inline le32 le32_of(uint32_t v)
{
	return (le32){htole32(v)};
}
static inline le64 le64_of(uint64_t v)
{
	return (le64){htole64(v)};
}

/* Closes *fd if it is open (>= 0); errno is kept. Descriptors in structs start at -1. */
static inline void close_fd(int *fd)
{
	int saved = errno;

	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	errno = saved;
}
static inline void free_ptr(void *p)
{
	free(*(void **)p);
}
/* A local that is closed / freed at the end of its scope unless take_fd() / take_ptr() moved it out. */
#define auto_fd   __attribute__((cleanup(close_fd))) int
#define auto_free __attribute__((cleanup(free_ptr)))

/*
 * A large local that the next call fills, or fails. Release builds zero what is not initialised, so that nothing ever
 * reads the stack's leavings; where a request would do that several times over, this says that there is no need.
 */
#define uninit __attribute__((uninitialized))

static inline int take_fd(int *fd)
{
	int v = *fd;

	*fd = -1;
	return v;
}
#define take_ptr(p)                         \
	({                                  \
		__typeof__(*(p)) v_ = *(p); \
		*(p) = NULL;                \
		v_;                         \
	})

#endif
