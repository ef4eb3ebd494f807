char *testcase_description = "Returns";

void testcase(unsigned long long *iterations, unsigned long nr)
{
	(void)nr;
	while ((*iterations)++ < 1000)
		;
}
