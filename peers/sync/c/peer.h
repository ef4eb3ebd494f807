/*
 * What the Rust side calls of a library in C. Loops are here, so that the library's inline functions
 * are inlined as in a program in C.
 */
#include <stdint.h>
#include <stdlib.h>

struct local;

struct peer {
	/* A thread takes part, outside of any section, until it leaves. */
	struct local *(*join)(void);
	void (*leave)(struct local *);
	/* n times: allocates an object, exchanges it for the thread's own, retires the old one. */
	void (*replace)(struct local *, uint64_t n, uint64_t how);
	/* Sections: n of them, n within another, n with a pointer followed in each. */
	void (*sections)(struct local *, uint64_t n);
	void (*nested)(struct local *, uint64_t n);
	void (*load)(struct local *, uint64_t n);
	/* n of what only this library has. */
	void (*special)(struct local *, uint64_t n);
	void (*synchronize)(struct local *, uint64_t n);
	void (*enter)(struct local *);
	void (*exit)(struct local *);
	/* Frees all that is retired. */
	void (*drain)(struct local *);
};

/* The calling thread's count of objects that it has retired, less those that it has freed. */
extern int64_t *peers_live(uint64_t id);

static __thread int64_t *live;

/* The callbacks of all threads count, those of the library's own as well. */
static inline void
count(int64_t by)
{
	if (live == NULL)
		live = peers_live(ID);
	__atomic_store_n(live, __atomic_load_n(live, __ATOMIC_RELAXED) + by, __ATOMIC_RELAXED);
}

/* As black_box: the value is needed. */
#define NEED(value) __asm__ volatile("" : : "r"(value) : "memory")
