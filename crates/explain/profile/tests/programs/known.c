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

APART void deep(void)
{
	down(40);
	sink++;
}

static void (*const PARTS[])(void) = {one_of_ten, three_of_ten, two_of_ten, deep};

// Each part is called so often by each thread, and in an order without a period: of a program that repeats
// itself, samples at equal distances could see the same part again and again.
APART void *work(void *seed)
{
	static __thread unsigned char order[4 * ROUNDS];
	unsigned long random = (unsigned long)seed;
	for (int i = 0; i < 4 * ROUNDS; i++) {
		random ^= random << 13, random ^= random >> 7, random ^= random << 17;
		int other = random % (i + 1);
		order[i] = order[other];
		order[other] = i % 4;
	}
	for (int i = 0; i < 4 * ROUNDS; i++)
		PARTS[order[i]]();
	return 0;
}

int main(void)
{
	pthread_t other;
	pthread_create(&other, 0, work, (void *)0x9e3779b97f4a7c15);
	work((void *)0xd1342543de82ef95);
	pthread_join(other, 0);
	return 0;
}
