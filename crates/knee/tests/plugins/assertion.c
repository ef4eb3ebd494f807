#undef NDEBUG
#include <assert.h>

char *testcase_description = "Fails an assertion in one task";

void testcase(unsigned long long *iterations, unsigned long nr)
{
	assert(nr != 1);
	while (1) {
		(*iterations)++;
		__asm__ volatile("" ::: "memory");
	}
}
