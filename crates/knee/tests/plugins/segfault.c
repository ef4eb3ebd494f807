#include <stddef.h>

char *testcase_description = "Dies after a while";

static int *volatile nowhere = NULL;

void testcase(unsigned long long *iterations, unsigned long nr)
{
	(void)nr;
	while ((*iterations)++ < 1000000)
		;
	*nowhere = 1;
}
