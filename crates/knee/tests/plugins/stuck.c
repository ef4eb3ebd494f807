#include <unistd.h>

char *testcase_description = "Never counts";

void testcase(unsigned long long *iterations, unsigned long nr)
{
	(void)iterations;
	(void)nr;
	while (1)
		pause();
}
