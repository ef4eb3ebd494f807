#include <unistd.h>

char *testcase_description = "Never gets ready";

void testcase_prepare(unsigned long nr_tasks)
{
	(void)nr_tasks;
	while (1)
		pause();
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	(void)nr;
	(*iterations)++;
}
