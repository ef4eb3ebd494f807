// Spends known shares of its time in known functions: a unit of work is always the same, and is done so
// often by each. Two threads do all of it, one after the other has begun.

#include <pthread.h>

static volatile unsigned long sink;

#define APART __attribute__((noinline, noclone))

// gcc leaves the frame out of functions that call none, whatever it is told; the kernel then misses their
// callers.
#define FRAME __asm__ volatile("" : : "r"(__builtin_frame_address(0)))

APART void unit(void)
{
	FRAME;
	unsigned long x = sink | 1;
	for (int i = 0; i < 20000; i++)
		x ^= x << 13, x ^= x >> 7, x ^= x << 17;
	sink = x;
}

APART void one_of_ten(void)
{
	unit();
	sink++;
}

APART void three_of_ten(void)
{
	for (int i = 0; i < 3; i++)
		unit();
	sink++;
}

static inline __attribute__((always_inline)) void folded_in(void)
{
	FRAME;
	unsigned long x = sink | 1;
	for (int i = 0; i < 40000; i++)
		x ^= x << 13, x ^= x >> 7, x ^= x << 17;
	sink = x;
}

APART void two_of_ten(void)
{
	folded_in();
	sink++;
}

APART void down(int levels)
{
	if (levels == 0)
		for (int i = 0; i < 4; i++)
			unit();
	else
		down(levels - 1);
	sink++;
}

APART void *work(void *rounds)
{
	for (long round = 0; round < (long)rounds; round++) {
		one_of_ten();
		three_of_ten();
		two_of_ten();
		down(40);
	}
	return 0;
}

int main(void)
{
	pthread_t other;
	pthread_create(&other, 0, work, (void *)ROUNDS);
	work((void *)ROUNDS);
	pthread_join(other, 0);
	return 0;
}
